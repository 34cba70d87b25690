"""Whatever the bytes, the loader returns a Spec or raises a CadenceError whose messages all have a code and a place."""

import re
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cadence_runtime.errors import CadenceError, ErrorList
from cadence_runtime.host.program import Program
from cadence_runtime.host.resolve import check_references
from cadencec.spec import parse_spec
from cadencec.spec.source import decode
from tests.spec.example import BASE

ROOT = Path(__file__).parents[2]
TEXTS = [BASE, *(path.read_text() for path in sorted((ROOT / "specs").glob("*.yaml")))]
WORDS = re.findall(r"[\w.]+|[^\w\s]|\n *", "".join(TEXTS))
SCRAPS = [
    *sorted(set(WORDS)),
    "\t",
    "&a ",
    "*a",
    "!!x ",
    "012",
    "1e3",
    "- ",
    "? ",
    "| ",
    "> ",
    "'",
    '"',
    "#",
    "%",
    "\ufeff",
    "é",
    "\0",
]

slow = settings(suppress_health_check=[HealthCheck.too_slow])


def load(data: bytes, overrides: dict[str, str] | None = None) -> Program | None:
    """Return the program, or None for a spec that is properly refused."""
    try:
        return parse_spec(decode(data, "a.yaml"), "a.yaml", overrides).program
    except CadenceError as error:
        for part in error.errors if isinstance(error, ErrorList) else (error,):
            assert re.fullmatch(r"CAD1\d{3}", part.code)
            assert re.match(r"a\.yaml(:\d+:\d+)?$|--set ", part.at or ""), part
            assert part.what and not part.what.endswith(".")
        return None


def accepted(program: Program | None) -> None:
    """Hold that what the loader lets pass refers to nothing that is not there."""
    if program is not None:
        check_references(program)


@given(st.binary(max_size=200))
@slow
def test_any_bytes(data: bytes) -> None:
    load(data)


@given(st.data())
@slow
def test_specs_with_pieces_replaced(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(TEXTS))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 6))
        text = text[:at] + data.draw(st.sampled_from(SCRAPS)) + text[at + cut :]
    accepted(load(text.encode()))


@given(st.data())
@slow
def test_specs_with_words_swapped(data: st.DataObject) -> None:
    parts = re.split(r"(\w+)", data.draw(st.sampled_from(TEXTS)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(parts) // 2 - 1)) * 2 + 1
        parts[at] = data.draw(st.sampled_from(WORDS))
    accepted(load("".join(parts).encode()))


leaves = (
    st.none()
    | st.booleans()
    | st.integers(-3, 300)
    | st.sampled_from(["t", "P", "buf", "kv", "a b", "1..2", "x[y]", ""])
)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "token", "window"]), inner, max_size=2)
    ),
)


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value in plain data."""
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [path, *(found for key, child in children for found in places(child, (*path, key)))]


@given(st.data())
@slow
def test_specs_with_values_replaced(data: st.DataObject) -> None:
    document = yaml.safe_load(data.draw(st.sampled_from(TEXTS)))
    for _ in range(data.draw(st.integers(1, 2))):
        *path, last = data.draw(st.sampled_from(places(document)[1:]))
        node = document
        for step in path:
            node = node[step]
        if isinstance(node, dict) and data.draw(st.booleans()):
            node[data.draw(st.sampled_from(["t", "kv", "token", "inputs", "extra"]))] = node.pop(last)
        else:
            node[last] = data.draw(values)
    accepted(load(yaml.safe_dump(document, sort_keys=False).encode()))


@given(
    st.sampled_from(["P", "width", "regions.kv.retain", "horizon", "events", "nothing", "regions.kv"]) | st.text(),
    st.text(),
)
@slow
def test_any_override(name: str, value: str) -> None:
    accepted(load(BASE.encode(), {name: value}))
