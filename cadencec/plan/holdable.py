"""Whether a plan can hold an op at all: asked of each finished tape, while its source lines are known."""

from cadence_runtime.errors import TargetError
from cadence_runtime.format.check_tape import Texts, op_errors
from cadence_runtime.format.tape import Tape


class Holdable:
    """What was asked of tapes that share ops: each op is looked at once. Whoever asks keeps the tapes."""

    def __init__(self) -> None:
        self._texts = Texts()
        self._known: set[int] = set()

    def require(self, tape: Tape) -> None:
        """Raise TargetError CAD4002 for the first op that breaks a rule of the plan file, by the line that calls it."""
        for op in tape.ops:
            if id(op) in self._known:
                continue
            for error in op_errors(op, "", self._texts):
                raise TargetError(
                    "CAD4002",
                    f"no plan can hold a call of `{op.name}` in stage `{tape.stage}`: {error.what}",
                    expected=error.expected,
                    got=error.got,
                    at=op.source if op.source.isprintable() else None,
                    hint="keep the op outside of the stage, and pass its result as an input",
                )
            self._known.add(id(op))
