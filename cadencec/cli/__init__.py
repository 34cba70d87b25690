"""The command line: one click command a verb, without logic of its own."""

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line of this process."""
    try:
        # Imported here, so that importing the package costs nothing, and an interrupt at once is no traceback.
        from cadencec.cli.app import app

        app.main()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
