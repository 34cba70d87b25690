"""Every rule of a plan, on the way out and on the way in.

The order matters: what comes first makes sure that what comes later can be asked at all. Within one step independent
errors are collected; a step that finds any ends the validation.

    references    indices and names between the parts, interfaces of captures and tapes, content of blobs
    tapes         ops, literals, views, reads and writes of each tape
    layout        the arena: sections, slots, inputs and outputs, scratch over time
    graphs        nodes, relocations and edges of a CUDA plan
    closure       the timeline is closed, and every key has its capture
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from cadence_runtime.errors import PlanError, raise_all
from cadence_runtime.format.check_graphs import graph_errors
from cadence_runtime.format.check_tape import TapeChecker
from cadence_runtime.format.closure import closure_errors
from cadence_runtime.format.layout import layout_errors
from cadence_runtime.format.plan import Plan
from cadence_runtime.format.references import blob_digests, reference_errors

MAX_ERRORS = 20
"""Errors after which nobody reads on."""


def tape_errors(plan: Plan) -> Iterator[PlanError]:
    """Yield CAD5206 to CAD5215."""
    checker = TapeChecker()
    for number, tape in enumerate(plan.tapes):
        yield from checker.errors(number, tape)


STEPS: tuple[Callable[[Plan], Iterator[PlanError]], ...] = (tape_errors, layout_errors, graph_errors, closure_errors)


def validate(plan: Plan, digests: Sequence[str] | None = None) -> None:
    """Raise PlanError, or an ErrorList of the first few, unless the plan keeps every rule. `digests` are those of the
    blobs, where they are known."""
    known = blob_digests(plan) if digests is None else digests
    raise_all(islice(reference_errors(plan, known), MAX_ERRORS))
    for step in STEPS:
        raise_all(islice(step(plan), MAX_ERRORS))
