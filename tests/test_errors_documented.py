"""Every error code of the sources is documented once, in the table of its family, and has a test; and no other is."""

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted(path for tree in ("cadencec", "runtime_stub") for path in (ROOT / tree).rglob("*.py"))
TESTS = sorted(path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__))

FAMILIES = {
    "1": "spec",
    "2": "timeline",
    "3": "trace",
    "4": "target",
    "5": "plan",
    "6": "incompatible",
    "7": "session",
    "8": "device",
    "9": "usage",
}
ROW = re.compile(r"^\| (CAD\d{4}) \| \S.* \| \S.* \|$")


def used() -> set[str]:
    """Codes that stand as strings in the sources, so not those that a docstring mentions."""
    found = {path: set(re.findall(r"""["'](CAD\d{4})["']""", path.read_text())) for path in SOURCES}
    return set().union(*found.values())


def documented() -> Counter[str]:
    return Counter(
        match[1]
        for page in sorted((ROOT / "docs" / "errors").glob("*.md"))
        for line in page.read_text().splitlines()
        if (match := ROW.match(line))
    )


def test_every_code_is_documented_once_and_every_documented_code_is_used() -> None:
    table = documented()
    assert {code: count for code, count in table.items() if count > 1} == {}
    assert sorted(used() - table.keys()) == []
    assert sorted(table.keys() - used()) == []


@pytest.mark.parametrize("family", FAMILIES.values())
def test_each_family_has_a_page_with_only_its_codes(family: str) -> None:
    page = (ROOT / "docs" / "errors" / f"{family}.md").read_text()
    rows = [match[1] for line in page.splitlines() if (match := ROW.match(line))]
    assert rows == sorted(rows)
    assert {FAMILIES[code[3]] for code in rows} == {family}
    assert f"errors/{family}.md" in (ROOT / "docs" / "errors.md").read_text()


def test_every_code_has_a_test() -> None:
    text = "\n".join(path.read_text() for path in TESTS)
    assert sorted(code for code in used() if code not in text and code.lower() not in text) == []
