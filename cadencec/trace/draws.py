"""Random draws: which ops advance the generator, and that nothing else does.

The generator's own state tells: an op that may draw is bracketed by two looks at it. A change between two ops is a
re-seeding that a replay could not see.
"""

import random
from collections.abc import Iterable

import numpy as np
import torch

from cadence_runtime.errors import TraceError
from cadencec.trace.source import SourceLines


def seed(value: int) -> None:
    """Seed the default generators of the host and of devices in use. Before CUDA is in use, `torch.manual_seed` keeps
    every call with its stack for later, which costs more than a small stage."""
    torch.default_generator.manual_seed(value)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(value)


class Generators:
    """The default generators of the host and of the traced device."""

    def __init__(self, device: torch.device) -> None:
        self._generators = [torch.default_generator]
        if device.type == "cuda":
            self._generators.append(torch.cuda.default_generators[device.index or 0])
        self._start = self._state = self._look()
        self._foreign = _foreign_states()

    def restore(self) -> None:
        """Put the generators back to where they were at the start."""
        for generator, state in zip(self._generators, self._start, strict=True):
            generator.set_state(state)
        self._state = self._start

    def check_operands(self, operands: Iterable[object], op: str, lines: SourceLines) -> None:
        """Raise TraceError CAD3102 when an op draws from a generator that is not the default one."""
        ours = {_identity(generator) for generator in self._generators}
        for operand in operands:
            if isinstance(operand, torch.Generator) and _identity(operand) not in ours:
                raise TraceError(
                    "CAD3102",
                    f"`{op}` draws from a generator of the model's own",
                    expected="the default generator, which a session seeds",
                    got="`generator=` with another generator",
                    at=lines.quoted(),
                    hint="draw from the default generator, or declare the noise as an input",
                )

    def moved(self) -> bool:
        """Return whether the generator has advanced since the last look, and remember where it is."""
        before, self._state = self._state, self._look()
        return not _same(before, self._state)

    def check_unmoved(self, lines: SourceLines | None = None) -> None:
        """Raise TraceError CAD3103 when something that is no op has moved the generator."""
        if self.moved():
            raise TraceError(
                "CAD3103",
                "the stage sets the random generator itself",
                expected="a generator that only random draws advance",
                got="`torch.manual_seed`, `set_rng_state` or `fork_rng` inside the stage",
                at=None if lines is None else f"before {lines.quoted()}",
                hint="seed outside of the stage, or declare the noise as an input",
            )

    def check_foreign(self) -> None:
        """Raise TraceError CAD3109 when Python's or numpy's random numbers were used since the start."""
        now = _foreign_states()
        moved = [name for name, state in self._foreign.items() if now[name] != state]
        if moved:
            raise TraceError(
                "CAD3109",
                f"the stage draws from {moved[0]}'s random numbers",
                expected="draws by torch, from the default generator",
                got=f"a generator of {moved[0]} that has advanced",
                hint="draw with torch, or declare the noise as an input",
            )

    def _look(self) -> list[torch.Tensor]:
        return [generator.get_state() for generator in self._generators]


def _foreign_states() -> dict[str, object]:
    kind, keys, *rest = np.random.get_state(legacy=True)
    return {"Python": random.getstate(), "numpy": (kind, keys.tobytes(), *rest)}  # type: ignore[union-attr]


def _same(left: list[torch.Tensor], right: list[torch.Tensor]) -> bool:
    return all(map(torch.equal, left, right))


def _identity(generator: torch.Generator) -> int:
    return generator._cdata  # type: ignore[attr-defined, no-any-return]
