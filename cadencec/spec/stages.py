"""Stages of the document -> stages of the program: regions, indices and inputs resolved."""

from cadence_runtime.format.plan import INIT, RESET
from cadence_runtime.host.program import Region, Stage, StageInput
from cadencec.spec.names import Names
from cadencec.spec.report import Subject
from cadencec.spec.schema import StageDoc, StageInputDoc
from cadencec.spec.values import Reference, one_of


def build_stages(regions: dict[str, Region], names: Names) -> dict[str, Stage]:
    """Return the stages by name, in written order; report what is wrong with them."""
    return {name: _Builder(name, stage, regions, names).build() for name, stage in names.document.stages.items()}


_ANY = (0, 1)
"""Stands for a range that is wrong, so that nothing calls it missing."""


class _Builder(Subject):
    """Builds one stage."""

    def __init__(self, name: str, declared: StageDoc, regions: dict[str, Region], names: Names) -> None:
        super().__init__(("stages", name), names.report)
        self.name, self.declared, self.regions, self.names = name, declared, regions, names

    def build(self) -> Stage:
        if self.name in {INIT, RESET}:
            self.fail(
                "CAD1302", f"`{self.name}` cannot be a stage", expected="another name; the model's own function has it"
            )
        repeat = self.repeat()
        reads, writes = self.references("reads"), self.references("writes")
        indexed = self.indexed(reads, writes, repeat)
        self.check_unique("outputs", self.declared.outputs)
        inputs = tuple(self.input(name, body) for name, body in self.declared.inputs.items())
        return Stage(
            name=self.name,
            reads=tuple(dict.fromkeys(ref.region for ref in reads)),
            writes=tuple(dict.fromkeys(ref.region for ref in writes)),
            inputs=inputs,
            outputs=tuple(self.declared.outputs),
            args=tuple(dict.fromkeys(self.declared.args + self.own_counters())),
            repeat=repeat,
            indexed=indexed,
        )

    def own_counters(self) -> list[str]:
        """Return the counters that the whole state of an only stage holds as Python ints."""
        if self.declared.reads is not None:
            return []
        return [name for name, counter in self.names.document.counters.items() if counter.leaf is not None]

    def repeat(self) -> tuple[str, int] | None:
        if self.declared.repeat is None:
            return None
        if len(self.declared.repeat) != 1:
            what = f"stage `{self.name}` repeats over {len(self.declared.repeat)} indices"
            self.fail("CAD1308", what, "repeat", expected="one index and its count, such as `{euler: 5}`")
            return None
        ((index, written),) = self.declared.repeat.items()
        count = self.names.evaluate(written, (*self.location, "repeat", index))
        if count is None:
            return None
        if count < 1:
            self.fail("CAD1308", f"stage `{self.name}` repeats {count} times", "repeat", index, expected="1 or more")
        return index, count

    def references(self, key: str) -> list[Reference]:
        """Return the regions that a stage reads or writes; the only stage has all of them by default."""
        written: list[Reference] | None = getattr(self.declared, key)
        if written is None:
            if len(self.names.document.stages) > 1 or self.declared.repeat is not None:
                what = f"missing key `{key}` in stage `{self.name}`"
                hint = f"add `{key}: []` if there is none"
                self.fail("CAD1202", what, expected="a list of regions, since every stage sees its own", hint=hint)
            return [Reference(name) for name in self.names.document.regions]
        for index, ref in enumerate(written):
            self.names.resolve("regions", "region", ref.region, (*self.location, key, index))
        self.check_unique(key, [ref.region for ref in written])
        return written

    def check_unique(self, key: str, items: list[str]) -> None:
        for index, item in enumerate(items):
            if item in items[:index]:
                self.fail(
                    "CAD1302", f"`{item}` stands twice in `{key}` of stage `{self.name}`", key, index, expected="once"
                )

    def indexed(
        self, reads: list[Reference], writes: list[Reference], repeat: tuple[str, int] | None
    ) -> tuple[str, ...]:
        """Return the regions that are passed one row at a time."""
        found: dict[str, str | None] = {}
        for key, refs in (("reads", reads), ("writes", writes)):
            for index, ref in enumerate(refs):
                if not self.has_index(ref, repeat, (key, index)):
                    continue
                if ref.region not in found:
                    self.check_rows(ref, repeat, (key, index))
                if found.setdefault(ref.region, ref.index) != ref.index:
                    what = f"stage `{self.name}` has region `{ref.region}` with its index and without"
                    self.fail("CAD1308", what, key, index, expected="the same in `reads` and `writes`")
        return tuple(name for name, index in found.items() if index is not None)

    def has_index(self, ref: Reference, repeat: tuple[str, int] | None, steps: tuple[str, int]) -> bool:
        """Return whether a reference has no index, or that of the stage."""
        if ref.index is None or (repeat is not None and ref.index == repeat[0]):
            return True
        what = f"unknown index `{ref.index}` in stage `{self.name}`"
        hint = f"add `repeat: {{{ref.index}: 5}}`" if self.declared.repeat is None else None
        self.fail("CAD1308", what, *steps, expected=one_of(self.declared.repeat or ()), hint=hint)
        return False

    def check_rows(self, ref: Reference, repeat: tuple[str, int] | None, steps: tuple[str, int]) -> None:
        region = self.regions.get(ref.region)
        if ref.index is None or repeat is None or region is None:
            return
        rows = region.shape[0] if region.shape else None
        if rows != repeat[1]:
            what = f"region `{ref.region}` has {rows or 'no'} rows for index `{ref.index}` of {repeat[1]}"
            self.fail("CAD1308", what, *steps, expected=f"{repeat[1]} as the first dim of its shape")

    def input(self, name: str, body: StageInputDoc) -> StageInput:
        steps = ("inputs", name)
        if body.choices is not None:
            if body.dtype or body.range:
                what = f"input `{name}` has choices and {'a dtype' if body.dtype else 'a range'}"
                self.fail("CAD1310", what, *steps, expected="choices for a literal, or a dtype and range for a tensor")
            if not body.choices:
                self.fail(
                    "CAD1310", f"input `{name}` has no choices", *steps, "choices", expected="one literal or more"
                )
            return StageInput(name, "", tuple(body.choices))
        lower, upper = self.input_range(name, body)
        return StageInput(name, body.dtype or "float32", (), lower, upper)

    def input_range(self, name: str, body: StageInputDoc) -> tuple[int | None, int | None]:
        """Return the half-open range of random values, or (None, None)."""
        if body.range is None:
            return (0, 2) if body.dtype == "bool" else (None, None)
        if len(body.range) != 2:
            what = f"the range of input `{name}` has {len(body.range)} numbers"
            self.fail(
                "CAD1303", what, "inputs", name, "range", expected="the lowest and the highest, such as `[0, 31]`"
            )
            return _ANY
        location = (*self.location, "inputs", name, "range")
        lower, upper = (self.names.evaluate(end, (*location, index)) for index, end in enumerate(body.range))
        if lower is None or upper is None:
            return _ANY
        if upper < lower:
            self.fail(
                "CAD1303", f"the range of input `{name}` is empty", "inputs", name, "range", expected="lowest first"
            )
        return lower, upper + 1
