"""Integers of clients within the ranges that the plan declares: an index beyond one can take a device down."""

from collections.abc import Mapping

import numpy as np

from cadence_runtime.errors import SessionError
from cadence_runtime.host.program import Program
from cadence_serve.wire import Array


class Ranges:
    """The half-open ranges of a program's integer inputs, by name. Where stages differ, all of them hold."""

    def __init__(self, program: Program) -> None:
        self._of: dict[str, tuple[int, int]] = {}
        for stage in program.stages:
            for entry in stage.inputs:
                if entry.lower is not None and entry.upper is not None and not entry.dtype.startswith(("float", "bf")):
                    lower, upper = self._of.get(entry.name, (entry.lower, entry.upper))
                    self._of[entry.name] = max(lower, entry.lower), min(upper, entry.upper)

    def check(self, event: str, tensors: Mapping[str, Array]) -> None:
        """Raise SessionError CAD7082 for a value outside of its range."""
        for name, array in tensors.items():
            if name in self._of and array.dtype.kind in "iu" and array.size:
                lower, upper = self._of[name]
                least, most = int(np.min(array)), int(np.max(array))
                if least < lower or most >= upper:
                    raise SessionError(
                        "CAD7082",
                        f"input `{name}` of event `{event}` has values that the plan does not declare",
                        expected=f"from {lower} to {upper - 1}",
                        got=f"from {least} to {most}",
                    )
