"""Reading an event's choices off the shapes of what the user pushed.

inputs: {token: [1, n]}    push("first", token=<1 x 7>)    ->    n = 7
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import islice, product

from cadence_runtime.errors import SessionError
from cadence_runtime.host.expression import ExpressionError
from cadence_runtime.host.program import Choice, Event

Shape = tuple[int, ...]


def read_choices(
    event: Event, shapes: Mapping[str, Shape], given: Mapping[str, int], known: Mapping[str, int]
) -> dict[str, int]:
    """Return a value for each choice of the event, in its order: those given by name, the rest from the shapes of its
    arrays. `known` are params and counters.

    Raises SessionError CAD7051 when no value of the choices makes these shapes, CAD7058 when several do. A value that
    is out of its range is returned: the host step says so.
    """
    found = list(islice(_readings(event, shapes, given, known), 2))
    if not found:
        raise _wrong_shape(event, shapes)
    if len(found) > 1:
        raise _open_choice(event, found[0], found[1])
    return found[0]


def _readings(
    event: Event, shapes: Mapping[str, Shape], given: Mapping[str, int], known: Mapping[str, int]
) -> Iterator[dict[str, int]]:
    """Yield every reading of the choices that makes the shapes."""
    ranges = [
        (given[choice.name],) if choice.name in given else _candidates(event, shapes, choice)
        for choice in event.choices
    ]
    for values in product(*ranges):
        chosen = dict(zip((choice.name for choice in event.choices), values, strict=True))
        try:
            if declared_shapes(event, shapes, {**known, **chosen}) == dict(shapes):
                yield chosen
        except ExpressionError:
            continue  # a value for which a size has none


def _candidates(event: Event, shapes: Mapping[str, Shape], choice: Choice) -> Sequence[int]:
    """Return the values that a choice may have: the one size that it names alone, or its whole range."""
    for entry in event.inputs:
        sizes = shapes.get(entry.name, ())
        for expression, size in zip(entry.shape, sizes, strict=False):
            if expression.text == choice.name:
                return (size,)
    return range(choice.lower, choice.upper)


def declared_shapes(event: Event, names: Container[str], known: Mapping[str, int]) -> dict[str, Shape]:
    """Return the shapes that the event's arrays of these names have; `known` are params, counters and choices."""
    env = dict(known)
    for let, expression in event.lets:
        env[let] = expression.evaluate(env)
    return {
        entry.name: tuple(size.evaluate(env) for size in entry.shape) for entry in event.inputs if entry.name in names
    }


def _wrong_shape(event: Event, shapes: Mapping[str, Shape]) -> SessionError:
    declared = {entry.name: f"[{', '.join(size.text for size in entry.shape)}]" for entry in event.inputs}
    ranges = [f"`{choice.name}` from {choice.lower} to {choice.upper - 1}" for choice in event.choices]
    also = f" with {', '.join(ranges)}" if ranges else ""
    return SessionError(
        "CAD7051",
        f"event `{event.name}` got an input of another shape",
        expected=", ".join(f"`{name}` {declared[name]}" for name in shapes) + also,
        got=", ".join(f"`{name}` {list(shape)}" for name, shape in shapes.items()),
        hint="a plan has no capture for other lengths, and none is padded",
    )


def _open_choice(event: Event, one: Mapping[str, int], other: Mapping[str, int]) -> SessionError:
    choice = next(choice for choice in event.choices if one[choice.name] != other[choice.name])
    name = choice.name
    return SessionError(
        "CAD7058",
        f"what is pushed to event `{event.name}` leaves its choice `{name}` open",
        expected=f"`{name}` from {choice.lower} to {choice.upper - 1}",
        got=f"{one[name]} and {other[name]} both fit",
        hint=f'give it by name: `push("{event.name}", {name}={one[name]})`',
    )
