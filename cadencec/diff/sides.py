"""The two files that a diff is asked for: each a plan or a clock spec, told apart by how it begins."""

from pathlib import Path

from cadence_runtime.errors import CadenceError, UsageError
from cadence_runtime.format.file import MAGIC
from cadence_runtime.format.source import require_end
from cadencec.diff.facts import Facts, Kind

PLAN_SUFFIX, SPEC_SUFFIXES = ".plan", (".yaml", ".yml")


def read_side(path: str) -> Facts:
    """Return the facts of a file. Raises UsageError CAD9301 for one that is neither, and what reading a plan or a spec
    raises."""
    kind = _kind(path)
    if kind == "plan":
        from cadencec.diff.plan_facts import plan_facts

        return plan_facts(path)
    from cadencec.diff.spec_facts import spec_facts

    try:
        return spec_facts(path)
    except CadenceError:
        if path.endswith(SPEC_SUFFIXES):
            raise
        raise _neither(path) from None


def _kind(path: str) -> Kind:
    require_end(path)
    try:
        with Path(path).open("rb") as file:
            head = file.read(len(MAGIC))
    except OSError:
        head = b""  # the reader of the one or the other says why
    if head[1:4] == MAGIC[1:4] or path.endswith(PLAN_SUFFIX):
        return "plan"
    if path.endswith(SPEC_SUFFIXES) or _is_text(head):
        return "spec"
    raise _neither(path)


def _is_text(head: bytes) -> bool:
    return head.isascii() and b"\0" not in head


def _neither(path: str) -> UsageError:
    return UsageError(
        "CAD9301",
        "the file is neither a plan nor a clock spec",
        expected="a file that `cadencec compile` wrote, or a spec in YAML",
        got="another kind of file",
        at=path,
    )
