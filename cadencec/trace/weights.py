"""The model's own tensors by name: parameters, buffers and plain tensor attributes of everything that the model holds.

A weight is a run of bytes of a storage: several weights may share one storage (a flattened LSTM), and tied parameters
are one weight under the name that comes first.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from cadencec.trace.attributes import walk
from cadencec.trace.children import AttributeKind
from cadencec.trace.history import History


@dataclass(frozen=True, slots=True)
class Piece:
    """A weight as the half-open byte range [`lower_byte`, `upper_byte`) of its storage."""

    name: str
    kind: AttributeKind
    lower_byte: int
    upper_byte: int


@dataclass(frozen=True, slots=True)
class Weights:
    """Names of the model's tensors by storage. `tensors` are the weights by name, `pieces` the same by storage;
    `owned` are all storages of the model with the path of their first tensor, also those of tensors that are no plain
    run of bytes (a transposed parameter) and so become constants. `held` keeps all of these storages from being freed
    and their addresses from meaning something else. `history` grows with each recording."""

    model: object
    tensors: dict[str, Tensor] = field(default_factory=dict)
    pieces: dict[int, list[Piece]] = field(default_factory=dict)
    owned: dict[int, str] = field(default_factory=dict)
    held: list[torch.UntypedStorage] = field(default_factory=list)
    history: History = field(default_factory=History)

    def find(self, tensor: Tensor) -> Piece | None:
        """Return the weight that holds all bytes of the tensor, or None."""
        storage = tensor.untyped_storage()
        pieces = self.pieces.get(storage._cdata)
        if pieces is None:
            return None
        if pieces[0].lower_byte == 0 and pieces[0].upper_byte == storage.nbytes():
            return pieces[0]
        lower, upper = byte_range(tensor)
        return next((p for p in pieces if p.lower_byte <= lower and upper <= p.upper_byte), None)

    def tensor(self, name: str) -> Tensor:
        """Return a weight by its name."""
        return self.tensors[name]


def collect_weights(model: object) -> Weights:
    """Return the names of all tensors that the model holds: an `nn.Module`, or any object with some in attributes."""
    weights = Weights(model)
    for name, kind, tensor in sorted_weights(model):
        key = tensor.untyped_storage()._cdata
        weights.owned.setdefault(key, name)
        weights.held.append(tensor.untyped_storage())
        if not tensor.is_contiguous():
            continue
        lower, upper = byte_range(tensor)
        known = weights.pieces.setdefault(key, [])
        if not any(p.lower_byte <= lower and upper <= p.upper_byte for p in known):
            known.append(Piece(name, kind, lower, upper))
            weights.tensors[name] = tensor
    return weights


def sorted_weights(model: object) -> Iterator[tuple[str, AttributeKind, Tensor]]:
    """Yield (name, kind, tensor): parameters and buffers first, then plain attributes, each in the model's order."""
    found = [
        (a.path, a.kind, a.value)
        for a in walk(model)
        if isinstance(a.value, Tensor) and a.value.layout == torch.strided
    ]
    yield from (row for row in found if row[1] != "attribute")
    yield from (row for row in found if row[1] == "attribute")


def byte_range(tensor: Tensor) -> tuple[int, int]:
    """Return the half-open range of bytes of its storage that the tensor touches."""
    item, lower = tensor.element_size(), int(tensor.storage_offset())
    if tensor.numel() == 0:
        return lower * item, lower * item
    last = sum((int(size) - 1) * int(stride) for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return lower * item, (lower + last + 1) * item
