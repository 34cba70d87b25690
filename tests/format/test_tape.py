"""Views of a tape as ranges of bytes."""

from cadence_runtime.format.tape import View


def test_the_span_of_a_strided_view_ends_behind_its_last_element() -> None:
    assert View(0, "float32", (2, 3), (10, 2), 5).span() == (20, 80)


def test_a_view_without_elements_touches_nothing_wherever_it_stands() -> None:
    assert View(0, "float32", (0, 4), (4, 1), 7).span() == (0, 0)
