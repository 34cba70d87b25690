"""The audit of pins: what it says, and when it fails."""

import pytest

from scripts.audit import told

KNOWN = {"name": "a", "version": "1", "vulns": []}
FAULTY = {"name": "b", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2.1"]}]}
STRANGE = {"name": "c", "skip_reason": "not found"}


def test_pins_without_vulnerabilities(capsys: pytest.CaptureFixture[str]) -> None:
    assert told([KNOWN, STRANGE]) == 0
    assert capsys.readouterr().out == "audit: 1 of 2 pins are known to pypi.org\n"


def test_a_pin_with_a_vulnerability_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert told([KNOWN, FAULTY, STRANGE]) == 1
    assert capsys.readouterr().out.endswith("  b 2: PYSEC-1, fixed in ['2.1']\n")
