"""`docs/cli.md` says what the commands say."""

import runpy

from tests.cli.conftest import ROOT


def test_the_reference_is_not_stale() -> None:
    made = runpy.run_path(str(ROOT / "scripts" / "cli_reference.py"))["reference"]()
    assert (ROOT / "docs" / "cli.md").read_text() == made, "run `.venv/bin/python scripts/cli_reference.py`"
