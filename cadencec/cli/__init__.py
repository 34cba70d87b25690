"""The command line: one click command a verb, without logic of its own."""

from typing import NoReturn


def main() -> NoReturn:
    """Run the command line of this process."""
    # Imported here, so that importing the package costs nothing.
    from cadencec.cli.app import app

    app.main()
