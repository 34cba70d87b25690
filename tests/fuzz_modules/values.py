"""What a row of four floats becomes in a region of some dtype, and back, as Python text."""

from tests.fuzz_modules.recipe import Region

MUTATING = ("in_place", "partly", "omit")
HISTORIES = ("grow", "window", "roll", "ring")
ROWS = ("row", "absent", "tied", "overlap")
CAP_OF_GROW = 3
"""Events that a module with a region that grows may have between resets."""


def is_mutating(region: Region) -> bool:
    """Whether the module writes into the region's own memory."""
    return region.kind in ROWS and region.update in MUTATING


def stored(value: str, dtype: str) -> str:
    """Return floats as the region's dtype; what is out of range for an integer has no defined value, so it is cut."""
    if dtype == "float32":
        return value
    if dtype == "bool":
        return f"({value} > 0)"
    if dtype == "int64":
        return f"({value} * 8).nan_to_num(0.0, 0.0, 0.0).clamp(-99, 99).to(torch.int64)"
    return f"{value}.to(torch.{dtype})"


def loaded(value: str, dtype: str) -> str:
    """Return a region's value as floats."""
    return {"float32": value, "complex64": f"{value}.real"}.get(dtype, f"{value}.float()")


def start(region: Region) -> str:
    """Return what the region starts from: four numbers, in memory of some layout."""
    dtype = f"dtype=torch.{region.dtype}"
    kind = "zeros" if region.start == "weight" and is_mutating(region) else region.start
    if kind == "weight":
        return stored("self.table", region.dtype)
    if kind == "random":
        return stored("torch.randn(4)", region.dtype)
    return {
        "zeros": f"torch.zeros(4, {dtype})",
        "ramp": f"torch.arange(4).to(torch.{region.dtype})",
        "strided": f"torch.zeros(4, 3, {dtype})[:, 1]",
        "offset": f"torch.ones(9, {dtype})[3:7]",
    }[kind]


def history_start(region: Region) -> int:
    """Return the length that a history starts with."""
    if region.kind in ("roll", "ring"):
        return region.cap
    return min(region.cap, 2) if region.kind == "window" and region.update in ("keep", "view") else 0
