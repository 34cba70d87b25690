"""The Spec: a clock spec that reads well, with its params fixed and every name resolved."""

from dataclasses import dataclass, field

from cadence_runtime.host.program import Program


@dataclass(frozen=True, slots=True)
class WeightsFile:
    """A file of the release's weights; `path` is relative to the spec's folder, `sha256` is None where the spec pins
    none, and `prefix` comes before each name in the file."""

    path: str
    sha256: str | None = None
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Model:
    """Which model, and how it is built: `entry` is `package.module:function` or `file.py:function`, the file relative
    to the spec's folder; `options` are the entry's keyword arguments, sorted by name."""

    name: str
    entry: str
    options: tuple[tuple[str, bool | int | float | str | None], ...]
    weights: tuple[WeightsFile, ...]

    @property
    def named_file(self) -> str | None:
        """The weights file that a plan can name instead of holding its tensors: a safetensors file, alone and with its
        own names."""
        alone = self.weights[0] if len(self.weights) == 1 else None
        return alone.path if alone and alone.path.endswith(".safetensors") and not alone.prefix else None


@dataclass(frozen=True, slots=True)
class Spec:
    """`sha256` is of the canonical document after overrides, so it does not depend on layout, comments or the order of
    keys within one object. `numerics` are sorted; `path` is the file as it was named. `stock_bytes` are what the
    released code allocates, for the regions that say so."""

    path: str
    model: Model
    numerics: tuple[tuple[str, bool | int | str], ...]
    program: Program
    sha256: str
    stock_bytes: tuple[tuple[str, int], ...]
    marks: dict[str, str] = field(compare=False, repr=False)

    def where(self, name: str) -> str:
        """Return `file:line:col` of a value of the document by its dotted name (`regions.kv.retain`), or of the
        nearest thing around it; without one, the file."""
        while name:
            if name in self.marks:
                return self.marks[name]
            name = name.rpartition(".")[0]
        return self.path
