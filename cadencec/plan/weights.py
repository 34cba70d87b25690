"""Weights and constants of a plan: which tapes read which, and the bytes of those that travel in the file."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from cadence_runtime.format.plan import Constant, Weight
from cadence_runtime.format.tape import Tape
from cadencec.plan.layout import in_a_row
from cadencec.trace.bits import raw_bytes
from cadencec.trace.operands import DTYPE_NAMES
from cadencec.trace.weights import Weights


@dataclass(slots=True)
class Blobs:
    """Raw bytes by content: the same bytes are stored once."""

    index: dict[bytes, int] = field(default_factory=dict)

    def add(self, data: bytes) -> int:
        """Return the position of some bytes."""
        return self.index.setdefault(data, len(self.index))

    def all(self) -> tuple[bytes, ...]:
        """Return the blobs in order."""
        return tuple(self.index)


def names_read(tapes: Sequence[Tape], kind: str) -> list[str]:
    """Return the names of all weights or constants that tapes read, in the order in which they first do."""
    return list(dict.fromkeys(storage.name for tape in tapes for storage in tape.storages if storage.kind == kind))


def collect_weights(
    tapes: Sequence[Tape], weights: Weights, published: Mapping[str, str], blobs: Blobs, *, embed: bool
) -> tuple[tuple[Weight, ...], int]:
    """Return the weights that the tapes read, and the size of their section.

    `published` are the digests of the tensors in the weights file; what it does not hold with these bytes is embedded.
    """
    names = sorted(names_read(tapes, "weight"))
    data = {name: _bytes(weights.tensor(name)) for name in names}
    row = in_a_row(len(data[name]) for name in names)
    found = []
    for name, offset in zip(names, row.offsets, strict=True):
        tensor, digest = weights.tensor(name), hashlib.sha256(data[name]).hexdigest()
        blob = None if published.get(name) == digest and not embed else blobs.add(data[name])
        found.append(Weight(name, DTYPE_NAMES[tensor.dtype], tuple(tensor.shape), digest, offset, blob))
    return tuple(found), row.size_bytes


def collect_constants(
    tapes: Sequence[Tape], constants: Mapping[str, Tensor], blobs: Blobs
) -> tuple[tuple[Constant, ...], int]:
    """Return the constants that the tapes read, and the size of their section. Those of one tape lie side by side as
    far as no other tape reads them."""
    names = names_read(tapes, "constant")
    data = {name: _bytes(constants[name]) for name in names}
    row = in_a_row(len(data[name]) for name in names)
    rows = zip(names, row.offsets, strict=True)
    return tuple(
        Constant(name, len(data[name]), offset, blobs.add(data[name])) for name, offset in rows
    ), row.size_bytes


def _bytes(tensor: Tensor) -> bytes:
    return raw_bytes(tensor).cpu().numpy().tobytes()
