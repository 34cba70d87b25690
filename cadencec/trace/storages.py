"""Which storage a tensor stands on: identity by the storage object itself, so that aliasing needs no schema.

A storage is known by the address of its `StorageImpl`. A weak reference keeps that address from being reused while the
bytes themselves may be freed, so a recording holds no memory that the model has let go.
"""

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor

from cadence_runtime.errors import TraceError
from cadence_runtime.format.tape import Storage, StorageKind, View
from cadencec.trace.operands import DTYPE_NAMES, HOST, device_text
from cadencec.trace.weights import Weights


def storage_bytes(tensor: Tensor) -> Tensor:
    """Return all bytes of the tensor's storage as a one-dimensional uint8 tensor on the CPU, copied."""
    window = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return window.set_(tensor.untyped_storage()).to("cpu", copy=True)


def digest(data: Tensor) -> str:
    """Return the sha256 of a one-dimensional uint8 CPU tensor."""
    return hashlib.sha256(data.numpy().data).hexdigest()


class WeakStorage:
    """A weak reference to a storage: keeps its address from being reused, but not its bytes alive."""

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self._reference: int = storage._weak_ref()
        self._free = torch.UntypedStorage._free_weak_ref

    def is_alive(self) -> bool:
        """Return whether any tensor still stands on the storage."""
        return not torch.UntypedStorage._expired(self._reference)

    def __del__(self) -> None:
        self._free(self._reference)


class StorageTable:
    """The storages of one recording, in the order in which they were met, and what each depends on.

    `depends[i]` is a set of bits: bit 0 for a random draw, then one bit for each name in `sources` (inputs and
    leaves). No bit means that the bytes are a constant of the step.
    """

    DRAW = 1

    def __init__(self, target: torch.device, weights: Weights) -> None:
        self.target, self.weights = target, weights
        self.kinds: list[StorageKind] = []
        self.names: list[str] = []
        self.sizes: list[int] = []
        self.hosts: list[bool] = []
        self.depends: list[int] = []
        self.sources: list[str] = []
        self.constants: dict[str, Tensor] = {}
        self._index: dict[int, int] = {}
        self._pieces: dict[tuple[int, str], int] = {}
        self._base_items: dict[int, int] = {}
        self._references: list[WeakStorage] = []

    def bind(self, kind: StorageKind, values: Mapping[str, Tensor]) -> None:
        """Register inputs or leaves; a leaf that shares a storage with an earlier one stands on that."""
        for name, tensor in values.items():
            check_layout(tensor)
            self.sources.append(name)
            bit = 1 << len(self.sources)
            index = self._index.get(tensor.untyped_storage()._cdata)
            if index is None:
                index = self.add(kind, name, tensor, bit)
            self.depends[index] |= bit

    def add(self, kind: StorageKind, name: str, tensor: Tensor, depends: int) -> int:
        """Register the tensor's storage under the next index and return that."""
        storage = tensor.untyped_storage()
        index = self._append(kind, name, storage.nbytes(), tensor.device, depends)
        self._index[storage._cdata] = index
        self._references.append(WeakStorage(storage))
        return index

    def find(self, tensor: Tensor) -> int | None:
        """Return the index of a known storage, or of the weight that the tensor lies in; else None."""
        index = self._index.get(tensor.untyped_storage()._cdata)
        return self._find_weight(tensor) if index is None else index

    def view(self, tensor: Tensor, index: int) -> View:
        """Return the tensor as a view of its storage, as it is now."""
        offset = int(tensor.storage_offset()) - self._base_items.get(index, 0)
        view = View(
            storage=index,
            dtype=DTYPE_NAMES[tensor.dtype],
            sizes=tuple(tensor.shape),
            strides=tensor.stride(),
            offset=offset,
            conj=tensor.is_conj(),
            neg=tensor.is_neg(),
        )
        if self.kinds[index] == "scratch":
            self.sizes[index] = max(self.sizes[index], view.span()[1])
        return view

    def add_constant(self, tensor: Tensor) -> int:
        """Register a constant by its bytes, without an identity: the storage itself may become something else."""
        data = storage_bytes(tensor)
        name = digest(data)
        self.constants[name] = data
        return self._append("constant", name, data.numel(), tensor.device, 0)

    def names_of(self, depends: int) -> list[str]:
        """Return the inputs and leaves (or `a random draw`) that a set of bits stands for."""
        found = ["a random draw"] if depends & self.DRAW else []
        return found + [f"`{name}`" for bit, name in enumerate(self.sources, 1) if depends >> bit & 1]

    def finish(self) -> tuple[Storage, ...]:
        """Return the storages as the tape wants them."""
        rows = zip(self.kinds, self.names, self.sizes, self.hosts, strict=True)
        return tuple(Storage(*row) for row in rows)

    def _append(self, kind: StorageKind, name: str, size_bytes: int, device: torch.device, depends: int) -> int:
        self.kinds.append(kind)
        self.names.append(name)
        self.sizes.append(size_bytes)
        self.hosts.append(device_text(device, self.target) == HOST)
        self.depends.append(depends)
        return len(self.kinds) - 1

    def _find_weight(self, tensor: Tensor) -> int | None:
        piece = self.weights.find(tensor)
        if piece is None:
            return None
        key = (tensor.untyped_storage()._cdata, piece.name)
        index = self._pieces.get(key)
        if index is None:
            size = piece.upper_byte - piece.lower_byte
            index = self._append("weight", piece.name, size, tensor.device, 0)
            self._pieces[key] = index
            self._base_items[index] = piece.lower_byte // tensor.element_size()
        return index


def check_layout(tensor: Tensor) -> None:
    """Raise TraceError CAD3003 unless the tensor is strided, of a known dtype and no wrapper of others."""
    if tensor.layout != torch.strided or tensor.dtype not in DTYPE_NAMES:
        layout, dtype = (str(fact).removeprefix("torch.") for fact in (tensor.layout, tensor.dtype))
        raise TraceError(
            "CAD3003",
            "a tensor has no plain bytes",
            expected="a strided tensor of a plain dtype",
            got=f"layout `{layout}`, dtype `{dtype}`",
            hint="use dense tensors of plain dtypes in the stage",
        )
