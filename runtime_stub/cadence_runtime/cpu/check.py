"""Whether this torch can run the tapes of a CPU plan: asked of a plan from outside before anything is allocated."""

from collections.abc import Iterator

from cadence_runtime.cpu.ops import check_op, operand_fault, schema_of
from cadence_runtime.errors import CadenceError, IncompatibleError, PlanError
from cadence_runtime.format.check_tape import views_of
from cadence_runtime.format.plan import Plan
from cadence_runtime.format.tape import Op, Tape, View


def op_faults(plan: Plan) -> Iterator[CadenceError]:
    """Yield CAD6005 for ops that no CPU plan may hold, CAD5603 for operands that an op does not take, and CAD5602 for
    results that are read before they are made."""
    refused = list(_refused(plan))
    yield from refused
    if not refused:
        yield from _wrong_operands(plan)
        yield from _unmade(plan)


def _refused(plan: Plan) -> Iterator[IncompatibleError]:
    stages = {op.name: tape.stage for tape in plan.tapes for op in tape.ops}
    for name, stage in sorted(stages.items()):
        reason = check_op(name)
        if reason is not None:
            yield IncompatibleError(
                "CAD6005",
                f"the plan holds an op that no CPU player runs, `{name}`",
                expected="aten ops on plain tensors and numbers",
                got=reason,
                at=f"stage `{stage}`",
            )


def _wrong_operands(plan: Plan) -> Iterator[PlanError]:
    seen: set[int] = set()  # tapes share ops
    for tape in plan.tapes:
        for op in tape.ops:
            if id(op) not in seen:
                seen.add(id(op))
                fault = operand_fault(op)
                if fault is not None:
                    yield wrong_operands(tape.stage, op, op.name, fault)


def wrong_operands(stage: str, op: Op, overload: str, got: str) -> PlanError:
    """Return what to say of an op that is called, as one of its overloads, with what it does not take."""
    return PlanError(
        "CAD5603",
        f"a tape of stage `{stage}` calls `{op.name}` with other operands than it takes",
        expected=str(schema_of(overload)),
        got=got,
        at=op.source or None,
    )


def _unmade(plan: Plan) -> Iterator[PlanError]:
    """Results stand on planned memory or are made by an op; what is neither must not be read."""
    seen = set()
    for capture in plan.captures:
        planned = [storage for storage, _ in capture.scratch]
        packing = f"{capture.tape} {planned}"  # text, whose hash no plan can choose
        if packing not in seen:
            seen.add(packing)
            missing = _first_unmade(plan.tapes[capture.tape], frozenset(planned))
            if missing is not None:
                yield unmade(plan.tapes[capture.tape].stage, missing)


def unmade(stage: str, storage: int) -> PlanError:
    """Return what to say of a result that no op has made yet."""
    return PlanError(
        "CAD5602",
        f"a tape of stage `{stage}` reads what none of its ops has made yet",
        expected="an op that makes it, before it is read",
        got=f"none for storage {storage}",
    )


def _first_unmade(tape: Tape, planned: frozenset[int]) -> int | None:
    there = {index for index, storage in enumerate(tape.storages) if storage.kind != "scratch"} | planned
    for op in tape.ops:
        makes = {view.storage for view in views_of(op.outs)}
        if not op.reads and not op.writes and makes <= there:
            continue  # it only makes views
        for view in views_of((*op.args, *(value for _, value in op.kwargs))):
            if view.storage not in there:
                return view.storage
        there |= makes
    results = (row.value for row in (*tape.outputs, *tape.state_out))
    return next((value.storage for value in results if isinstance(value, View) and value.storage not in there), None)
