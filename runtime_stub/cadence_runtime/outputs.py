"""What a push returns: the outputs of its events, in order."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from cadence_runtime.errors import SessionError
from cadence_runtime.player import Array


class Emitted(NamedTuple):
    """The outputs of one event, by name."""

    event: str
    outputs: Mapping[str, Array]


class Outputs:
    """`outputs["audio"]` is the output of that name when one event made it; `outputs.all("audio")` is a tuple of
    all, in order, none to many. Iterating yields `Emitted` records, of the events that have outputs."""

    __slots__ = ("emitted",)

    def __init__(self, emitted: tuple[Emitted, ...]) -> None:
        self.emitted = emitted

    def __iter__(self) -> Iterator[Emitted]:
        return iter(self.emitted)

    def __len__(self) -> int:
        return len(self.emitted)

    def __contains__(self, name: object) -> bool:
        return any(name in record.outputs for record in self.emitted)

    def __repr__(self) -> str:
        return f"Outputs({', '.join(f'{record.event}: {list(record.outputs)}' for record in self.emitted)})"

    def all(self, name: str) -> tuple[Array, ...]:
        """Return every output of that name, in order."""
        return tuple(record.outputs[name] for record in self.emitted if name in record.outputs)

    def __getitem__(self, name: str) -> Array:
        found = [record.outputs[name] for record in self.emitted if name in record.outputs]
        if len(found) == 1:
            return found[0]
        names = sorted({key for record in self.emitted for key in record.outputs})
        raise SessionError(
            "CAD7050",
            f"the push did not make one output `{name}`",
            expected="one",
            got=f"{len(found)}; outputs of this push: {', '.join(f'`{key}`' for key in names) or 'none'}",
            hint=f'`outputs.all("{name}")` returns them in order',
        )
