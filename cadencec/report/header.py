"""A plan's interface as a C header: constants and structs for events, inputs, outputs and regions.

A header is for programs that drive a plan from C or C++: it says which numbers stand for which names, how large each
tensor is, and where a region lies in a session's state. It is C99, C11 and C++ at once.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined

from cadence_runtime.format.plan import Plan, TensorForm
from cadence_runtime.format.reader import read_plan
from cadence_runtime.zstd import decompress

C_TYPES = {
    "bool": "uint8_t", "uint8": "uint8_t", "int8": "int8_t", "uint16": "uint16_t", "int16": "int16_t",
    "uint32": "uint32_t", "int32": "int32_t", "uint64": "uint64_t", "int64": "int64_t",
    "float16": "uint16_t", "bfloat16": "uint16_t", "float32": "float", "float64": "double",
    "float8_e4m3fn": "uint8_t", "float8_e5m2": "uint8_t",
}  # fmt: skip
"""The C type of an element; floats that C does not have are their bits. Complex numbers are two of their halves."""
COMPLEX = {"complex32": "uint16_t", "complex64": "float", "complex128": "double"}

_KEYWORDS = (
    "alignas alignof and asm auto bool break case catch char class const continue default delete do "
    "double else enum explicit export extern false float for friend goto if inline int long mutable "
    "namespace new not nullptr operator or private protected public register restrict return short signed "
    "sizeof static struct switch template this throw true try typedef typename union unsigned using "
    "virtual void volatile while xor "
)
KEYWORDS = frozenset(_KEYWORDS.split())
"""Words that C or C++ keeps for itself."""
TAKEN = KEYWORDS | {"count", "names"}
"""Words that would make a name of the header itself, such as `..._EVENT_COUNT`."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output: the most elements that it has in any key, over all of its shapes."""

    name: str
    c_name: str
    c_type: str
    elements: int
    dtype: str
    shapes: str


@dataclass(frozen=True, slots=True)
class Named:
    """A name with its number, and what else is told of it."""

    name: str
    c_name: str
    number: int
    offset: int = 0
    size_bytes: int = 0


def header(path: str) -> str:
    """Return the header of a plan file; the same plan gives the same bytes. Raises UsageError CAD92xx and PlanError."""
    return render(read_plan(path, decompress=decompress))


def render(plan: Plan) -> str:
    """Return the header of a plan."""
    loader = PackageLoader("cadencec.report", ".")
    room = Environment(  # noqa: S701 - what is written is C, and `literal` and `comment` escape for it
        loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    prefix = c_names([plan.provenance.model])[0]
    events = [event.name for event in plan.program.events if not event.internal]
    regions = list(_regions(plan))
    cadence = plan.program.cadence_s
    return room.get_template("header.h.j2").render(
        plan=plan,
        prefix=prefix,
        guard=f"CADENCE_{prefix.upper()}_H",
        events=[Named(n, c, i) for i, (n, c) in enumerate(zip(events, c_names(events), strict=True))],
        inputs=_tensors(plan, inputs=True),
        outputs=_tensors(plan, inputs=False),
        regions=regions,
        state_bytes=next(section.size_bytes for section in plan.sections if section.name == "state"),
        cadence=cadence,
        comment=_comment,
        literal=_literal,
    )


def c_names(names: Iterable[str]) -> list[str]:
    """Return C identifiers for names, each another one: small letters, digits and underscores, no keyword."""
    found: list[str] = []
    upper: set[str] = set()
    for name in names:
        plain = re.sub("[^0-9a-z]+", "_", re.sub("(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()).strip("_") or "x"
        plain = f"_{plain}".replace("_", "n_", 1) if plain[0].isdigit() or plain in TAKEN else plain
        each, number = plain, 2
        while each in upper:
            each, number = f"{plain}_{number}", number + 1
        upper.add(each)
        found.append(each)
    return found


def _literal(text: str) -> str:
    """Return a text as a C string: plain ASCII, all else as octal bytes."""
    plain = (chr(b) if 32 <= b < 127 and b not in b'"\\?' else f"\\{b:03o}" for b in text.encode())
    return f'"{"".join(plain)}"'


def _comment(text: str) -> str:
    """Return a text that cannot end the comment that it stands in."""
    return "".join(c if c.isprintable() else "?" for c in text).replace("*/", "* /").replace("/*", "/ *")


def _tensors(plan: Plan, *, inputs: bool) -> list[Tensor]:
    forms: dict[str, list[TensorForm]] = {}
    stages = {stage.name: stage for stage in plan.program.stages}
    brought = {item.name for event in plan.program.events if not event.internal for item in event.inputs}
    for capture in plan.captures:
        stage = stages.get(capture.key.stage)
        if stage is None:
            continue
        names = [item.name for item in stage.inputs] if inputs else list(stage.outputs)
        for name, form in zip(names, capture.key.inputs if inputs else capture.outputs, strict=True):
            if isinstance(form, TensorForm) and (name in brought or not inputs):
                forms.setdefault(name, []).append(form)
    return [_tensor(name, c_name, found) for (name, found), c_name in zip(forms.items(), c_names(forms), strict=True)]


def _tensor(name: str, c_name: str, forms: list[TensorForm]) -> Tensor:
    dtype = forms[0].dtype
    factor = 2 if dtype in COMPLEX else 1
    elements = max(_count(form.sizes) for form in forms) * factor
    shapes = list(dict.fromkeys("[" + ", ".join(map(str, form.sizes)) + "]" for form in forms))
    text = ", ".join(shapes[:4]) + (f" and {len(shapes) - 4} more" if len(shapes) > 4 else "")
    return Tensor(name, c_name, COMPLEX.get(dtype) or C_TYPES[dtype], elements, dtype, text)


def _count(sizes: tuple[int, ...]) -> int:
    count = 1
    for size in sizes:
        count *= size
    return count


def _regions(plan: Plan) -> Iterable[Named]:
    names = [region.name for region in plan.program.regions]
    for number, (name, c_name) in enumerate(zip(names, c_names(names), strict=True)):
        slots = [(leaf.slot_offset, leaf.slot_bytes) for leaf in plan.leaves if leaf.owner == name]
        lower, upper = min((at for at, _ in slots), default=0), max((at + size for at, size in slots), default=0)
        yield Named(name, c_name, number, lower, upper - lower)
