"""A model's state as named leaves, and the form of each leaf.

    {"kv": (k, v), "pos": 3}  ->  kv.0 = k, kv.1 = v, pos = 3         root tensor  ->  . = tensor

A state in *canonical* placement has each slot in a storage of its own: the bytes that its leaves span and nothing
else. What a leaf's form says is then all that a stage can see of where it lies:

    full = cat(old, x)        storage of `full`   |a b c d e f|
    h = full[2:]              h's form            sizes 4, strides 1, slot h, offset 2     slot h: |. . c d e f|

Leaves whose bytes overlap are tied: they share the slot of the first of them. The offset in a slot keeps the address
modulo `ALIGNMENT_BYTES`, since kernels may go by it.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cadence_runtime.errors import TraceError
from cadence_runtime.format.plan import Form, TensorForm
from cadence_runtime.format.tape import ITEM_BYTES, Literal
from cadencec.trace.operands import DTYPE_NAMES, DTYPES, encode_literal

Value = Tensor | bool | int | float | str | None
"""What a name of a stage's interface may hold. Leaves of the state are tensors, ints and None."""

ALIGNMENT_BYTES = 64
"""Allocations on the CPU are aligned to this; a CUDA allocator aligns to a multiple of it."""

NONE = Literal("none", "")


def flatten(state: object, what: str = "the state") -> dict[str, Value]:
    """Return the leaves by path, in the order of the nest. Raises TraceError CAD3501 for what is no leaf, CAD3508 for a
    nest whose paths are ambiguous or without end."""
    leaves: dict[str, Value] = {}
    for path, value in _walk(state, "", what, ()):
        if path in leaves:
            raise _bad_nest(f"two leaves have the path `{path}`", "keys that stay apart as text")
        if not (value is None or isinstance(value, Tensor | int)):
            raise _no_leaf(path, value, what)
        leaves[path] = value
    return leaves


def _walk(value: object, path: str, what: str, above: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
    children = _children(value, path)
    if children is None:
        yield path or ".", value
        return
    if id(value) in above:
        raise _bad_nest(f"{what} holds itself at `{path}`", "a nest with an end")
    for name, child in children:
        yield from _walk(child, f"{path}.{name}" if path else name, what, (*above, id(value)))


def _children(value: object, path: str) -> list[tuple[str, object]] | None:
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str | int):
                raise _bad_nest(f"a key at `{path or '.'}` is a `{type(key).__name__}`", "keys that are texts or ints")
        return [(str(key), child) for key, child in value.items()]
    if isinstance(value, list | tuple):
        return [(str(index), child) for index, child in enumerate(value)]
    return None


def _bad_nest(what: str, expected: str) -> TraceError:
    return TraceError("CAD3508", what, expected=expected)


def _no_leaf(path: str, value: object, what: str) -> TraceError:
    hint = "keep it on the model if it never changes, else make it a tensor"
    if not isinstance(value, float | str | bytes):
        hint = "return its tensors in dicts, lists and tuples"
    return TraceError(
        "CAD3501",
        f"{what} holds something that is no leaf at `{path}`",
        expected="dicts, lists, tuples, None, ints and tensors",
        got=f"`{type(value).__name__}`",
        hint=hint,
    )


def rebuild(template: object, value_of: Callable[[str], object]) -> object:
    """Return a nest like `template` with other leaves; a container that it holds twice is one container again."""
    return _rebuild(template, "", value_of, {})


def _rebuild(value: object, path: str, value_of: Callable[[str], object], made: dict[int, object]) -> object:
    children = _children(value, path)
    if children is None:
        return value_of(path or ".")
    if id(value) in made:
        return made[id(value)]
    new = [_rebuild(child, f"{path}.{name}" if path else name, value_of, made) for name, child in children]
    made[id(value)] = result = _container(value, new)
    return result


def _container(like: Any, items: list[object]) -> object:
    if isinstance(like, tuple):
        return like._make(items) if hasattr(like, "_make") else tuple(items)
    result = copy.copy(like)
    if isinstance(like, dict):
        result.update(zip(like, items, strict=True))
    else:
        result[:] = items
    return result


def structure(state: object) -> str | tuple[object, ...]:
    """Return what remains of a nest without its leaves, to be compared: containers with their keys."""
    children = _children(state, "")
    if children is None:
        return "none" if state is None else "leaf"
    return (type(state).__name__, tuple(sorted((name, structure(child)) for name, child in children)))


@dataclass(frozen=True, slots=True)
class Span:
    """The half-open range of bytes of its storage that a tensor can touch."""

    storage: int
    lower: int
    upper: int


def span_of(tensor: Tensor) -> Span:
    """Return the bytes that the tensor can touch; none for a tensor without elements."""
    item, start = tensor.element_size(), int(tensor.storage_offset())
    upper = start + _reach(tensor) + 1 if tensor.numel() else start
    return Span(tensor.untyped_storage()._cdata, start * item, upper * item)


def _reach(tensor: Tensor) -> int:
    """Return how many elements the tensor's last one lies after its first."""
    return sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def forms_of(values: Sequence[Value], contiguous: Sequence[bool] = ()) -> tuple[Form, ...]:
    """Return the form of each leaf. Tied leaves share the slot of the first; a leaf marked `contiguous` has a
    contiguous form and a slot of its own, whatever it is now."""
    tensors = {i: v for i, v in enumerate(values) if isinstance(v, Tensor)}
    plain = {i for i in tensors if i < len(contiguous) and contiguous[i]}
    groups = _tied({i: span_of(v) for i, v in tensors.items() if i not in plain})
    forms: list[Form] = []
    for i, value in enumerate(values):
        if not isinstance(value, Tensor):
            forms.append(encode_literal(value, torch.device("cpu")))
        elif i in plain:
            forms.append(contiguous_form(DTYPE_NAMES[value.dtype], tuple(value.shape), slot=i))
        else:
            slot, base = groups[i]
            offset = int(value.storage_offset()) - base // value.element_size() if value.numel() else 0
            forms.append(TensorForm(DTYPE_NAMES[value.dtype], tuple(value.shape), value.stride(), slot, offset))
    return tuple(forms)


def contiguous_form(dtype: str, sizes: tuple[int, ...], slot: int = -1) -> TensorForm:
    """Return the form of a tensor that is contiguous from the start of its slot."""
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= max(size, 1)
    return TensorForm(dtype, sizes, tuple(reversed(strides)), slot)


def _tied(spans: Mapping[int, Span]) -> dict[int, tuple[int, int]]:
    """Return for each leaf the first leaf of its overlapping group and the byte of the storage at which the slot
    starts: the group's lowest byte, aligned down."""
    result: dict[int, tuple[int, int]] = {}
    ordered = sorted(spans.items(), key=lambda item: (item[1].storage, item[1].lower, item[0]))
    group: list[int] = []
    storage, upper = 0, 0
    for leaf, span in [*ordered, (-1, Span(-1, 0, 0))]:
        overlaps = bool(group) and span.storage == storage and span.lower < upper and span.upper > span.lower
        if group and not overlaps:
            base = min(spans[i].lower for i in group) // ALIGNMENT_BYTES * ALIGNMENT_BYTES
            result.update({i: (min(group), base) for i in group})
            group, upper = [], 0
        group.append(leaf)
        storage, upper = span.storage, max(upper, span.upper)
    return result


def form_bytes(form: Form) -> int:
    """Return how many bytes of its slot a form reaches into; 0 for a literal or a tensor without elements."""
    if not isinstance(form, TensorForm) or 0 in form.sizes:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(form.sizes, form.strides, strict=True))
    return (form.offset + last + 1) * ITEM_BYTES[form.dtype]


def place(forms: Sequence[Form], values: Sequence[Value]) -> tuple[Value, ...]:
    """Return copies of the values in canonical placement, as the forms say: one storage for each slot."""
    slots = allocate(forms, next((v.device for v in values if isinstance(v, Tensor)), torch.device("cpu")))
    placed: list[Value] = []
    for form, value in zip(forms, values, strict=True):
        if isinstance(form, TensorForm) and isinstance(value, Tensor):
            view = view_slot(slots[form.slot], form)
            copy_bytes(view, value)
            placed.append(view)
        else:
            placed.append(value)
    return tuple(placed)


def allocate(forms: Sequence[Form], device: torch.device) -> dict[int, Tensor]:
    """Return zeroed bytes for each slot that the forms use."""
    sizes: dict[int, int] = {}
    for form in forms:
        if isinstance(form, TensorForm):
            sizes[form.slot] = max(sizes.get(form.slot, 0), form_bytes(form))
    return {slot: torch.zeros(size, dtype=torch.uint8, device=device) for slot, size in sizes.items()}


def view_slot(slot: Tensor, form: TensorForm) -> Tensor:
    """Return the tensor of a form on its slot's bytes."""
    view = torch.empty(0, dtype=DTYPES[form.dtype], device=slot.device)
    with torch.no_grad():
        view.set_(slot.untyped_storage(), form.offset, form.sizes, form.strides)
    return view


def copy_bytes(target: Tensor, source: Tensor) -> None:
    """Copy a tensor's elements into a view of the same sizes. Along a dim in which `target` repeats itself (an expanded
    state) all elements are equal, and one is written."""
    source = source.detach()
    for dim, stride in enumerate(target.stride()):
        if stride == 0 and target.shape[dim] > 1:
            target, source = target.narrow(dim, 0, 1), source.narrow(dim, 0, 1)
    with torch.no_grad():
        target.copy_(source)


@dataclass(frozen=True, slots=True)
class Sample:
    """A state with values: its nest without leaves, and the declared leaves in their order."""

    template: object
    values: tuple[Value, ...]

    def nest(self, leaves: Mapping[str, Value]) -> object:
        """Return the state as the model takes it, with the given leaves by path."""
        return rebuild(self.template, leaves.get)

    def copy(self, forms: Sequence[Form]) -> "Sample":
        """Return the same values in tensors of their own, placed as `forms` say."""
        return Sample(self.template, place(forms, self.values))


def skeleton(state: object) -> object:
    """Return the nest without its tensors, to be rebuilt from."""
    return rebuild(state, lambda path: None)
