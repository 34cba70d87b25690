"""Imports follow the arrows of the design, in every file and inside every function.

    cli -> verbs -> plan -> targets -> passes, arena -> trace -> timeline -> spec -> cadence_runtime
    session -> cpu, cuda -> format -> host -> errors                                 (inside cadence_runtime)

A module may import its own layer and every layer to its right. The tables below are the whole rule: a module
that no row names fails the test, so a new folder is given its place on purpose.
"""

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TREES = (ROOT, ROOT / "runtime_stub")
PACKAGES = ("cadencec", "cadence_runtime", "cadence_serve")

RELEASED_MODELS = ("silero_vad", "stepaudio2", "moshi", "transformers", "torchaudio", "onnxruntime")
VERBS = (
    "compile",
    "explain",
    "init",
    "inspect",
    "check",
    "sign",
    "verify",
    "run",
    "diff",
    "report",
    "bench",
    "serve",
    "schema",
)

# Left to right as in the design; layers of one rank do not see one another.
COMPILER_RANKS: tuple[tuple[tuple[str, ...], ...], ...] = (
    (("cadencec.cli", "cadencec.__main__"),),
    (tuple(f"cadencec.{verb}" for verb in VERBS),),
    (("cadencec.plan",),),
    (("cadencec.targets",),),
    (("cadencec.passes",), ("cadencec.arena",)),
    (("cadencec.trace",), ("cadencec.models",)),
    (("cadencec.timeline",),),
    (("cadencec.spec",),),
    (("cadencec",),),
    (("cadence_runtime",),),
)

# What a package of the runtime imports beyond itself and the standard library.
RUNTIME_IMPORTS: dict[str, tuple[str, ...]] = {
    "cadence_runtime.errors": (),
    "cadence_runtime.frozen": (),
    "cadence_runtime.threads": (),
    "cadence_runtime.residency": (),
    "cadence_runtime.host": ("cadence_runtime.errors", "cadence_runtime.frozen"),
    "cadence_runtime.format": (
        "cadence_runtime.errors",
        "cadence_runtime.frozen",
        "cadence_runtime.threads",
        "cadence_runtime.host",
    ),
    "cadence_runtime.cpu": (
        "cadence_runtime.errors",
        "cadence_runtime.frozen",
        "cadence_runtime.threads",
        "cadence_runtime.residency",
        "cadence_runtime.host",
        "cadence_runtime.format",
        "numpy",
        "torch",
        "zstandard",
    ),
    "cadence_runtime.cuda": (
        "cadence_runtime.errors",
        "cadence_runtime.frozen",
        "cadence_runtime.threads",
        "cadence_runtime.residency",
        "cadence_runtime.host",
        "cadence_runtime.format",
        "cuda",
        "numpy",
        "zstandard",
    ),
    "cadence_runtime": ("model_signing", "numpy", "zstandard"),
    "cadence_serve": ("cadence_runtime", "numpy", "prometheus_client", "starlette", "uvicorn", "websockets"),
}


def is_inside(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def owner(module: str, packages: Iterable[str]) -> str | None:
    """The longest of `packages` that holds `module`."""
    return max((p for p in packages if is_inside(module, p)), key=len, default=None)


def may_import(importer: str, imported: str) -> bool:
    """Whether the tables allow the module `importer` to import the module (or name in a module) `imported`."""
    if imported.partition(".")[0] in sys.stdlib_module_names:
        return True
    if is_inside(importer, "cadencec"):
        return compiler_may_import(importer, imported)
    row = owner(importer, RUNTIME_IMPORTS)
    return row is not None and (is_inside(imported, row) or any(is_inside(imported, p) for p in RUNTIME_IMPORTS[row]))


def compiler_may_import(importer: str, imported: str) -> bool:
    if imported.partition(".")[0] in RELEASED_MODELS:
        return is_inside(importer, "cadencec.models")
    place = {p: (rank, layer) for rank, layers in enumerate(COMPILER_RANKS) for layer in layers for p in layer}
    source, target = owner(importer, place), owner(imported, place)
    if source is None or (source == "cadencec" and importer != "cadencec"):
        return False
    if target is None:
        return True
    if target == "cadencec.models":
        return source == target
    (source_rank, source_layer), (target_rank, target_layer) = place[source], place[target]
    return source_layer == target_layer or source_rank < target_rank


def has_a_place(module: str) -> bool:
    """Whether a row names the module, so that it is not only let in by the row of its whole package."""
    if is_inside(module, "cadencec"):
        return compiler_may_import(module, module)
    return owner(module, RUNTIME_IMPORTS) is not None


def module_name(path: Path, tree: Path) -> str:
    parts = path.relative_to(tree).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path, module: str) -> Iterator[tuple[int, str]]:
    """Line and full name of all that a file imports; a `from a import b` counts as `a.b`."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_bytes(), str(path))):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=source, names=names, level=level):
                parents = package.split(".")[: len(package.split(".")) - level + 1] if level else []
                base = ".".join([*parents, *([source] if source else [])])
                yield from ((node.lineno, f"{base}.{alias.name}") for alias in names)
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield node.lineno, name


def violations(trees: tuple[Path, ...]) -> list[str]:
    """One line for each import that goes against the arrows, and for each module that has no place in the tables."""
    found = []
    for tree in trees:
        for path in sorted(p for package in PACKAGES for p in (tree / package).rglob("*.py")):
            module = module_name(path, tree)
            if not has_a_place(module):
                found.append(f"{path.relative_to(tree)}: {module} has no place in the layers")
                continue
            found += [
                f"{path.relative_to(tree)}:{line}: {module} may not import {name}"
                for line, name in imports(path, module)
                if not may_import(module, name)
            ]
    return found


def test_imports_follow_the_arrows() -> None:
    assert violations(TREES) == []


def test_the_check_reads_both_distributions() -> None:
    assert (ROOT / "cadencec" / "__init__.py").is_file()
    assert (ROOT / "runtime_stub" / "cadence_runtime" / "__init__.py").is_file()


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("cadencec/spec/load.py", "import cadencec.timeline"),
        ("cadencec/spec/load.py", "from cadencec import timeline"),
        ("cadencec/spec/load.py", "def f():\n    from cadencec.cli import main"),
        ("cadencec/trace/record.py", "from ..plan import write"),
        ("cadencec/trace/__init__.py", "from ..plan import write"),
        ("cadencec/passes/fold.py", "from cadencec.arena import planner"),
        ("cadencec/arena/planner.py", "from cadencec.passes import fold"),
        ("cadencec/__init__.py", "from cadencec.spec import load"),
        ("cadencec/verify/walk.py", "from cadencec.models import silero"),
        ("cadencec/verify/walk.py", "import importlib\nimportlib.import_module('cadencec.models.silero')"),
        ("cadencec/trace/record.py", "import silero_vad"),
        ("cadencec/misc/tools.py", "import os"),
        ("cadence_runtime/session.py", "import cadencec"),
        ("cadence_runtime/session.py", "import torch"),
        ("cadence_runtime/session.py", "from silero_vad import load_silero_vad"),
        ("cadence_runtime/format/reader.py", "import zstandard"),
        ("cadence_runtime/format/reader.py", "import numpy as np"),
        ("cadence_runtime/format/reader.py", "from cadence_runtime.session import load"),
        ("cadence_runtime/host/step.py", "from cadence_runtime.format import reader"),
        ("cadence_runtime/host/step.py", "from .. import session"),
        ("cadence_runtime/cpu/player.py", "from cadence_runtime.cuda import player"),
        ("cadence_runtime/cuda/player.py", "import os, torch.cuda"),
        ("cadence_runtime/errors.py", "import cadence_runtime.host"),
        ("cadence_serve/app.py", "from cadencec.plan import write"),
    ],
)
def test_a_planted_import_is_caught(tmp_path: Path, file: str, code: str) -> None:
    plant(tmp_path, file, code)
    assert len(violations((tmp_path,))) == 1


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("cadencec/cli.py", "from cadencec import __version__, verify"),
        ("cadencec/cli.py", "import cadencec.spec.load"),
        ("cadencec/targets/cpu/emit.py", "from cadencec.targets.common import x\nimport torch"),
        ("cadencec/timeline/search.py", "from ..spec import Spec\nfrom . import demand\nimport networkx"),
        ("cadencec/models/silero.py", "import silero_vad\nfrom cadencec.models import weights"),
        ("cadence_runtime/format/reader.py", "import json\nfrom cadence_runtime.host.program import Program"),
        ("cadence_runtime/cuda/player.py", "from cuda.bindings import driver\nfrom ..errors import DeviceError"),
        ("cadence_runtime/session.py", "def load():\n    from cadence_runtime.cpu import player"),
    ],
)
def test_a_lawful_import_passes(tmp_path: Path, file: str, code: str) -> None:
    plant(tmp_path, file, code)
    assert violations((tmp_path,)) == []


def plant(tree: Path, file: str, code: str) -> None:
    path = tree / file
    path.parent.mkdir(parents=True)
    path.write_text(code + "\n")


def test_importing_the_runtime_loads_neither_torch_nor_the_compiler() -> None:
    code = (
        "import sys, cadence_runtime, cadence_runtime.format, cadence_runtime.host, cadence_runtime.errors\n"
        "sys.exit(', '.join(sorted({'torch', 'cadencec', 'cuda'} & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
