"""One atheris target, `plan` or `spec`, as `scripts/fuzz.py` starts it; what comes behind are libFuzzer's options."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import atheris  # noqa: E402

TARGET = sys.argv.pop(1)

with atheris.instrument_imports(include=["cadence_runtime", "cadencec.spec"]):
    if TARGET == "plan":
        from cadence_runtime.format import reader  # noqa: F401
        from tests.fuzz import plans as module
    else:
        from cadencec.spec import load  # noqa: F401
        from tests.fuzz import specs as module  # type: ignore[no-redef]


def one(data: bytes) -> None:
    """Feed one input; what is raised here is what atheris reports."""
    module.check(data)


def main() -> None:
    corpus = Path(sys.argv[1])
    for number in range(200):  # so that it begins behind the magic, not before it
        (corpus / f"seed-{number}").write_bytes(module.mutated(0, number))
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
