"""The writer holds a plan to every limit that the reader holds a file to, by the same code."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from cadence_runtime.errors import CadenceError
from cadence_runtime.format import closure, happening, layout, manifest, tapes
from cadence_runtime.format.cuda import DeviceGlobal
from cadence_runtime.format.plan import Plan, TensorForm
from cadence_runtime.format.reader import read_plan
from cadence_runtime.format.tape import Literal
from cadence_runtime.format.writer import encode_plan, write_plan
from cadence_runtime.host.expression import parse
from cadence_runtime.host.program import Choice, Clock, Counter, Event, EventInput, Horizon, Queue
from tests.format.forge import forged
from tests.format.plans import cuda_example, example

PLAN, CUDA = example(), cuda_example()
FIRST = PLAN.program.events[0]
PARTS = manifest.MAX_PARTS + 1


def program(**changes: Any) -> Plan:
    return replace(PLAN, program=replace(PLAN.program, **changes))


def event(**changes: Any) -> Plan:
    return program(events=(replace(FIRST, **changes), *PLAN.program.events[1:]))


def never(choices: int) -> Plan:
    """An event that is offered, and whose guard never holds."""
    return program(
        events=(*PLAN.program.events, Event("never", when=parse("1 == 2"), choices=(Choice("n", 0, choices),)))
    )


def stage(**changes: Any) -> Plan:
    return program(stages=(replace(PLAN.program.stages[0], **changes),))


def region(**changes: Any) -> Plan:
    return program(regions=(replace(PLAN.program.regions[0], **changes),))


def form(**changes: Any) -> Plan:
    index = next(i for i, form in enumerate(PLAN.forms) if isinstance(form, TensorForm))
    forms = list(PLAN.forms)
    forms[index] = replace(forms[index], **changes)
    return replace(PLAN, forms=tuple(forms))


def operand(value: Any) -> Plan:
    ops = list(PLAN.tapes[1].ops)
    ops[1] = replace(ops[1], kwargs=(("alpha", value),))
    changed = replace(PLAN.tapes[1], ops=tuple(ops))
    return replace(PLAN, tapes=(PLAN.tapes[0], changed, *PLAN.tapes[2:]))


def cuda(**changes: Any) -> Plan:
    assert CUDA.cuda is not None
    return replace(CUDA, cuda=replace(CUDA.cuda, **changes))


def nested(depth: int) -> Any:
    value: Any = Literal("none", "")
    for _ in range(depth):
        value = (value,)
    return value


def names(count: int) -> tuple[str, ...]:
    return tuple(f"n{i}" for i in range(count))


OVER = {
    "params": program(params=tuple((name, 1) for name in names(PARTS))),
    "clocks": program(clocks=tuple(Clock(name, PLAN.program.clocks[0].rate_hz) for name in names(PARTS))),
    "counters": program(counters=tuple(Counter(name, 0) for name in names(PARTS))),
    "queues": program(queues=tuple(Queue(name, "n", "int64", 0, ()) for name in names(PARTS))),
    "regions": program(regions=PLAN.program.regions * PARTS),
    "stages": program(stages=PLAN.program.stages * PARTS),
    "events": program(events=PLAN.program.events * PARTS),
    "leaves of a region": region(leaves=names(PARTS)),
    "dims of a region": region(shape=(1,) * 65),
    "outputs of a stage": stage(outputs=names(PARTS)),
    "args of a stage": stage(args=names(PARTS)),
    "inputs of a stage": stage(inputs=PLAN.program.stages[0].inputs * PARTS),
    "regions that a stage reads": stage(reads=names(PARTS)),
    "regions that a stage writes": stage(writes=names(PARTS)),
    "choices of an event": event(choices=tuple(Choice(name, 0, 1) for name in names(PARTS))),
    "values of a choice": never(closure.MAX_CHOICES + 1),
    "pushes": never(closure.MAX_CHOICES),
    "effects of an event": event(effects=tuple((name, parse("1")) for name in names(PARTS))),
    "lets of an event": event(lets=tuple((name, parse("1")) for name in names(PARTS))),
    "inputs of an event": event(inputs=tuple(EventInput(name, (parse("1"),)) for name in names(PARTS))),
    "dims of an input": event(inputs=(EventInput("x", (parse("1"),) * 65),)),
    "stages that run": event(run=("step",) * PARTS),
    "internal events that follow": program(events=(*PLAN.program.events, Event("spin", internal=True))),
    "rows of a queue at the start": program(
        queues=(Queue("x", "n", "int64", 0, (0,) * (manifest.MAX_ROWS + 1)),), counters=(Counter("n", 0),)
    ),
    "letters of a name": replace(PLAN, provenance=replace(PLAN.provenance, model="m" * 4097)),
    "a name of a terminal": replace(PLAN, provenance=replace(PLAN.provenance, model="\x1b[31m")),
    "an integer": program(params=(("n", 2**63),)),
    "digits of a fraction": program(horizon=Horizon("seconds", Fraction(10**19))),
    "dims of a form": form(sizes=(1,) * 65, strides=(1,) * 65),
    "letters of a literal": operand(Literal("str", "x" * (tapes.MAX_STRING_BYTES + 1))),
    "depth of an operand": operand(nested(tapes.MAX_OPERAND_DEPTH + 1)),
    "size of the arena": replace(
        PLAN, sections=(*PLAN.sections[:-1], replace(PLAN.sections[-1], size_bytes=layout.MAX_ARENA_BYTES))
    ),
    "a blob twice": replace(PLAN, blobs=PLAN.blobs * 2),
    "bytes of a device variable": cuda(globals=(DeviceGlobal(0, "v", bytes((1 << 20) + 1), ()),)),
}


def code(run: Callable[[], object]) -> str | None:
    """Return the code that refuses, of several the first."""
    try:
        run()
    except CadenceError as error:
        return str(error)[:7]
    return None


@pytest.mark.parametrize("what", OVER)
def test_what_is_refused_at_load_is_never_written(what: str) -> None:
    refused = code(lambda: read_plan(forged(OVER[what]), decompress=None))
    assert refused is not None
    assert code(lambda: encode_plan(OVER[what])) == refused


LOWERED: dict[str, tuple[Any, str, int]] = {
    "length of the manifest": (manifest, "MAX_MANIFEST_BYTES", 100),
    "tapes written out": (tapes, "MAX_WRITTEN_OUT", 10),
    "strings of a tape": (tapes, "MAX_STRING_BYTES", 2),
    "work of the closure": (closure, "MAX_WORK", 10),
    "pushes": (closure, "MAX_PUSHES", 1),
    "stage runs": (happening, "MAX_CALLS", 0),
}


@pytest.mark.parametrize("what", LOWERED)
def test_a_limit_binds_the_reader_and_the_writer(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode_plan(PLAN)
    module, name, most = LOWERED[what]
    monkeypatch.setattr(module, name, most)
    refused = code(lambda: read_plan(data, decompress=None))
    assert refused is not None
    assert code(lambda: encode_plan(PLAN)) == refused


def test_the_message_of_a_plan_that_would_not_load(tmp_path: Path) -> None:
    with pytest.raises(CadenceError) as caught:
        write_plan(tmp_path / "toy.plan", program(params=tuple((name, 1) for name in names(5000))))
    assert str(caught.value) == (
        "CAD5108: a value of the manifest is not allowed\n"
        "  expected: a list of at most 4096\n"
        "  got:      `a list of 5000`\n"
        "  at:       manifest.program.params"
    )
    assert list(tmp_path.iterdir()) == []
