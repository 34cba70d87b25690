"""What a model is pushed: its module's example inputs, or inputs described on the command line.

def example_inputs(): return [x0, x1, ...]            one push each; a tuple where `step` takes several inputs
--push "tok:int64[1,8]<32 last=false"                 one kind of push: a tensor of random values, and a literal
"""

import ast
import importlib
import inspect
import json
import math
import re
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from cadence_runtime.errors import TraceError, UsageError
from cadence_runtime.host.expression import RESERVED
from cadencec.trace.model import Model, failure
from cadencec.trace.neutral import neutral
from cadencec.trace.operands import DTYPE_NAMES, DTYPES

Literal = bool | int | str
Form = tuple[str, tuple[int, ...]] | Literal
"""An input as an event gives it: dtype and sizes of a tensor, or a literal."""

_TENSOR = re.compile(r"(?P<name>\w+):(?P<dtype>\w+)\[(?P<sizes>[\d,\s]*)\](?:<(?P<upper>\d+))?")
_LITERAL = re.compile(r"(?P<name>\w+)=(?P<value>\S+)")
MOST_ELEMENTS = 1 << 28


@dataclass(frozen=True, slots=True)
class Pushes:
    """`names` are those of the inputs in the order of `step`; `values` has what each push brings."""

    names: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]

    def kinds(self) -> tuple[tuple[Form, ...], ...]:
        """Return the distinct kinds of push, in the order in which they come."""
        return tuple(dict.fromkeys(map(kind_of, self.values)))


def kind_of(values: Sequence[Any]) -> tuple[Form, ...]:
    """Return the forms of what a push brings."""
    return tuple(
        (DTYPE_NAMES[value.dtype], tuple(value.shape)) if isinstance(value, Tensor) else value for value in values
    )


def described(texts: Sequence[str]) -> Pushes:
    """Read `--push` options. Raises UsageError CAD9402."""
    generator = torch.Generator().manual_seed(0)
    rows = [_described(text, generator) for text in texts]
    names = [name for name, _ in rows[0]]
    for name in names:
        if not name.isidentifier() or name in RESERVED or names.count(name) > 1:
            raise _bad_push(texts[0], f"names of their own that a spec may have, unlike `{name}`")
    for text, row in zip(texts, rows, strict=True):
        if [name for name, _ in row] != names:
            raise _bad_push(text, f"the inputs {', '.join(names)}, as in the first push")
    return Pushes(tuple(names), tuple(tuple(value for _, value in row) for row in rows))


def _described(text: str, generator: torch.Generator) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for word in re.sub(r"\s*,\s*", ",", text).split():
        if tensor := _TENSOR.fullmatch(word):
            found.append((tensor["name"], _random(text, tensor, generator)))
        elif literal := _LITERAL.fullmatch(word):
            found.append((literal["name"], _literal(literal["value"])))
        else:
            raise _bad_push(text, "words like `x:float32[1,16]`, `tok:int64[1,8]<32` or `last=false`")
    if not found:
        raise _bad_push(text, "at least one input")
    return found


def _random(text: str, match: "re.Match[str]", generator: torch.Generator) -> Tensor:
    dtype = DTYPES.get(match["dtype"])
    if dtype is None:
        raise _bad_push(text, f"a dtype of {', '.join(DTYPES)}")
    sizes = [int(size) for size in match["sizes"].split(",") if size]
    elements = math.prod(sizes)
    if elements > MOST_ELEMENTS:
        raise _bad_push(text, f"at most {MOST_ELEMENTS:,} elements a tensor")
    if dtype.is_floating_point or dtype.is_complex:
        if match["upper"]:
            raise _bad_push(text, f"no `<{match['upper']}`, which integers have")
        return torch.randn(sizes, generator=generator, dtype=torch.float64).to(dtype)
    upper, most = int(match["upper"] or 2), 2 if dtype == torch.bool else torch.iinfo(dtype).max + 1
    if not 0 < upper <= most:
        raise _bad_push(text, f"a bound from 1 to {most:,}, as {match['dtype']} has")
    return torch.randint(0, min(upper, 2**63 - 1), sizes, generator=generator).to(dtype)


def _literal(text: str) -> Literal:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, bool | int | str) else text


def _bad_push(text: str, expected: str) -> UsageError:
    return UsageError("CAD9402", "`--push` describes no inputs", expected=expected, got=f"`{text}`")


def examples(entry: str, model: Model) -> Pushes:
    """Return the example inputs of the entry's module. Raises TraceError CAD3414 where there are none, CAD3415 for what
    is no input, CAD3421 where the function raises."""
    module = _module(entry)
    made = getattr(module, "example_inputs", None)
    if not callable(made):
        raise TraceError(
            "CAD3414",
            f"nothing is known of what `{entry}` takes",
            expected="a function `example_inputs` in its module, which returns what is pushed, push by push",
            got="none",
            hint='describe the inputs of a push: --push "x:float32[1,16]"',
        )
    with neutral():
        try:
            given = made()
        except (Exception, SystemExit) as error:
            raise failure("CAD3421", "`example_inputs` gives no pushes", error) from error
    if not isinstance(given, Iterable):
        expected, got = "a list of pushes", f"`{type(given).__name__}`"
        raise TraceError("CAD3415", "the example inputs are not those of one stage", expected=expected, got=got)
    rows = [tuple(pytree.tree_leaves(item)) for item in given]
    if not rows or len({len(row) for row in rows}) != 1:
        expected = "at least one push, each with as many inputs"
        got = f"{len(rows)} pushes of {sorted({len(row) for row in rows})} inputs"
        raise TraceError("CAD3415", "the example inputs are not those of one stage", expected=expected, got=got)
    for value in (value for row in rows for value in row):
        if not isinstance(value, Tensor | bool | int | str):
            expected, got = "tensors, bools, ints and texts", f"`{type(value).__name__}`"
            raise TraceError("CAD3415", "the example inputs are not those of one stage", expected=expected, got=got)
    return Pushes(input_names(model, len(rows[0])), tuple(rows))


def _module(entry: str) -> ModuleType | None:
    place = entry.rpartition(":")[0]
    if place.endswith(".py"):
        return sys.modules.get(f"cadencec_entry_{Path(place).stem}")
    return importlib.import_module(place)


def input_names(model: Model, count: int) -> tuple[str, ...]:
    """Return names for the inputs of `step`: those of its parameters, or of what its first lines unpack one into."""
    function = getattr(model.adapter, "step", None)
    try:
        parameters = [p.name for p in inspect.signature(function).parameters.values()][1:]  # type: ignore[arg-type]
    except (TypeError, ValueError):
        parameters = []
    if len(parameters) == count:
        return tuple(parameters)
    unpacked = _unpacked(function, parameters[0]) if len(parameters) == 1 else []
    return tuple(unpacked) if len(unpacked) == count else tuple(f"x{number}" for number in range(count))


def _unpacked(function: Any, parameter: str) -> list[str]:
    """Return the names of ``a, b = parameter``."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id == parameter:
            (target,) = node.targets[:1]
            if isinstance(target, ast.Tuple) and all(isinstance(item, ast.Name) for item in target.elts):
                return [item.id for item in target.elts if isinstance(item, ast.Name)]
    return []
