"""A recipe -> the text of its clock spec."""

from tests.fuzz_modules.recipe import Recipe, Region
from tests.fuzz_modules.values import CAP_OF_GROW, HISTORIES, history_start

STEPS_OF_INT = 3
CLOCKS = {0: "half", 1: "base", 2: "double", 3: "triple"}
RATES = {"half": 50, "base": 100, "double": 200, "triple": 300}

ITEMS = {
    "vector": "y: {dtype: float32}",
    "tokens": "tok: {dtype: int64, range: [0, 7]}",
    "mode": "mode: {choices: [soft, hard]}",
    "flag": "flag: {choices: [true, false]}",
}


def spec_text(recipe: Recipe, regions: dict[str, Region]) -> str:
    """Return the spec of the model file `model.py` beside it."""
    kinds = {region.kind for region in regions.values()}
    lines = ["cadence_spec: 1", 'model: {name: random, entry: "./model.py:build"}']
    lines.append("clocks: {" + ", ".join(f"{name}: {hertz} Hz" for name, hertz in RATES.items()) + "}")
    ints = [(name, region) for name, region in regions.items() if region.kind == "int"]
    if ints:
        told = [f"{name}: {{start: 0, leaf: {_path(name, region)}}}" for name, region in ints]
        lines.append(f"counters: {{{', '.join(told)}}}")
    if kinds != {"int"}:
        lines.append("regions:")
    for name, region in regions.items():
        lines += [f"  {line}" for line in _region(name, region)]
    lines += [*_stages(recipe, regions), *_events(recipe, [name for name, _ in ints])]
    if "grow" in kinds:
        lines.append(f"horizon: {CAP_OF_GROW} events")
    return "\n".join(lines) + "\n"


def _path(name: str, region: Region) -> str:
    return f"deep.0.{name}" if region.is_deep else name


def _region(name: str, region: Region) -> list[str]:
    """Return the regions of one recipe region: a second one for what has another shape."""
    leaves = [_path(name, region)]
    if region.kind == "int":
        return []
    if region.kind == "tied":
        leaves.append(_path(f"{name}_b", region))
    head = f"{name}: {{leaves: [{', '.join(leaves)}], dtype: {region.dtype}"
    if region.kind in HISTORIES:
        retain = {"grow": "grow", "window": f"{{window: {region.cap}}}"}.get(region.kind, f"{{ring: {region.cap}}}")
        shape = "[4, t]" if region.last else "[t, 4]"
        start = "" if region.kind in ("ring", "roll") else f", start: {history_start(region)}"
        found = [f"{head}, shape: {shape}, clock: {CLOCKS[region.rate]}, retain: {retain}{start}}}"]
        if region.kind == "ring":
            found.append(f"{name}_pos: {{leaves: [{_path(f'{name}_pos', region)}], dtype: int64, shape: []}}")
        return found
    found = [f"{head}, shape: [4]{', start: absent' if region.kind == 'absent' else ''}}}"]
    if region.kind == "overlap":
        found.append(f"{name}_b: {{leaves: [{_path(f'{name}_b', region)}], dtype: {region.dtype}, shape: [2]}}")
    return found


def _names(regions: dict[str, Region], position: int) -> str:
    more = {"overlap": "_b", "ring": "_pos"}
    found = []
    for index, (name, region) in enumerate(regions.items()):
        if index % 2 == position and region.kind != "int":
            found += [name, *([name + more[region.kind]] if region.kind in more else [])]
    return f"[{', '.join(found)}]"


def _stages(recipe: Recipe, regions: dict[str, Region]) -> list[str]:
    items = ["x: {dtype: float32}", *([ITEMS[recipe.extra]] if recipe.extra in ITEMS else [])]
    inputs = f"inputs: {{{', '.join(items)}}}"
    outputs = f"outputs: [{', '.join(f'o{i}' for i in range(len(recipe.outputs)))}]"
    if not recipe.has_stages:
        return ["stages:", f"  step: {{{inputs}, {outputs}}}"]
    head, tail = _names(regions, 0), _names(regions, 1)
    return [
        "stages:",
        f"  head: {{reads: {head}, writes: {head}, {inputs}, outputs: [h]}}",
        f"  tail: {{reads: {tail}, writes: {tail}, inputs: [h], {outputs}}}",
    ]


def _events(recipe: Recipe, ints: list[str]) -> list[str]:
    run = "run: [head, tail]" if recipe.has_stages else "run: [step]"
    guard = " and ".join(f"{name} < {STEPS_OF_INT}" for name in ints)
    when = f"when: {guard}, " if guard else ""
    do = ", do: {" + ", ".join(f"{name}: {name} + 1" for name in ints) + "}" if ints else ""
    scale = 2 if any(region.rate == 0 and region.kind in HISTORIES for region in recipe.regions) else 1

    def event(name: str, rows: str, literal: int, before: str = "", after: str = "") -> str:
        more = {
            "vector": ", y: [4]",
            "tokens": f", tok: [{rows}]",
            "mode": f", mode: {('soft', 'hard')[literal]}",
            "flag": f", flag: {('true', 'false')[literal]}",
        }.get(recipe.extra, "")
        return (
            f"  {name}: {{{before}{when}inputs: {{x: [{rows}, 4]{more}}}, advance: {{base: {rows}}}, {run}{do}{after}}}"
        )

    events = ["events:", event("frame", str(recipe.rows * scale), 0)]
    if recipe.choice:
        rows = f"{scale} * n" if scale > 1 else "n"
        events.append(event("chunk", rows, 1, before=f"choose: {{n: 1..{recipe.choice}}}, "))
    if recipe.ends:
        events.append(event("end", str(scale), 1, after=", reset: true"))
    return [*events, "  turn: {reset: true}"]
