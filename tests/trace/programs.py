"""Random small stages: a program is a list of instructions over a pool of tensors, with views and in-place writes.

An instruction is (name, a, b, c): `a` and `b` pick tensors of the pool, `c` is a small number. Instructions that make
no sense for what they pick do something harmless, so every list is a program and shrinks well.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from hypothesis import strategies as st
from torch import Tensor, nn

Instruction = tuple[str, int, int, int]
MOST = 48


class Program(nn.Module):
    """Runs instructions as a stage with two leaves (one transposed), one input and two weights."""

    def __init__(self, instructions: Sequence[Instruction], picks: Sequence[int]):
        super().__init__()
        self.instructions, self.picks = tuple(instructions), tuple(picks)
        self.w = nn.Parameter(torch.linspace(-1, 1, 12).view(3, 4), requires_grad=False)
        self.register_buffer("scratch", torch.zeros(3, 4))

    def step(self, state: Mapping[str, Tensor], x: Tensor) -> tuple[dict[str, Tensor], list[Tensor]]:
        pool = [state["a"], state["b"], x]
        for name, a, b, c in self.instructions:
            left, right = pool[a % len(pool)], pool[b % len(pool)]
            made = OPS[name](self, left, right, c)
            pool += [small(t) for t in made]
        chosen = [pool[pick % len(pool)] for pick in self.picks]
        return {"a": chosen[0], "b": chosen[1]}, chosen[2:]


def small(t: Tensor) -> Tensor:
    return t if t.numel() <= MOST else t.reshape(-1)[:8]


def fit(t: Tensor, like: Tensor) -> Tensor:
    """Return the first tensor if it broadcasts to the second, else its sum."""
    try:
        return t if torch.broadcast_shapes(t.shape, like.shape) == like.shape else t.sum()
    except RuntimeError:
        return t.sum()


def overlaps(t: Tensor) -> bool:
    return any(size > 1 and stride == 0 for size, stride in zip(t.shape, t.stride(), strict=True)) or t.dim() > 3


def in_place(change: Callable[[Tensor, Tensor, int], object]) -> Callable[..., list[Tensor]]:
    def run(model: Program, left: Tensor, right: Tensor, c: int) -> list[Tensor]:
        if not overlaps(left):
            change(left, fit(right.clone(), left), c)
        return []

    return run


def narrowed(t: Tensor, c: int) -> Tensor:
    if t.dim() == 0 or t.shape[0] == 0:
        return t
    start = c % t.shape[0]
    return t.narrow(0, start, (c // 2) % (t.shape[0] - start + 1))


def scratch(model: Program, left: Tensor, right: Tensor, c: int) -> list[Tensor]:
    model.scratch.copy_(fit(left, model.scratch))
    model.scratch[c % 3].add_(1)
    return [model.scratch * 2]


def branch(model: Program, left: Tensor, right: Tensor, c: int) -> list[Tensor]:
    table = torch.arange(4.0) + c
    return [left + 1] if table.sum() > 8 else [left * table[0].item()]


def late(model: Program, left: Tensor, right: Tensor, c: int) -> list[Tensor]:
    """A constant that is read, then gets data, then is read again."""
    kept = torch.full((3, 4), float(c))
    before = kept + 1
    kept[c % 3] += fit(left, kept[0])
    return [before, kept]


OPS: dict[str, Callable[..., list[Tensor]]] = {
    "add": lambda m, a, b, c: [a + fit(b, a)],
    "scale": lambda m, a, b, c: [a * (c + 0.1)],
    "weight": lambda m, a, b, c: [m.w.t()[c % 4] + fit(a, m.w.t()[0])],
    "where": lambda m, a, b, c: [torch.where(a > 0, a, fit(b, a))],
    "cat": lambda m, a, b, c: [torch.cat([a.reshape(-1), b.reshape(-1)])],
    "stack": lambda m, a, b, c: [torch.stack([a, a])],
    "matmul": lambda m, a, b, c: [m.w @ a] if a.dim() == 2 and a.shape[0] == 4 else [],
    "t": lambda m, a, b, c: [a.t()] if a.dim() == 2 else [a.unsqueeze(-1)],
    "narrow": lambda m, a, b, c: [narrowed(a, c)],
    "select": lambda m, a, b, c: [a[c % a.shape[0]]] if a.dim() and a.shape[0] else [],
    "flat": lambda m, a, b, c: [a.reshape(-1)],
    "expand": lambda m, a, b, c: [a.unsqueeze(0).expand(2, *a.shape)],
    "split": lambda m, a, b, c: list(a.unsafe_chunk(2)) if a.dim() and a.shape[0] else [],
    "clone": lambda m, a, b, c: [a.clone(), a.contiguous()],
    "complex": lambda m, a, b, c: [torch.complex(a, fit(b, a).expand(a.shape)).conj().imag],
    "sort": lambda m, a, b, c: [a.reshape(-1).sort().values],
    "zeros": lambda m, a, b, c: [torch.zeros_like(a), torch.ones(c % 3, 4)],
    "table": lambda m, a, b, c: [torch.tensor([float(c), 1.0]), torch.arange(c % 5 + 1.0)],
    "noise": lambda m, a, b, c: [torch.randn_like(a), torch.rand(c % 4)],
    "empty": lambda m, a, b, c: [torch.empty_like(a).copy_(fit(b, a))],
    "scratch": scratch,
    "branch": branch,
    "late": late,
    "add_": in_place(lambda a, b, c: a.add_(b)),
    "copy_": in_place(lambda a, b, c: a.copy_(b)),
    "fill_": in_place(lambda a, b, c: a.fill_(c)),
    "zero_": in_place(lambda a, b, c: a.zero_()),
    "relu_": in_place(lambda a, b, c: a.relu_()),
    "item_": in_place(lambda a, b, c: a[:1].mul_(2) if a.dim() else a.mul_(2)),
}

instructions = st.lists(
    st.tuples(st.sampled_from(sorted(OPS)), st.integers(0, 30), st.integers(0, 30), st.integers(0, 7)), max_size=14
)
programs = st.builds(Program, instructions, st.lists(st.integers(0, 60), min_size=4, max_size=4))
