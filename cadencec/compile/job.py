"""From a spec file to a plan file: what `compile` does around the compiler proper, which touches no file.

    load the spec -> compile -> weights into a file of their own -> write the weights, then the plan, then its signature

Each file is written whole or not at all. The weights come first: a plan never names a file that is not there. Until the
new signature stands, the old one beside the new plan is refused by every policy.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from cadence_runtime.errors import UsageError
from cadence_runtime.format.plan import Plan, Target
from cadence_runtime.format.replace import check_writable
from cadence_runtime.format.writer import write_plan
from cadence_runtime.zstd import compress
from cadencec.compile.export import export_weights
from cadencec.passes.pipeline import ALL, PASSES
from cadencec.plan.compile import CompiledPlan, Progress, compile_spec, require_target
from cadencec.sign import Signer, require_signer, sign_file
from cadencec.spec import Spec, load_spec

SUFFIX = ".plan"
CACHE = ".cadencec-cache"
"""Where captures for CUDA are kept, beside the plan."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to compile. `output` is the plan's file, or None for `NAME.TARGET.plan` here; `without` are passes that are
    left out; `overrides` are those of `--set`. `cache` is the folder of captures for CUDA, `.cadencec-cache` beside the
    plan by default; with `no_cache` none are kept. `sign` is the file of a private key that plan and weights are signed
    with."""

    spec: str
    output: str | None = None
    target: Target = "cpu"
    embed_weights: bool = False
    without: tuple[str, ...] = ()
    overrides: Mapping[str, str] = field(default_factory=dict)
    cache: str | None = None
    no_cache: bool = False
    sign: str | None = None
    dump_tape: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """The files that were written, and the plan as it stands there. `weights_file` is None where the plan holds its
    weights or names a release's."""

    plan: Plan
    plan_file: Path
    plan_bytes: int
    weights_file: Path | None = None
    weights_bytes: int = 0
    signature_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What was compiled and written; `phases_s` are seconds by phase, in order."""

    compiled: CompiledPlan
    written: Written
    phases_s: Mapping[str, float]


class Clock:
    """Passes progress on and adds up how long each phase took."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.phases_s: dict[str, float] = {}
        self._phase, self._since = "", time.perf_counter()

    def __call__(self, phase: str, done: int, total: int) -> None:
        """Tell how far a phase has come."""
        if phase != self._phase:
            self.stop()
            self._phase = phase
        self.progress(phase, done, total)

    def stop(self) -> None:
        """End the phase that runs."""
        now = time.perf_counter()
        if self._phase:
            self.phases_s[self._phase] = self.phases_s.get(self._phase, 0.0) + now - self._since
        self._phase, self._since = "", now


def compile_file(request: Request, progress: Progress) -> Report:
    """Compile a spec file and write the plan, and the weights beside it.

    Raises `UsageError` for passes that do not exist, and whatever loading, compiling, writing and signing raise.
    """
    if request.sign is not None:
        require_signer(Signer(request.sign))
    switches = switches_of(request.without)
    clock = Clock(progress)
    clock("load", 0, 1)
    spec = load_spec(request.spec, request.overrides)
    plan_file = Path(f"{spec.model.name}.{request.target}{SUFFIX}" if request.output is None else request.output)
    check_writable(plan_file)
    require_target(request.target)
    compiled = compile_spec(
        spec,
        target=request.target,
        switches=switches,
        embed_weights=request.embed_weights,
        cache=cache_of(request, plan_file),
        keep_recorded=request.dump_tape,
        progress=clock,
    )
    clock("write", 0, 1)
    written = write(compiled.plan, plan_file, embed_weights=request.embed_weights)
    if request.sign is not None:
        written = signed(written, spec, Signer(request.sign))
    clock.stop()
    return Report(compiled, written, clock.phases_s)


def cache_of(request: Request, plan_file: Path) -> Path | None:
    """Return the folder of captures, made if it is not there; None where none are kept."""
    if request.target != "cuda" or request.no_cache:
        return None
    folder = Path(request.cache) if request.cache is not None else plan_file.parent / CACHE
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        hint = "choose another folder with `--cache`, or use `--no-cache`"
        raise UsageError(
            "CAD9205", "the folder of the cache cannot be written", got=reason, at=str(folder), hint=hint
        ) from None
    return folder


def write(plan: Plan, plan_file: Path, *, embed_weights: bool) -> Written:
    """Write a plan, and its weights beside it unless it embeds them: both or, where one cannot be written, neither."""
    exported = None if embed_weights else export_weights(plan, plan.provenance.model)
    if exported is None:
        return Written(plan, plan_file, write_plan(plan_file, plan, compress=compress))
    weights_file = plan_file.parent / exported.file_name
    plan_bytes = write_plan(plan_file, exported.plan, compress=compress, before=[(weights_file, exported.data)])
    return Written(exported.plan, plan_file, plan_bytes, weights_file, len(exported.data))


def signed(written: Written, spec: Spec, signer: Signer) -> Written:
    """Sign what was written, with the weights file of the release where the plan names that."""
    weights = written.weights_file
    if weights is None and written.plan.weights_file is not None:
        weights = Path(spec.path).parent / written.plan.weights_file
    given = None if weights is None else str(weights)
    made = sign_file(str(written.plan_file), signer, weights=given, expected=written.plan)
    return replace(written, signature_file=Path(made.signature))


def switches_of(without: tuple[str, ...]) -> frozenset[str]:
    """Return the passes that run when some are left out."""
    unknown = [name for name in without if name not in PASSES]
    if unknown:
        known = ", ".join(f"`{name}`" for name in PASSES)
        raise UsageError("CAD9006", "there is no such pass", expected=f"one of {known}", got=f"`{unknown[0]}`")
    return ALL - set(without)
