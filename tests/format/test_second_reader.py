"""The reader that follows docs/format.md accepts what the runtime's does, and finds the same in it."""

import ast
import sys
from dataclasses import fields, is_dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from cadence_runtime.errors import CadenceError
from cadence_runtime.format.cuda import Edge, Graph
from cadence_runtime.format.plan import Node
from cadence_runtime.format.reader import read_plan
from cadence_runtime.format.rows import Rows
from cadence_runtime.format.templates import Graphs
from cadence_runtime.format.writer import encode_plan
from cadence_runtime.host.expression import Expression
from cadence_runtime.zstd import compress, decompress
from tests.format.forge import forged
from tests.format.plans import cuda_example, example, template_example
from tests.format.second_reader import Refused, read
from tests.format.test_rules import FILES, GRAPHS, MOVED, REFERENCES, TAPES, rows
from tests.fuzz.plans import mutated

GOLDEN = sorted((Path(__file__).parents[2] / "plans").glob("*.plan"))
PLANS = {
    "cpu": example(),
    "cuda": cuda_example(),
    "templates": template_example(),
    "rows": rows(MOVED),
    "weights file": example(embed=False),
    "bfloat16": example(dtype="bfloat16"),
}


def test_it_shares_no_code_with_the_first() -> None:
    """What it imports is its own, of the standard library, or the decoder of zstd."""
    folder = Path(__file__).with_name("second_reader")
    found = set()
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                found.add(str(node.module).partition(".")[0])
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 1
    assert found - sys.stdlib_module_names == {"zstandard"}
    assert found.isdisjoint({"importlib", "runpy", "subprocess"})


def plain(value: Any) -> Any:
    """Return a value of the runtime's types in the page's words."""
    if isinstance(value, Expression):
        return str(value)
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, Node):
        here = value.configuration
        elapsed = [here.elapsed.numerator, here.elapsed.denominator]
        return {
            "counters": list(here.counters),
            "lengths": list(here.lengths),
            "elapsed": elapsed,
            "forms": list(value.forms),
        }
    if isinstance(value, Graph):
        nodes = [{**plain(node), "op": op} for node, op in zip(value.nodes, value.node_ops, strict=True)]
        names = ("relocations", "edges", "ops", "philox")
        return {"nodes": nodes, **{name: plain(getattr(value, name)) for name in names}}
    if isinstance(value, Edge):
        return {"before": value.before, "after": value.after, "data": list(value.data)}
    if hasattr(value, "_asdict"):
        return {name: plain(field) for name, field in value._asdict().items()}
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return [plain(each) for each in value] if isinstance(value, tuple | Rows | Graphs) else value


def both(data: bytes) -> tuple[Any, Any]:
    """Return what the two readers find, None for a plan that is refused."""
    try:
        first = plain(read_plan(data, decompress=decompress))
    except CadenceError:
        first = None
    try:
        second = read(data)
    except Refused:
        second = None
    return first, second


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name)
def test_golden_plans(path: Path) -> None:
    first, second = both(path.read_bytes())
    assert first is not None
    assert first == second


@pytest.mark.parametrize("what", PLANS)
def test_small_plans(what: str) -> None:
    for data in (encode_plan(PLANS[what], compress=compress), forged(PLANS[what])):
        first, second = both(data)
        assert first is not None
        assert first == second


HOSTILE: dict[str, bytes] = {what: data for what, (data, _) in FILES.items()}
HOSTILE |= {what: forged(plan) for table in (TAPES, REFERENCES, GRAPHS) for what, (plan, _) in table.items()}  # type: ignore[attr-defined]


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_plans(what: str) -> None:
    first, second = both(HOSTILE[what])
    assert first == second


def test_mutated_plans() -> None:
    differ = [number for number in range(400) if (found := both(mutated(9, number)))[0] != found[1]]
    assert differ == []
