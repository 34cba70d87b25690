"""What tracing found, put together as a Plan: layout of the arena, weights, constants, scratch, provenance.

A pure function of its arguments: the same model, spec and machine give the same plan, field by field.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from cadence_runtime.format.plan import Fidelity, Plan, Provenance, Target
from cadence_runtime.format.tape import Tape
from cadencec import __version__
from cadencec.plan.layout import place_io, sections, slots
from cadencec.plan.weights import Blobs, collect_constants, collect_weights
from cadencec.spec.spec import Spec
from cadencec.targets.cpu.lower import Lowered
from cadencec.trace.explore import Exploration
from cadencec.trace.leaves import Leaves
from cadencec.trace.weights import Weights


@dataclass(frozen=True, slots=True)
class Traced:
    """Everything that tracing leaves behind. `tapes` are finished, `lowered` has the scratch of each; `published` are
    the digests of the tensors in the weights file, by name."""

    leaves: Leaves
    exploration: Exploration
    tapes: Sequence[Tape]
    lowered: Sequence[Lowered]
    constants: Mapping[str, Tensor]
    weights: Weights
    published: Mapping[str, str]
    fidelity: Fidelity
    numerics: tuple[tuple[str, str], ...]
    environment: tuple[tuple[str, str], ...]


def assemble(spec: Spec, traced: Traced, target: Target, *, embed_weights: bool) -> Plan:
    """Return the plan."""
    blobs, found = Blobs(), traced.exploration
    leaves, state_bytes = slots(traced.leaves, found.forms)
    captures, io_bytes = place_io(found.captures, traced.tapes)
    weights, weights_bytes = collect_weights(
        traced.tapes, traced.weights, traced.published, blobs, embed=embed_weights or spec.model.named_file is None
    )
    constants, constants_bytes = collect_constants(traced.tapes, traced.constants, blobs)
    rows = {"weights": weights_bytes, "constants": constants_bytes, "state": state_bytes, "io": io_bytes}
    tallest = max((item.packing for item in traced.lowered), key=lambda packing: packing.height_bytes)
    bound = max(item.packing.lower_bound_bytes for item in traced.lowered)
    return Plan(
        target=target,
        program=spec.program,
        leaves=leaves,
        forms=found.forms,
        tapes=tuple(traced.tapes),
        captures=tuple(replace(capture, scratch=traced.lowered[capture.tape].scratch) for capture in captures),
        nodes=found.nodes,
        transitions=found.transitions,
        init=found.init,
        sections=sections(rows, tallest.height_bytes, bound, tallest.method),
        weights=weights,
        weights_file=spec.model.named_file if not embed_weights else None,
        constants=constants,
        blobs=blobs.all(),
        fidelity=traced.fidelity,
        provenance=provenance(spec, traced),
    )


def provenance(spec: Spec, traced: Traced) -> Provenance:
    """Return what the plan was made from and with."""
    return Provenance(
        model=spec.model.name,
        entry=spec.model.entry,
        spec_sha256=spec.sha256,
        compiler=__version__,
        environment=traced.environment,
        numerics=traced.numerics,
        random_weights=not spec.model.weights and bool(getattr(traced.weights.model, "random_weights", False)),
    )
