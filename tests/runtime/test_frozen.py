"""Frozen classes against those of `dataclasses`: the same objects, the same errors where it matters."""

import copy
import pickle
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cadence_runtime.frozen import frozen


@frozen
class Point:
    """Ours."""

    x: int
    y: "int | None" = 2
    names: tuple[str, ...] = ()

    @property
    def double(self) -> int:
        return 2 * self.x


@dataclass(frozen=True, slots=True)
class Like:
    """Theirs."""

    x: int
    y: "int | None" = 2
    names: tuple[str, ...] = ()


@frozen(compared=("name",))
class Named:
    """Told apart by one field."""

    name: str
    column: int


@frozen
class Even:
    """Checks itself."""

    value: int

    def __post_init__(self) -> None:
        if self.value % 2:
            raise ValueError("odd")


VALUES = st.lists(st.integers(0, 3), max_size=4)
NAMED = st.dictionaries(st.sampled_from(["x", "y", "names", "z"]), st.integers(0, 3), max_size=3)


def made(kind: Any, values: list[int], named: dict[str, int]) -> dict[str, Any] | str:
    try:
        return asdict(kind(*values, **named))
    except TypeError as error:
        return type(error).__name__


@given(VALUES, NAMED)
def test_it_takes_what_a_dataclass_takes(values: list[int], named: dict[str, int]) -> None:
    assert made(Point, values, named) == made(Like, values, named)


@given(st.tuples(st.integers(0, 1), st.integers(0, 1)), st.tuples(st.integers(0, 1), st.integers(0, 1)))
def test_it_is_equal_and_hashed_by_its_fields(one: tuple[int, int], other: tuple[int, int]) -> None:
    assert (Point(*one) == Point(*other)) == (one == other)
    assert (len({Point(*one), Point(*other)}) == 1) == (one == other)
    assert Point(*one) != Like(*one)


def test_it_stays_as_it_is_and_has_no_other_fields() -> None:
    point = Point(1)
    for change in (lambda: setattr(point, "x", 3), lambda: setattr(point, "z", 3), lambda: delattr(point, "x")):
        with pytest.raises(AttributeError, match="Point is frozen"):
            change()
    assert (point.x, point.double, hasattr(point, "__dict__")) == (1, 2, False)


def test_to_others_it_is_a_dataclass() -> None:
    point = Point(1, names=("a",))
    assert is_dataclass(Point)
    assert [field.name for field in fields(Point)] == ["x", "y", "names"]
    assert asdict(point) == {"x": 1, "y": 2, "names": ("a",)}
    assert replace(point, y=None) == Point(1, None, ("a",))
    assert pickle.loads(pickle.dumps(point)) == copy.deepcopy(point) == point  # noqa: S301 - our own bytes
    assert repr(point) == "Point(x=1, y=2, names=('a',))"
    assert (Point.__doc__, Point.__match_args__) == ("Ours.", ("x", "y", "names"))
    match point:
        case Point(x, _, names):
            assert (x, names) == (1, ("a",))


def test_fields_that_do_not_count() -> None:
    assert Named("a", 1) == Named("a", 2) != Named("b", 1)
    assert (hash(Named("a", 1)), repr(Named("a", 1))) == (hash(Named("a", 2)), "Named(name='a')")
    assert pickle.loads(pickle.dumps(Named("a", 2))).column == 2  # noqa: S301 - our own bytes


def test_what_it_checks_itself() -> None:
    assert Even(2).value == 2
    with pytest.raises(ValueError, match="odd"):
        Even(3)


def test_the_error_names_the_fields() -> None:
    with pytest.raises(TypeError) as caught:
        Point(1, z=3)  # type: ignore[call-arg]
    assert str(caught.value) == "Point has the fields x, y, names, and got 1 values and z"
