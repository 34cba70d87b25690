"""The command line: one click command a verb, without logic of its own."""

import os
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line of this process."""
    try:
        # Imported here, so that importing the package costs nothing, and an interrupt at once is no traceback.
        from cadencec.cli.app import app

        app.main()
        code = 0
    except SystemExit as done:
        code = done.code if isinstance(done.code, int) else int(done.code is not None)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        code = 130
    _leave(code)


def _leave(code: int) -> NoReturn:
    """End the process. One whose device memory came from the recording allocator ends at once: torch gives memory back
    after the interpreter, and with it the allocator, is gone."""
    if "cadencec.targets.cuda.allocator" in sys.modules:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
