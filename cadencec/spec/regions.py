"""Regions of the document -> regions of the program: shape, length axis, retention and start agree with one another."""

from cadence_runtime.errors import SpecError
from cadence_runtime.host.program import ABSENT, Region, Retention
from cadencec.spec.names import LENGTH, Names
from cadencec.spec.report import Location, Subject
from cadencec.spec.schema import START_ABSENT, RegionDoc


def build_regions(names: Names) -> dict[str, Region]:
    """Return the regions that make sense, by name, in written order; report the others."""
    _check_leaves(names)
    built = {name: _Builder(name, declared, names).build() for name, declared in names.document.regions.items()}
    return {name: region for name, region in built.items() if region is not None}


def _check_leaves(names: Names) -> None:
    """Report a leaf that two regions or counters claim."""
    claims: list[tuple[str, str, Location]] = []
    for name, region in names.document.regions.items():
        leaves = region.leaves or [name]
        claims += [(leaf, f"region `{name}`", ("regions", name, "leaves", leaf)) for leaf in leaves]
    for name, counter in names.document.counters.items():
        if counter.leaf is not None:
            claims.append((counter.leaf, f"counter `{name}`", ("counters", name, "leaf")))
    owners: dict[str, str] = {}
    for leaf, owner, location in claims:
        if leaf in owners:
            what = f"leaf `{leaf}` belongs to {owners[leaf]} and to {owner}"
            names.report.add(SpecError("CAD1302", what, expected="one owner a leaf"), location)
        owners.setdefault(leaf, owner)


class _Builder(Subject):
    """Builds one region, and notes whether anything about it was wrong."""

    def __init__(self, name: str, declared: RegionDoc, names: Names) -> None:
        super().__init__(("regions", name), names.report)
        self.name, self.declared, self.names = name, declared, names

    def build(self) -> Region | None:
        declared = self.declared
        shape = self.shape()
        axis = shape.index(None) if None in shape else None
        self.check_axis(axis)
        cap = self.cap(axis)
        start = self.start(axis, cap)
        self.check_clock(axis)
        if declared.stock_bytes is not None and not self.names.check(
            declared.stock_bytes, (*self.location, "stock_bytes"), self.names.constants
        ):
            self.is_good = False
        if declared.retain.kind in {"fixed", "ring"} and cap is None:
            cap = 1 if axis is None else start
        if not self.is_good:
            return None
        retention = Retention(declared.retain.kind, cap)
        leaves = tuple(declared.leaves or [self.name])
        return Region(self.name, leaves, declared.dtype, shape, axis, declared.clock, start, retention, declared.layout)

    def shape(self) -> tuple[int | None, ...]:
        """Return the dims, None for the length."""
        dims = [self.dim(index) for index in range(len(self.declared.shape))]
        if dims.count(None) > 1:
            what = f"the shape of region `{self.name}` has two lengths"
            self.fail("CAD1304", what, "shape", expected=f"one `{LENGTH}`", hint="split the region in two")
        return tuple(dims)

    def dim(self, index: int) -> int | None:
        written = self.declared.shape[index]
        if written.text == LENGTH:
            return None
        value = self.names.evaluate(written, (*self.location, "shape", index))
        if value is None:
            self.is_good = False
            return 1
        if value < 1:
            what = f"dim {index} of region `{self.name}` is {value}"
            hint = f"write `{LENGTH}`, with `start: 0`, for a length that begins at 0"
            self.fail("CAD1304", what, "shape", index, expected="1 or more", hint=hint)
        return value

    def check_axis(self, axis: int | None) -> None:
        if self.declared.axis is None or self.declared.axis == axis:
            return
        if axis is None:
            what = f"region `{self.name}` has an axis but no length in its shape"
            self.fail("CAD1304", what, "axis", expected=f"`{LENGTH}`")
        else:
            what = f"`{LENGTH}` of region `{self.name}` stands at {axis}, not at {self.declared.axis}"
            self.fail("CAD1304", what, "axis", expected=f"`{axis}`", hint="leave `axis` out: the shape says it")

    def cap(self, axis: int | None) -> int | None:
        """Return the length that the retention names, or None."""
        retain = self.declared.retain
        if axis is None and (retain.kind != "fixed" or retain.cap is not None):
            what = f"region `{self.name}` has no length that `{retain.kind}` could bound"
            hint = f"put `{LENGTH}` where the length goes, such as `shape: [1, {LENGTH}, 64]`"
            self.fail("CAD1304", what, "retain", expected=f"`{LENGTH}` in its shape", hint=hint)
        if retain.cap is None:
            return None
        cap = self.names.evaluate(retain.cap, (*self.location, "retain", retain.kind))
        if cap is None:
            self.is_good = False
        elif cap < 1:
            what = f"region `{self.name}` keeps {cap} ticks"
            self.fail("CAD1305", what, "retain", expected="1 or more", hint="leave out a region that keeps nothing")
        return cap

    def start(self, axis: int | None, cap: int | None) -> int:
        """Return the length at the start: as written, or what the retention implies."""
        kind, written = self.declared.retain.kind, self.declared.start
        if written == START_ABSENT:
            if axis is not None and kind == "fixed" and cap is None:
                what = f"region `{self.name}` is absent at the start and its length is not given"
                self.fail("CAD1305", what, "retain", hint="write `retain: {fixed: 2}`")
            return ABSENT
        implied = 1 if axis is None else cap if kind in {"fixed", "ring"} else 0
        value = implied if written is None else self.names.evaluate(written, (*self.location, "start"))
        if value is None:
            self.is_good = False
            if written is None and kind == "fixed":
                what = f"region `{self.name}` is fixed and its length is not given"
                self.fail("CAD1305", what, "shape", hint=f"add `start: 16`, or write the number for `{LENGTH}`")
            return 0
        self.check_start(value, implied, cap)
        return value

    def check_start(self, start: int, implied: int | None, cap: int | None) -> None:
        kind = self.declared.retain.kind
        if start < 0:
            what = f"region `{self.name}` starts at length {start}"
            self.fail("CAD1305", what, "start", expected="0 or more, or `absent`")
        elif kind in {"fixed", "ring"} and implied is not None and start != implied:
            what = f"region `{self.name}` keeps length {implied} and starts at {start}"
            hint = f"a region that grows up to {implied} is `retain: {{window: {implied}}}`" if kind == "ring" else None
            self.fail("CAD1305", what, "start", expected=f"`{implied}` or `absent`", hint=hint)
        elif kind == "window" and cap is not None and start > cap:
            what = f"region `{self.name}` starts at {start}, beyond its window of {cap}"
            self.fail("CAD1305", what, "start", expected=f"at most {cap}")

    def check_clock(self, axis: int | None) -> None:
        clock, kind = self.declared.clock, self.declared.retain.kind
        if clock is not None:
            self.is_good &= self.names.resolve("clocks", "clock", clock, (*self.location, "clock"))
        elif axis is not None and kind in {"grow", "window"}:
            what = f"region `{self.name}` grows and has no clock"
            known = self.names.document.clocks
            hint = f"add `clock: {next(iter(known))}`" if known else "declare one: `clocks: {frame: 50 Hz}`"
            self.fail("CAD1305", what, "retain", expected="the clock whose ticks are its length", hint=hint)
