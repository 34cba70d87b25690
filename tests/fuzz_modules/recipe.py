"""Recipes of random streaming modules: plain data that hypothesis draws and shrinks.

A recipe says which regions a module has and how each advances, what the module computes, how it is reset, and which
events a session may have. `render.py` turns it into a model file and a clock spec. Every recipe is a module that the
language can describe, except where it has a `trap`: state that the spec does not know. So all must compile and replay
bit for bit; with a trap, be refused or replay bit for bit.
"""

from dataclasses import dataclass

from hypothesis import strategies as st

ROW_UPDATES = ("new", "in_place", "partly", "view", "keep", "expand", "accumulate", "omit")
ROW_STARTS = ("zeros", "ramp", "random", "strided", "weight", "offset")
DTYPES = ("float32", "float32", "float64", "float16", "bfloat16", "int64", "bool", "complex64")


@dataclass(frozen=True, slots=True)
class Region:
    """One region. `kind` is a row of four, one that starts as None, two tied rows, a row and a view of it, a history
    that grows, a window, a ring (by position, or rolled), or an int that the host counts.

    `rate`: ticks for each input row; for 0, one tick for two rows. `last`: time is the last dim. `cap`: the length
    kept. `is_deep`: the leaf stands in nested lists and tuples. `is_own`: a history is made contiguous."""

    kind: str
    update: str
    start: str
    dtype: str
    rate: int
    cap: int
    last: bool
    is_deep: bool
    is_own: bool


@dataclass(frozen=True, slots=True)
class Instruction:
    """One line of the body: `a` and `b` pick values, `c` is a small number."""

    name: str
    a: int
    b: int
    c: int


@dataclass(frozen=True, slots=True)
class Recipe:
    """A module. `rows` are those of a `frame`, up to `choice` those of a `chunk`; `has_stages`: two stages instead of
    a step; `ends`: a third event resets by itself; `reset`: the module's own reset, or none."""

    regions: tuple[Region, ...]
    body: tuple[Instruction, ...]
    outputs: tuple[tuple[str, int], ...]
    rows: int
    choice: int
    has_stages: bool
    ends: bool
    reset: str
    nest: str
    extra: str
    trap: str


INSTRUCTIONS = (
    "add", "scale", "tanh", "linear", "where", "strided", "expand", "flip", "shift", "cumsum", "poke", "write", "relu_",
    "table", "branch", "branch_table", "branch_rows", "noise", "bernoulli", "uniform_", "randint", "scratch", "late",
    "autocast", "inference", "complex", "sort", "split", "double", "attend", "mix", "write_region", "normalise",
    "alias", "conv", "fft", "zero_size", "clone", "stack",
)  # fmt: skip
OUTPUTS = ("value", "view", "state", "input", "constant", "transposed", "number", "none", "weight")
TRAPS = ("attribute", "buffer", "global", "closure", "list")

regions = st.builds(
    Region,
    kind=st.sampled_from(
        ("row", "row", "absent", "tied", "overlap", "grow", "window", "window", "ring", "roll", "int")
    ),
    update=st.sampled_from(ROW_UPDATES),
    start=st.sampled_from(ROW_STARTS),
    dtype=st.sampled_from(DTYPES),
    rate=st.integers(0, 3),
    cap=st.integers(1, 5),
    last=st.booleans(),
    is_deep=st.booleans(),
    is_own=st.booleans(),
)
instructions = st.builds(
    Instruction, st.sampled_from(INSTRUCTIONS), st.integers(0, 9), st.integers(0, 9), st.integers(0, 5)
)
recipes = st.builds(
    Recipe,
    regions=st.lists(regions, min_size=1, max_size=3).map(tuple),
    body=st.lists(instructions, max_size=7).map(tuple),
    outputs=st.lists(st.tuples(st.sampled_from(OUTPUTS), st.integers(0, 9)), min_size=1, max_size=3).map(tuple),
    rows=st.integers(1, 3),
    choice=st.integers(0, 2),
    has_stages=st.booleans(),
    ends=st.booleans(),
    reset=st.sampled_from(("none", "again", "in_place", "partly")),
    nest=st.sampled_from(("tuple", "list", "dict")),
    extra=st.sampled_from(("none", "vector", "tokens", "mode", "flag")),
    trap=st.just("none"),
)
trapped = st.builds(
    lambda recipe, trap: Recipe(**{**{f: getattr(recipe, f) for f in Recipe.__slots__}, "trap": trap}),
    recipes,
    st.sampled_from(TRAPS),
)
