"""Write `docs/cli.md` from the commands themselves: `python scripts/cli_reference.py`.

`tests/cli/test_reference.py` fails when the page is stale.
"""

from collections.abc import Iterator
from pathlib import Path

import click

from cadencec.cli.app import app
from cadencec.cli.options import PROGRAM

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"

HEAD = """\
# Command line

Written by `scripts/cli_reference.py` from the commands; do not edit.

Results go to stdout, talk and progress to stderr; a bar shows only on a terminal, and `NO_COLOR` is respected. A
reader that closes the pipe early is no error. `--json` prints one object with a `schema` such as `cadencec.check/1`:
fields may be added under one number, and a field that changes or goes raises it. Exit codes: 0 ok, 1 the work failed,
2 usage or spec error, 3 differs or incompatible, 130 interrupted; [errors](errors.md) has every code.
"""


def reference() -> str:
    """Return the page."""
    return "\n".join([HEAD, *_sections()])


def _sections() -> Iterator[str]:
    root = click.Context(app, info_name=PROGRAM, max_content_width=100)
    for name, command in app.commands.items():
        context = click.Context(command, info_name=name, parent=root, max_content_width=100, terminal_width=100)
        yield f"## {PROGRAM} {name}\n\n```\n{command.get_help(context)}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(reference())
