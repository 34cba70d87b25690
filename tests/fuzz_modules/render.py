"""A recipe -> the text of a model file and of its clock spec."""

from dataclasses import dataclass
from typing import NamedTuple

from tests.fuzz_modules.lines import Body
from tests.fuzz_modules.recipe import Recipe, Region
from tests.fuzz_modules.spec import spec_text
from tests.fuzz_modules.updates import update
from tests.fuzz_modules.values import HISTORIES, history_start, loaded, start

HEAD = '''"""A random streaming module."""

import torch
from torch import nn

HIDDEN = {"count": 0, "values": []}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.conv = nn.Conv1d(4, 4, 3, padding=1)
        self.emb = nn.Embedding(8, 4)
        self.register_buffer("table", torch.linspace(-1, 2, 4))
        self.register_buffer("scratch", torch.zeros(4))
        self.register_buffer("hidden", torch.zeros(()))
        self.lazy, self.count = None, 0
'''

TAIL = """

def build():
    torch.manual_seed(0)
    return Model().eval().requires_grad_(False)
"""

TRAPS = {
    "none": [],
    "attribute": ["self.count += 1", "{v} = {v} + self.count"],
    "buffer": ["self.hidden.add_(1)", "{v} = {v} + self.hidden"],
    "global": ['HIDDEN["count"] += 1', '{v} = {v} + HIDDEN["count"]'],
    "closure": ["{v} = {v} + self.counter()"],
    "list": ['HIDDEN["values"].append({v}[0].clone())', '{v} = {v} + HIDDEN["values"][0]'],
}
CLOSURE = """
def counting():
    count = 0

    def step():
        nonlocal count
        count += 1
        return count

    return step
"""

EXTRAS = {"none": [], "vector": ["y"], "tokens": ["tok"], "mode": ["mode"], "flag": ["flag"]}


class Text(NamedTuple):
    """A model file and its spec."""

    model: str
    spec: str


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf of the state: its path, and how the nest holds it."""

    name: str
    is_deep: bool

    @property
    def path(self) -> str:
        return f"deep.0.{self.name}" if self.is_deep else self.name

    @property
    def place(self) -> str:
        return f'["deep"][0]["{self.name}"]' if self.is_deep else f'["{self.name}"]'


def render(recipe: Recipe) -> Text:
    """Return the files of a recipe."""
    regions = {f"r{i}": region for i, region in enumerate(recipe.regions)}
    model = [HEAD.rstrip("\n")]
    if recipe.trap == "closure":
        model[0] = model[0].replace("\n\nclass", CLOSURE + "\n\nclass")
        model.append("        self.counter = counting()")
    if recipe.has_stages:
        model.append('        self.stages = {"head": self.head, "tail": self.tail}')
    model.append(_init(regions))
    if recipe.reset != "none":
        model.append(_reset(recipe, regions))
    model += _stages(recipe, regions) if recipe.has_stages else [_step(recipe, regions)]
    return Text("\n".join(model) + "\n" + TAIL, spec_text(recipe, regions))


def leaves_of(name: str, region: Region) -> list[Leaf]:
    """Return the leaves of a region."""
    more = {"tied": [f"{name}_b"], "overlap": [f"{name}_b"], "ring": [f"{name}_pos"]}.get(region.kind, [])
    return [Leaf(leaf, region.is_deep) for leaf in (name, *more)]


def _nest(regions: dict[str, Region]) -> str:
    """Return the state as an expression over the names of its leaves."""
    leaves = [leaf for name, region in regions.items() for leaf in leaves_of(name, region)]
    flat = [f'"{leaf.name}": {leaf.name}' for leaf in leaves if not leaf.is_deep]
    deep = [f'"{leaf.name}": {leaf.name}' for leaf in leaves if leaf.is_deep]
    if deep:
        flat.append(f'"deep": [{{{", ".join(deep)}}}, (None,)]')
    return f"{{{', '.join(flat)}}}"


def _function(head: str, lines: list[str]) -> str:
    return "\n".join([f"\n    def {head}:", *(f"        {line}" for line in lines)])


def _init(regions: dict[str, Region]) -> str:
    lines = []
    for name, region in regions.items():
        if region.kind in HISTORIES:
            size = history_start(region)
            shape = f"4, {size}" if region.last else f"{size}, 4"
            lines.append(f"{name} = torch.zeros({shape}, dtype=torch.{region.dtype})")
            if region.kind == "ring":
                lines.append(f"{name}_pos = torch.zeros((), dtype=torch.int64)")
        else:
            first = {"int": "0", "absent": "None"}.get(region.kind) or start(region)
            lines.append(f"{name} = {first}")
            other = {"tied": name, "overlap": f"{name}[1:3]"}.get(region.kind)
            lines += [f"{name}_b = {other}"] if other else []
    return _function("init_state(self)", [*lines, f"return {_nest(regions)}"])


def _reset(recipe: Recipe, regions: dict[str, Region]) -> str:
    """Start anew, or go on with some of the memory: rows and the bytes of rings are fixed, so both may stay."""
    if recipe.reset == "again":
        return _function("reset(self, state)", ["return self.init_state()"])
    lines = ["fresh = self.init_state()"]
    for name, region in regions.items():
        stays = region.kind in ("row", "tied", "overlap", "ring")
        lines += [f"{leaf.name} = {'state' if stays else 'fresh'}{leaf.place}" for leaf in leaves_of(name, region)]
        if region.kind == "ring":
            lines.append(f"{name}_pos.zero_()")
        elif stays and recipe.reset == "in_place" and region.update in ("in_place", "partly"):
            lines.append(f"{name}.zero_()")
    return _function("reset(self, state)", [*lines, f"return {_nest(regions)}"])


def _begin(body: Body, recipe: Recipe) -> None:
    """Take the input and whatever comes with it."""
    body.pool.append(("x", True))
    match recipe.extra:
        case "vector":
            body.let("x + y")
        case "tokens":
            body.let("x + self.emb(tok)")
        case "mode":
            body.let('x.clamp(-1, 1) if mode == "hard" else x')
        case "flag":
            body.let("x * 2 if flag else x.clone()")
    v = body.let(f"{body.pick(0)} * 1")
    body.lines += [line.format(v=v) for line in TRAPS[recipe.trap]]


def _read(body: Body) -> None:
    """Add each region that is no history to the newest value."""
    for name, region in body.regions.items():
        v = body.pick(0)
        if region.kind == "int":
            body.let(f"{v} * (1 + {name})")
        elif region.kind == "absent":
            body.let(f"{v} if {name} is None else {v} + {loaded(name, region.dtype)}", may_write=False)
        elif region.kind not in HISTORIES:
            second = loaded(f"{name}_b", region.dtype)
            more = {"tied": f" + {second}", "overlap": f" + {second}[0]"}.get(region.kind, "")
            body.let(f"{v} + {loaded(name, region.dtype)}{more}")


def _update(body: Body) -> None:
    for index, (name, region) in enumerate(body.regions.items()):
        body.lines += update(name, region, body.pick(index))


def _outputs(body: Body, recipe: Recipe, passed: str) -> str:
    made = []
    names = list(body.regions)
    for kind, index in recipe.outputs:
        v = body.pick(index)
        state = names[index % len(names)] if names else v
        made.append(
            {
                "value": v,
                "view": f"{v}[:, ::2]",
                "state": state,
                "input": passed,
                "constant": "torch.arange(4.0)" if index % 2 else "self.table",
                "transposed": f"{v}.t()",
                "number": str(index),
                "none": "None",
                "weight": "self.lin.weight",
            }[kind]
        )
    match recipe.nest:
        case "tuple":
            return f"({', '.join(made)},)"
        case "list":
            return f"[{', '.join(made)}]"
        case _:
            return "{" + ", ".join(f'"o{i}": {value}' for i, value in enumerate(made)) + "}"


def _step(recipe: Recipe, regions: dict[str, Region]) -> str:
    body = Body(regions)
    leaves = [leaf for name, region in regions.items() for leaf in leaves_of(name, region)]
    body.lines += [f"{leaf.name} = state{leaf.place}" for leaf in leaves]
    _begin(body, recipe)
    _read(body)
    for instruction in recipe.body:
        body.add(instruction)
    _update(body)
    outputs = _outputs(body, recipe, "x")
    if recipe.nest == "dict" and not any(leaf.is_deep for leaf in leaves):
        body.lines += [f"state{leaf.place} = {leaf.name}" for leaf in leaves]
        body.lines.append(f"return state, {outputs}")
    else:
        body.lines.append(f"return {_nest(regions)}, {outputs}")
    return _function(f"step(self, state, {', '.join(['x', *EXTRAS[recipe.extra]])})", body.lines)


def _stages(recipe: Recipe, regions: dict[str, Region]) -> list[str]:
    """Return two stages; every second region and instruction belongs to the second."""
    made = []
    for position, name in enumerate(("head", "tail")):
        own = {r: region for i, (r, region) in enumerate(regions.items()) if i % 2 == position}
        body = Body(own, prefix="vw"[position])
        leaves = [leaf for r, region in own.items() for leaf in leaves_of(r, region)]
        body.lines += [f'{leaf.name} = state["{leaf.path}"]' for leaf in leaves]
        if name == "head":
            _begin(body, recipe)
        else:
            body.pool.append(("h", True))
        _read(body)
        for instruction in recipe.body[position::2]:
            body.add(instruction)
        _update(body)
        omitted = [
            r for r, region in own.items() if region.update == "omit" and region.kind in ("row", "tied", "overlap")
        ]
        back = [leaf for r, region in own.items() if r not in omitted for leaf in leaves_of(r, region)]
        returned = "{" + ", ".join(f'"{leaf.path}": {leaf.name}' for leaf in back) + "}"
        outputs = body.pick(0) if name == "head" else _outputs(body, recipe, "h")
        body.lines.append(f"return {returned}, {outputs}")
        inputs = ["x", *EXTRAS[recipe.extra]] if name == "head" else ["h"]
        made.append(_function(f"{name}(self, state, {', '.join(inputs)})", body.lines))
    return made
