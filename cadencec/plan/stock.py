"""The stock model that a plan is compared with: of the plan's own spec, freshly built, with the weights of its release.

`oracle_of` gives the released modules in their released loop, `stock_jobs` the adapter's own stages run eagerly.
"""

from pathlib import Path

import torch

from cadence_runtime.errors import IncompatibleError
from cadence_runtime.format.plan import Plan
from cadencec.plan.published import load_published
from cadencec.plan.release import read_release
from cadencec.spec.spec import Spec
from cadencec.trace.jobs import Jobs
from cadencec.trace.leaves import declared_leaves
from cadencec.trace.model import HOST, load_model
from cadencec.trace.oracle import Oracle, load_oracle
from cadencec.trace.weights import collect_weights


def check_spec(plan: Plan, spec: Spec) -> None:
    """Raise IncompatibleError CAD6901 unless the plan was compiled from exactly this spec."""
    if plan.provenance.spec_sha256 != spec.sha256:
        raise IncompatibleError(
            "CAD6901",
            f"the plan was compiled from another spec than `{spec.path}`",
            expected=plan.provenance.spec_sha256,
            got=spec.sha256,
            hint="name the spec of this plan, with the same `--set`, or compile it anew",
        )


def device_of(plan: Plan) -> torch.device:
    """Return the device that a plan's stock model runs on: the one that the plan itself is for."""
    return torch.device("cuda", 0) if plan.target == "cuda" else HOST


def stock_jobs(spec: Spec, device: torch.device = HOST) -> Jobs:
    """Build the model of a spec on a device."""
    model = load_model(spec.model.entry, dict(spec.model.options), Path(spec.path).parent, device)
    _load(spec, model.adapter)
    return Jobs(spec.program, declared_leaves(spec.program, spec.where), model)


def oracle_of(spec: Spec, device: torch.device = HOST) -> Oracle | None:
    """Build the oracle of a spec's model on a device, not started yet; None where the adapter has none."""
    oracle = load_oracle(spec.model.entry, dict(spec.model.options), Path(spec.path).parent, device)
    if oracle is not None:
        _load(spec, oracle)
    return oracle


def _load(spec: Spec, model: object) -> None:
    if spec.model.weights:
        load_published(read_release(spec), collect_weights(model), spec.where("model.weights"))
