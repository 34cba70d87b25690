"""The stock model that a plan is compared with: of the plan's own spec, freshly built."""

from pathlib import Path

from cadence_runtime.errors import IncompatibleError
from cadence_runtime.format.plan import Plan
from cadencec.plan.published import load_published
from cadencec.plan.release import read_release
from cadencec.spec.spec import Spec
from cadencec.trace.jobs import Jobs
from cadencec.trace.leaves import declared_leaves
from cadencec.trace.model import load_model
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


def stock_jobs(spec: Spec) -> Jobs:
    """Build the model of a spec, with the weights of its release."""
    model = load_model(spec.model.entry, dict(spec.model.options), Path(spec.path).parent)
    if spec.model.weights:
        load_published(read_release(spec), collect_weights(model.adapter), spec.where("model.weights"))
    return Jobs(spec.program, declared_leaves(spec.program, spec.where), model)
