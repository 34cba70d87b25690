"""Choices of an event, read off the shapes of what was pushed."""

import pytest

from cadence_runtime.choices import read_choices
from cadence_runtime.errors import SessionError
from cadence_runtime.host.expression import parse
from cadence_runtime.host.program import Choice, Event, EventInput


def event(*sizes: str, lets: tuple[tuple[str, str], ...] = ()) -> Event:
    """Return an event with choices n and m, each 0 to 9, and one input of these sizes."""
    shape = tuple(map(parse, sizes))
    named = tuple((name, parse(text)) for name, text in lets)
    return Event("talk", choices=(Choice("n", 0, 10), Choice("m", 0, 10)), lets=named, inputs=(EventInput("x", shape),))


def test_a_size_that_names_a_choice_says_it() -> None:
    assert read_choices(event("1", "n", "m"), {"x": (1, 3, 5)}, {}, {}) == {"n": 3, "m": 5}


def test_sizes_that_are_worked_out_are_solved() -> None:
    found = read_choices(event("2 * n + p", "k", lets=(("k", "m * m"),)), {"x": (11, 49)}, {}, {"p": 5})
    assert found == {"n": 3, "m": 7}


def test_what_is_given_by_name_counts() -> None:
    assert read_choices(event("n"), {"x": (4,)}, {"m": 2}, {}) == {"n": 4, "m": 2}


def test_a_choice_that_no_shape_shows_is_asked_for() -> None:
    with pytest.raises(SessionError) as caught:
        read_choices(event("n"), {"x": (4,)}, {}, {})
    assert str(caught.value) == (
        "CAD7058: what is pushed to event `talk` leaves its choice `m` open\n"
        "  expected: `m` from 0 to 9\n"
        "  got:      0 and 1 both fit\n"
        '  hint:     give it by name: `push("talk", m=0)`'
    )


def test_shapes_that_no_choice_makes_are_refused() -> None:
    with pytest.raises(SessionError, match="CAD7051"):
        read_choices(event("2 * n", "m"), {"x": (5, 1)}, {}, {})
