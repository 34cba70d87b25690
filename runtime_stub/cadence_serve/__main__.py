"""`python -m cadence_serve PLAN`: the server where there is no compiler. Options are those of `cadencec serve`."""

import argparse
import sys
from typing import NoReturn

from cadence_runtime.errors import CadenceError
from cadence_serve import start
from cadence_serve.options import OPTIONS, settings_of


def main() -> NoReturn:
    """Serve until a signal; exit with the code of what went wrong."""
    parser = argparse.ArgumentParser(prog="python -m cadence_serve", description="Serve live sessions of a plan.")
    parser.add_argument("plan", metavar="PLAN")
    for option in OPTIONS:
        if option.kind is bool:
            parser.add_argument(option.flag, action="store_true", help=option.text)
        else:
            action = "append" if option.repeats else "store"
            parser.add_argument(option.flag, metavar=option.metavar, type=option.kind, action=action, help=option.text)
    given = {
        name: value for name, value in vars(parser.parse_args()).items() if value is not None and value is not False
    }
    try:
        start(settings_of(given), lambda address: print(address, flush=True))
    except CadenceError as error:
        sys.stderr.write(f"error {error}\n")
        sys.exit(error.exit_code)
    sys.exit(0)


if __name__ == "__main__":
    main()
