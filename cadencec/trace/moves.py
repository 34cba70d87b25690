"""Every push that a program allows at a configuration, with all steps that it leads to."""

from collections.abc import Iterator

from cadence_runtime.errors import SessionError
from cadence_runtime.host.program import Configuration, Program, Step
from cadence_runtime.host.step import compiled, push

_PAST_HORIZON = "CAD7005"


def moves(program: Program, configuration: Configuration) -> Iterator[tuple[int, tuple[int, ...], tuple[Step, ...]]]:
    """Yield (event index, choices, steps) in the order of the program and then of the choices. A push whose internal
    events would go past the horizon is refused as a whole, as in a session."""
    ready = compiled(program)
    for index, choices, _ in ready.pushes(ready.state(configuration)):
        event = program.events[index]
        named = dict(zip((choice.name for choice in event.choices), choices, strict=True))
        try:
            steps = push(program, configuration, event.name, named)
        except SessionError as error:
            if error.code != _PAST_HORIZON:
                raise
            continue
        yield index, choices, steps
