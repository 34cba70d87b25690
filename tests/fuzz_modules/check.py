"""Compile a module, write its plan, read it back and replay it through the real runtime beside the stock module."""

from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from cadence_runtime import load
from cadence_runtime.format.writer import write_plan
from cadencec.plan.compile import compile_spec
from cadencec.spec.load import parse_spec
from cadencec.verify import VerifyReport, verify_loaded
from tests.fuzz_modules.render import Text

FOUND = Path(__file__).parent / "found"
EVENTS = 40


def replayed(text: Text) -> VerifyReport:
    """Return what a verification of the compiled module finds; CadenceError if it is refused."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model.py").write_text(text.model)
        spec = parse_spec(text.spec, str(folder / "model.yaml"))
        write_plan(folder / "model.plan", compile_spec(spec, embed_weights=True, walk_events=24).plan)
        with load(folder / "model.plan") as plan:
            return verify_loaded(plan, spec, events=EVENTS, walks=2)


def keep(text: Text) -> Path:
    """Write a module down beside the others that were found."""
    name = sha256("\n".join(text).encode()).hexdigest()[:8]
    FOUND.mkdir(exist_ok=True)
    (FOUND / f"{name}.py").write_text(text.model)
    (FOUND / f"{name}.yaml").write_text(text.spec)
    return FOUND / f"{name}.py"


def kept() -> list[str]:
    """Return the names of all that were found."""
    return sorted(path.stem for path in FOUND.glob("*.py"))


def read(name: str) -> Text:
    """Return a module that was found."""
    return Text((FOUND / f"{name}.py").read_text(), (FOUND / f"{name}.yaml").read_text())
