"""Choices by number: what a plan says of pushes is looked up by one small integer.

Python's hash of a tuple of ints is the same everywhere, and a plan can name tuples by the thousand whose hashes are
equal: a table of them would take the time of all its pairs. So choices are counted, the last one fastest:

    a 0..2, b 5..7     (0, 5) -> 0   (0, 6) -> 1   (0, 7) -> 2   (1, 5) -> 3   ...
"""

from collections.abc import Sequence

from cadence_runtime.host.program import Event


def choices_number(event: Event, choices: Sequence[int]) -> int | None:
    """Return which of all choices of an event these are; None for some that it does not offer."""
    if len(choices) != len(event.choices):
        return None
    number = 0
    for choice, value in zip(event.choices, choices, strict=True):
        if not choice.lower <= value < choice.upper:
            return None
        number = number * (choice.upper - choice.lower) + value - choice.lower
    return number
