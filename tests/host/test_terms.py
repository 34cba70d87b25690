"""The conditions that `and` joins."""

import pytest

from cadence_runtime.host.expression import parse, terms


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a", ["a"]),
        ("a and b", ["a", "b"]),
        ("a < 1 and (b or c) and not d", ["a < 1", "b or c", "not d"]),
        ("a and (b and c)", ["a", "b", "c"]),
        ("a and b or c", ["a and b or c"]),
    ],
)
def test_terms(text: str, parts: list[str]) -> None:
    found = terms(parse(text))
    assert [term.text for term in found] == parts
    for a in (0, 1):
        env = dict.fromkeys("abcd", a)
        assert bool(parse(text).evaluate(env)) == all(term.evaluate(env) for term in found)
