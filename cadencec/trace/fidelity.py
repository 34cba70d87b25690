"""Does a tape do what the model does? Compared bit for bit, never assumed.

Each tape runs on the values that it was traced on and on others, against what a second, untraced model did with the
same values: outputs, new state, and how far the random generators went. A dispatch mode does not see everything a model
may do (`.numpy()`, Python values, caches of its own), but none of that survives this comparison on values that make a
difference. `docs/tracing.md` says what can still hide.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from cadence_runtime.errors import TraceError
from cadence_runtime.format.tape import Tape
from cadencec.trace import draws
from cadencec.trace.bits import raw_bytes
from cadencec.trace.interpret import interpret, prepare
from cadencec.trace.neutral import neutral
from cadencec.trace.recorder import Recording
from cadencec.trace.runner import Execution, generator_states
from cadencec.trace.state import Value
from cadencec.trace.storages import digest
from cadencec.trace.watch import first_difference, first_parting
from cadencec.trace.weights import Weights

Constant = Callable[[str], Tensor]


@dataclass(frozen=True, slots=True)
class Difference:
    """A result that differs: an output, a state leaf or the random generator, and in what."""

    name: str
    what: str


@dataclass(slots=True)
class Outputs:
    """Counts what was compared and notes outputs that never change. `values` has one digest for each constant output so
    far, by stage and output, and None for one that varies."""

    compared: int = 0
    values: dict[tuple[str, str], str | None] = field(default_factory=dict)

    def note(self, stage: str, outputs: Mapping[str, Value]) -> None:
        """Take in the outputs of one run by name."""
        for name, value in outputs.items():
            self.compared += 1
            varies = self.values.get((stage, name), "") is None
            if isinstance(value, Tensor) and value.numel() and not varies:
                found = digest(raw_bytes(value).cpu())
                known = self.values.setdefault((stage, name), found)
                self.values[stage, name] = found if known == found else None

    def constant(self) -> tuple[str, ...]:
        """Return the outputs that had the same bits in every run, sorted."""
        return tuple(sorted(name for (_, name), value in self.values.items() if value is not None))


def check_tape(
    tape: Tape,
    constant: Constant,
    weights: Weights,
    recording: Recording,
    executions: Sequence[Execution],
    device: torch.device,
) -> None:
    """Compare a finished tape with what the stock model did in each execution.

    Raises TraceError CAD3701 that names the first differing op of the recording and its line, or CAD3702 where every
    op agrees.
    """
    for execution in executions:
        differences = compare(tape, constant, weights, execution, device)
        if differences:
            raise explain(tape, weights, recording, execution, differences, device)


def compare(
    tape: Tape, constant: Constant, weights: Weights, execution: Execution, device: torch.device
) -> list[Difference]:
    """Run a tape on the values of an execution and return every result that differs."""
    draws.seed(execution.seed)
    with neutral():
        outputs, state = interpret(tape, execution.inputs, execution.leaves, weights.tensor, constant, device)
    names = [f"output `{binding.name}`" for binding in tape.outputs]
    pairs = list(zip(names, outputs, execution.outputs, strict=True))
    pairs += [(f"state leaf `{path}`", value, execution.state[path]) for path, value in state.items()]
    found = [Difference(name, what) for name, got, expected in pairs if (what := difference(got, expected))]
    moved = zip(generator_states(device), execution.generators, strict=True)
    if not all(torch.equal(got, expected) for got, expected in moved):
        found.append(Difference("the random generator", "has drawn another number of values"))
    return found


def difference(got: object, expected: object) -> str | None:
    """Return how two values of an interface differ, or None where all bits agree."""
    if isinstance(got, Tensor) and isinstance(expected, Tensor):
        return first_difference(got, expected)
    same = type(got) is type(expected) and got == expected
    return None if same else f"{_shown(got)} instead of {_shown(expected)}"


def _shown(value: object) -> str:
    return f"a tensor {list(value.shape)}" if isinstance(value, Tensor) else repr(value)


def explain(
    tape: Tape,
    weights: Weights,
    recording: Recording,
    execution: Execution,
    differences: Sequence[Difference],
    device: torch.device,
) -> TraceError:
    """Return the error for a tape that differs, with the op at which the model and the recording part."""

    def constant(name: str) -> Tensor:
        return recording.constants[name]

    raw, run = recording.tape, execution.again()
    with neutral():
        memory = prepare(raw, execution.inputs, execution.leaves, weights.tensor, constant, device)
        parting = first_parting(raw, memory, run, lambda: draws.seed(execution.seed))
    got = "; ".join(f"{item.name} {item.what}" for item in differences[:3])
    if parting is not None and parting.op is not None:
        return TraceError(
            "CAD3701",
            f"stage `{tape.stage}` does not replay as the model runs: `{parting.op.name}` differs",
            expected="the bits of the untraced model on values that were not traced",
            got=f"{got} (at the op: {parting.what})",
            at=parting.op.source or None,
            hint="a Python value that depends on data (`.numpy()`, `.tolist()`, an attribute) was frozen into the tape",
        )
    return TraceError(
        "CAD3702",
        f"stage `{tape.stage}` does not replay as the model runs, though each of its ops does",
        expected="the bits of the untraced model on values that were not traced",
        got=got,
        hint="this is a fault of a pass or of how results are bound; switch passes off to find which",
    )


def check_same_weights(left: Weights, right: Weights, what: str, hint: str, ignored: Iterable[str] = ()) -> None:
    """Compare the tensors of two models by name. Raises TraceError CAD3703, naming the first few that differ."""
    differing = [
        name
        for name, tensor in left.tensors.items()
        if name not in set(ignored) and _differ(tensor, right.tensors.get(name))
    ]
    if differing or left.tensors.keys() != right.tensors.keys():
        strange = sorted(left.tensors.keys() ^ right.tensors.keys())
        raise TraceError(
            "CAD3703",
            what,
            expected="the same tensors, bit for bit",
            got="another " + ", ".join(f"`{name}`" for name in (differing or strange)[:5]),
            hint=hint,
        )


def _differ(left: Tensor, right: Tensor | None) -> bool:
    return right is None or first_difference(left.detach(), right.detach()) is not None
