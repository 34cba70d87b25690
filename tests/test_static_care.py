"""What reads a plan has no way to run what stands in it: no pickle, no eval, no shell."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

RUNTIME = Path(__file__).resolve().parents[1] / "runtime_stub" / "cadence_runtime"
FILES = sorted(RUNTIME.rglob("*.py"))
MODULES = {
    "pickle",
    "dill",
    "cloudpickle",
    "marshal",
    "shelve",
    "subprocess",
    "runpy",
    "code",
    "ctypes",
    "cffi",
    "mmap",
}
CALLS = {
    "eval", "exec", "compile", "__import__", "import_module", "os.system", "os.popen", "os.execv", "os.spawnv",
    "torch.load", "torch.jit.load", "torch.ops.load_library", "torch.hub.load", "numpy.load", "np.load",
}  # fmt: skip


FOREIGN_POINTERS = {"bindings.py", "driver.py"}
"""Modules of the CUDA player that pack parameters for the driver, with ctypes."""


def called(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield node.lineno, ast.unparse(node.func)


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, (node.module or "").partition(".")[0]


def faults(tree: ast.AST) -> list[str]:
    found = [f"line {line}: imports {name}" for line, name in imported(tree) if name in MODULES]
    return found + [f"line {line}: calls {name}" for line, name in called(tree) if name in CALLS]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(RUNTIME)))
def test_the_runtime_runs_nothing_by_name(path: Path) -> None:
    found = faults(ast.parse(path.read_bytes()))
    if path.parent.name == "cuda" and path.name in FOREIGN_POINTERS:
        found = [fault for fault in found if not fault.endswith("imports ctypes")]
    assert found == []


@pytest.mark.parametrize("line", ["import pickle", "from subprocess import run", "eval(text)", "torch.load(path)"])
def test_what_is_looked_for_is_found(line: str) -> None:
    assert len(faults(ast.parse(line))) == 1
