"""What an event takes, and whether a push brings just that: names, literals, dtypes, kinds."""

import operator
from collections.abc import Iterator, Mapping
from typing import SupportsIndex

from cadence_runtime.errors import SessionError
from cadence_runtime.frozen import frozen
from cadence_runtime.host.program import Event, EventInput, Program
from cadence_runtime.player import Array, Player

Literal = bool | int | str


@frozen
class Intake:
    """What one event takes: the dtypes of its arrays, its literals, and its choices, all by name."""

    event: str
    dtypes: Mapping[str, str]
    literals: Mapping[str, Literal]
    choices: tuple[str, ...]

    def sort(self, inputs: Mapping[str, object], player: Player) -> tuple[dict[str, Array], dict[str, int]]:
        """Return the arrays in the order of the event, and the choices given by name.

        Raises SessionError CAD7054 to CAD7057 for what the event does not take.
        """
        if inputs.keys() == self.dtypes.keys():
            return {name: self._array(name, inputs[name], player) for name in self.dtypes}, {}
        self._check_names(inputs)
        for name, literal in self.literals.items():
            if name in inputs:
                self._check_literal(name, literal, inputs[name])
        arrays = {name: self._array(name, inputs[name], player) for name in self.dtypes}
        return arrays, {name: self._choice(name, inputs[name]) for name in self.choices if name in inputs}

    def _array(self, name: str, value: object, player: Player) -> Array:
        try:
            return player.accept(value, self.dtypes[name])
        except TypeError as error:
            got = f"`{error}`"
        except ValueError as error:
            got = str(error)
        raise SessionError(
            "CAD7055",
            f"input `{name}` of event `{self.event}` is no array of its dtype",
            expected=f"an array of {self.dtypes[name]} on the host",
            got=got,
        )

    def _check_names(self, inputs: Mapping[str, object]) -> None:
        unknown = sorted(inputs.keys() - self.dtypes.keys() - self.literals.keys() - set(self.choices))
        missing = sorted(self.dtypes.keys() - inputs.keys())
        if unknown or missing:
            got = [f"unknown {_listed(unknown)}"] if unknown else []
            got += [f"without {_listed(missing)}"] if missing else []
            raise SessionError(
                "CAD7056",
                f"event `{self.event}` takes other inputs",
                expected=_listed(self.dtypes) or "none",
                got="; ".join(got),
            )

    def _check_literal(self, name: str, literal: Literal, value: object) -> None:
        if type(value) is not type(literal) or value != literal:
            raise SessionError(
                "CAD7054",
                f"input `{name}` of event `{self.event}` has another value than the event declares",
                expected=repr(literal),
                got=_shown(value),
                hint="leave it out: the event sets it",
            )

    def _choice(self, name: str, value: object) -> int:
        if isinstance(value, SupportsIndex) and not isinstance(value, bool):
            return operator.index(value)
        raise SessionError(
            "CAD7057",
            f"choice `{name}` of event `{self.event}` is no integer",
            expected="an int",
            got=_shown(value),
        )


def intakes(program: Program) -> dict[str, Intake]:
    """Return what each external event takes, by its name."""
    dtypes = {entry.name: entry.dtype for stage in program.stages for entry in stage.inputs if entry.dtype}
    dtypes |= {queue.name: queue.dtype for queue in program.queues}
    return {event.name: _intake(event, dtypes) for event in program.events if not event.internal}


def _intake(event: Event, dtypes: Mapping[str, str]) -> Intake:
    arrays: Iterator[EventInput] = (entry for entry in event.inputs if entry.literal is None)
    return Intake(
        event.name,
        {entry.name: dtypes[entry.name] for entry in arrays},
        {entry.name: entry.literal for entry in event.inputs if entry.literal is not None},
        tuple(choice.name for choice in event.choices),
    )


def _listed(names: Mapping[str, str] | list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _shown(value: object) -> str:
    """Return a value of the user as one short line."""
    text = repr(value)
    return text if len(text) <= 80 and "\n" not in text else f"`{type(value).__name__}`"
