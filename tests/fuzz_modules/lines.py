"""The body of a stage as lines of Python: a pool of values of shape [rows, 4], and one line for each instruction."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.fuzz_modules.recipe import Instruction, Region
from tests.fuzz_modules.values import HISTORIES, is_mutating, loaded, stored


@dataclass(slots=True)
class Body:
    """Lines so far; `pool` has the values by name, each with whether it may be written in place."""

    regions: Mapping[str, Region]
    lines: list[str] = field(default_factory=list)
    pool: list[tuple[str, bool]] = field(default_factory=list)
    prefix: str = "v"

    def let(self, text: str, *, may_write: bool = True) -> str:
        """Give a value a name."""
        name = f"{self.prefix}{len(self.pool)}"
        self.lines.append(f"{name} = {text}")
        self.pool.append((name, may_write))
        return name

    def pick(self, index: int) -> str:
        """Return a value of the pool, counted from the newest."""
        return self.pool[-1 - index % len(self.pool)][0]

    def may_write(self, name: str) -> bool:
        return dict(self.pool)[name]

    def add(self, instruction: Instruction) -> None:
        """Add the lines of an instruction; those that find nothing to work on add none."""
        v, w, c = self.pick(instruction.a), self.pick(instruction.b), instruction.c
        name = instruction.name
        if name in VALUES:
            self.let(VALUES[name].format(v=v, w=w, c=c, at=c % 4, half=c % 2))
        elif name in VIEWS:
            text, keeps = VIEWS[name]
            self.let(text.format(v=v, half=c % 2), may_write=keeps and self.may_write(v))
        elif name in CHANGES:
            if self.may_write(v):
                self.lines.append(CHANGES[name].format(v=v, w=w, at=c % 4))
        else:
            OTHERS[name](self, v, w, c)

    def some(self, index: int, kinds: Sequence[str]) -> tuple[str, Region] | None:
        """Return one of the regions of some kinds."""
        found = [(name, region) for name, region in self.regions.items() if region.kind in kinds]
        return found[index % len(found)] if found else None


VALUES = {
    "add": "{v} + {w}",
    "scale": "{v} * ({c} - 2.5)",
    "tanh": "torch.tanh({v})",
    "linear": "self.lin({v})",
    "where": "torch.where({v} > {w}, {v}, {w} * 0.5)",
    "flip": "{v}.flip(0)",
    "shift": "torch.cat([{v}[:, 1:], {v}[:, :1]], 1)",
    "cumsum": "{v}.cumsum(0)",
    "branch_rows": "{v}.clone() if {v}.shape[0] > 1 else {v} * 3",
    "noise": "{v} + torch.randn_like({w}) * 0.1",
    "bernoulli": "{v} * torch.bernoulli({w}.sigmoid().nan_to_num(0.5))",
    "uniform_": "torch.empty_like({v}).uniform_()",
    "randint": "{v} + torch.randint(0, 5, (4,))",
    "complex": "torch.complex({v}, {w}).conj().imag",
    "sort": "{v}.sort(-1).values",
    "split": "torch.cat({v}.chunk(2, 1)[::-1], 1)",
    "double": "({v}.double() @ self.lin.weight.double().t()).float()",
    "normalise": "nn.functional.layer_norm({v}, (4,))",
    "conv": "self.conv({v}.t()[None])[0].t()",
    "fft": "torch.fft.irfft(torch.fft.rfft({v}), n=4)",
    "zero_size": "torch.cat([{v}[:0], {v}])",
    "clone": "{v}.clone()",
    "stack": "torch.stack([{v}, {w}])[{half}]",
}
VIEWS = {
    "strided": ("{v}.t().contiguous().t()", True),
    "expand": ("{v}[:1].expand_as({v})", False),
    "alias": ("{v}.view_as({v})", True),
}
CHANGES = {
    "write": "{v}[:, {at}] = {w}[:, 0]",
    "relu_": "{v}.relu_()",
}


def table(body: Body, v: str, w: str, c: int) -> None:
    if c % 2:
        body.let(f"{v} * torch.arange(4.0)")
        return
    body.lines += ["if self.lazy is None:", "    self.lazy = torch.linspace(0, 1, 4)"]
    body.let(f"{v} * self.lazy")


def branch(body: Body, v: str, w: str, c: int) -> None:
    body.let(f"{v} + 1 if self.table.sum().item() > {c} else {v} * self.table[0].item()")


def branch_table(body: Body, v: str, w: str, c: int) -> None:
    body.lines += [f"limits = torch.arange({c}) + 1", "if limits.sum() > 5 and not torch.equal(limits, limits * 2):"]
    body.lines += [f"    {v} = {v} + limits.max()"]


def scratch(body: Body, v: str, w: str, c: int) -> None:
    body.lines += [f"self.scratch.copy_({v}[-1])", f"self.scratch[{c % 4}].add_(1)"]
    body.let(f"{w} * self.scratch")


def late(body: Body, v: str, w: str, c: int) -> None:
    """A constant that is read, then gets data, then is read again."""
    body.lines += [f"kept = torch.full((4,), {float(c)})", "before = kept + 1", f"kept[{c % 4}] += {v}[0, 0]"]
    body.let(f"{w} * kept + before")


def autocast(body: Body, v: str, w: str, c: int) -> None:
    body.lines += ['with torch.autocast("cpu", torch.bfloat16):', f"    low = self.lin({v})"]
    body.let("low.float()")


def inference(body: Body, v: str, w: str, c: int) -> None:
    body.lines += ["with torch.inference_mode():", f"    quiet = self.lin({v}) * 2"]
    body.let("quiet.clone()")


def poke(body: Body, v: str, w: str, c: int) -> None:
    """Write one number into a region that is written in place anyway."""
    found = body.some(c, ("row", "tied", "overlap"))
    if found and is_mutating(found[1]):
        body.lines.append(f"{found[0]}[{c % 4}] = {stored(f'{v}[0, 0]', found[1].dtype)}")


def write_region(body: Body, v: str, w: str, c: int) -> None:
    found = body.some(c, ("row", "tied", "overlap"))
    if found and is_mutating(found[1]):
        body.lines.append(f"{found[0]}.copy_({stored(f'{v}[0]', found[1].dtype)})")


def history(body: Body, c: int) -> str | None:
    """Return the rows of a history as floats."""
    found = body.some(c, HISTORIES)
    if not found:
        return None
    rows = loaded(found[0], found[1].dtype)
    return f"{rows}.t()" if found[1].last else rows


def attend(body: Body, v: str, w: str, c: int) -> None:
    rows = history(body, c)
    if rows:
        body.let(f"torch.softmax({v} @ {rows}.t(), -1) @ {rows}")


def mix(body: Body, v: str, w: str, c: int) -> None:
    rows = history(body, c)
    if rows:
        body.let(f"{v} + {rows}.sum(0)")


OTHERS: dict[str, Callable[[Body, str, str, int], None]] = {
    "table": table,
    "branch": branch,
    "branch_table": branch_table,
    "scratch": scratch,
    "late": late,
    "autocast": autocast,
    "inference": inference,
    "poke": poke,
    "write_region": write_region,
    "attend": attend,
    "mix": mix,
}
