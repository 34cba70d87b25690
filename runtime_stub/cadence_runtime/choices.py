"""Reading an event's choices off the shapes of what the user pushed.

inputs: {token: [1, n]}    push("first", token=<1 x 7>)    ->    n = 7
"""

from collections.abc import Mapping, Sequence
from itertools import product

from cadence_runtime.errors import SessionError
from cadence_runtime.host.program import Choice, Event


def read_choices(
    event: Event, shapes: Mapping[str, tuple[int, ...]], given: Mapping[str, int], params: Mapping[str, int]
) -> dict[str, int]:
    """Return a value for each choice of the event, in its order: those given by name, the rest from the shapes.

    Raises SessionError CAD7051 when no value of the choices makes the shapes that were pushed.
    """
    ranges = [
        (given[choice.name],) if choice.name in given else _candidates(event, shapes, choice)
        for choice in event.choices
    ]
    for values in product(*ranges):
        chosen = dict(zip((choice.name for choice in event.choices), values, strict=True))
        if all(_declared(event, name, chosen, params) == shape for name, shape in shapes.items()):
            return chosen
    raise wrong_shape(event, shapes, given, params)


def _candidates(event: Event, shapes: Mapping[str, tuple[int, ...]], choice: Choice) -> Sequence[int]:
    """Return the values that a choice may have: the one size that it names alone, or its whole range."""
    for entry in event.inputs:
        sizes = shapes.get(entry.name, ())
        if len(sizes) != len(entry.shape):
            continue
        for expression, size in zip(entry.shape, sizes, strict=True):
            if expression.text == choice.name:
                return (size,)
    return range(choice.lower, choice.upper)


def _declared(event: Event, name: str, chosen: Mapping[str, int], params: Mapping[str, int]) -> tuple[int, ...]:
    environment = {**params, **chosen}
    for let, expression in event.lets:
        if all(used in environment for used in expression.names):
            environment[let] = expression.evaluate(environment)
    entry = next(entry for entry in event.inputs if entry.name == name)
    return tuple(expression.evaluate(environment) for expression in entry.shape)


def wrong_shape(
    event: Event, shapes: Mapping[str, tuple[int, ...]], given: Mapping[str, int], params: Mapping[str, int]
) -> SessionError:
    """Return the refusal of shapes that the event cannot have."""
    declared = {entry.name: f"[{', '.join(e.text for e in entry.shape)}]" for entry in event.inputs if entry.shape}
    ranges = [f"`{choice.name}` from {choice.lower} to {choice.upper - 1}" for choice in event.choices]
    also = f" with {', '.join(ranges)}" if ranges else ""
    return SessionError(
        "CAD7051",
        f"event `{event.name}` got an input of another shape",
        expected=", ".join(f"`{name}` {shape}" for name, shape in declared.items() if name in shapes) + also,
        got=", ".join(f"`{name}` {list(shape)}" for name, shape in shapes.items()),
        hint="a plan has no capture for other lengths, and none is padded",
    )
