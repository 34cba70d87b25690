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
from cadencec.trace.history import WeakStorage
from cadencec.trace.operands import DTYPE_NAMES, HOST, device_text
from cadencec.trace.weights import Piece, Weights


def storage_bytes(tensor: Tensor) -> Tensor:
    """Return all bytes of the tensor's storage as a one-dimensional uint8 tensor on the CPU, copied."""
    window = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return window.set_(tensor.untyped_storage()).to("cpu", copy=True)


def digest(data: Tensor) -> str:
    """Return the sha256 of a one-dimensional uint8 CPU tensor."""
    # Not `data.numpy()`: that is watched while a stage is recorded.
    return hashlib.sha256(torch._C.TensorBase.numpy(data).data).hexdigest()


class StorageTable:
    """The storages of one recording, in the order in which they were met, and what each depends on.

    `depends[i]` is a set of bits: `WEIGHT`, `DRAW`, then one bit for each name in `sources` (inputs and leaves). With
    none but `WEIGHT`, the bytes are a constant of the step. `lasting` are storages that outlive the step and
    are no leaf (weights, and constants that something still holds), with a name for messages.
    """

    WEIGHT, DRAW = 1, 2

    def __init__(self, target: torch.device, weights: Weights) -> None:
        self.target, self.weights = target, weights
        self.kinds: list[StorageKind] = []
        self.names: list[str] = []
        self.sizes: list[int] = []
        self.hosts: list[bool] = []
        self.depends: list[int] = []
        self.sources: list[str] = []
        self.bound: dict[int, Tensor] = {}
        self.lasting: dict[int, str] = {}
        self.constants: dict[str, Tensor] = {}
        self.derived: set[str] = set()
        self.references: dict[int, WeakStorage] = {}
        self._index: dict[int, int] = {}
        self._pieces: dict[tuple[int, str], int] = {}
        self._base_bytes: dict[int, int] = {}
        self._on_host: dict[torch.device, bool] = {}

    def bind(self, kind: StorageKind, values: Mapping[str, Tensor]) -> None:
        """Register inputs or leaves; a leaf that shares a storage with an earlier one stands on that."""
        for name, tensor in values.items():
            check_layout(tensor)
            self.sources.append(name)
            bit = self.DRAW << len(self.sources)
            index = self._index.get(tensor.untyped_storage()._cdata)
            if index is None:
                index = self.add(kind, name, tensor, bit)
                self.bound[index] = tensor
            self.depends[index] |= bit

    def add(self, kind: StorageKind, name: str, tensor: Tensor, depends: int) -> int:
        """Register the tensor's storage under the next index and return that."""
        return self._add(kind, name, tensor.untyped_storage(), tensor.device, depends)

    def _add(
        self, kind: StorageKind, name: str, storage: torch.UntypedStorage, device: torch.device, depends: int
    ) -> int:
        index = self._append(kind, name, storage.nbytes(), device, depends)
        self._index[storage._cdata] = index
        self.references[index] = WeakStorage(storage)
        return index

    def find(self, tensor: Tensor) -> int | None:
        """Return the index of a known storage, or of what the model holds; None for a tensor from nowhere.

        Raises TraceError CAD3003 for a tensor without plain bytes, CAD3205 for one that an earlier run left and that
        was no constant.
        """
        check_layout(tensor)
        key = tensor.untyped_storage()._cdata
        index = self._index.get(key)
        return self._find_lasting(tensor, key) if index is None and self._may_last(key) else index

    def view(self, tensor: Tensor, index: int) -> View:
        """Return the tensor as a view of its storage, as it is now."""
        dtype, sizes, offset = DTYPE_NAMES[tensor.dtype], tuple(tensor.shape), self._offset(tensor, index)
        return View(index, dtype, sizes, tensor.stride(), offset, tensor.is_conj(), tensor.is_neg())

    def again(self, tensor: Tensor, view: View) -> View | None:
        """Return a tensor as a view, `view` itself where it is that; None for a tensor on another storage."""
        try:
            index = self._index.get(tensor.untyped_storage()._cdata)
        except NotImplementedError:  # a tensor without bytes
            return None
        if index != view.storage and self.find(tensor) != view.storage:
            return None
        bases = self._base_bytes
        offset = self._offset(tensor, view.storage) if view.storage in bases else tensor.storage_offset()
        if (
            tensor.shape == view.sizes
            and tensor.stride() == view.strides
            and offset == view.offset
            and DTYPE_NAMES[tensor.dtype] == view.dtype
            and tensor.is_conj() is view.conj
            and tensor.is_neg() is view.neg
        ):
            return view
        return self.view(tensor, view.storage)

    def add_fresh(self, tensor: Tensor, depends: int) -> None:
        """Register a plain tensor as scratch if it stands on a storage that is neither known nor the model's."""
        if tensor.layout is torch.strided and tensor.dtype in DTYPE_NAMES:
            storage = tensor.untyped_storage()
            key = storage._cdata
            if key not in self._index and not self._may_last(key):
                self._add("scratch", "", storage, tensor.device, depends)

    def _offset(self, tensor: Tensor, index: int) -> int:
        base_bytes = self._base_bytes.get(index)
        offset = tensor.storage_offset()
        return int(offset) if not base_bytes else int(offset) - base_bytes // tensor.element_size()

    def _may_last(self, key: int) -> bool:
        weights = self.weights
        return key in weights.pieces or key in weights.history.leftovers or key in weights.owned

    def resized(self, tensor: Tensor) -> None:
        """Take note that an op may have made the tensor's storage larger."""
        storage = tensor.untyped_storage()
        index = self._index.get(storage._cdata)
        if index is not None:
            self.sizes[index] = max(self.sizes[index], storage.nbytes())

    def add_constant(self, tensor: Tensor) -> int:
        """Register the bytes of the tensor's storage as a constant, without the identity of that storage."""
        data = storage_bytes(tensor)
        name = digest(data)
        self.constants[name] = data
        return self._append("constant", name, data.numel(), tensor.device, 0)

    def is_constant(self, index: int) -> bool:
        """Return whether the bytes, as they are now, depend on nothing that changes from run to run."""
        return not self.depends[index] & ~self.WEIGHT

    def names_of(self, depends: int) -> list[str]:
        """Return the inputs and leaves (or `a random draw`) that a set of bits stands for."""
        found = ["a random draw"] if depends & self.DRAW else []
        return found + [f"`{name}`" for bit, name in enumerate(self.sources, 2) if depends >> bit & 1]

    def finish(self) -> tuple[Storage, ...]:
        """Return the storages as the tape wants them."""
        rows = zip(self.kinds, self.names, self.sizes, self.hosts, strict=True)
        return tuple(Storage(*row) for row in rows)

    def _append(self, kind: StorageKind, name: str, size_bytes: int, device: torch.device, depends: int) -> int:
        self.kinds.append(kind)
        self.names.append(name)
        self.sizes.append(size_bytes)
        is_host = self._on_host.get(device)
        if is_host is None:
            is_host = self._on_host[device] = device_text(device, self.target) == HOST
        self.hosts.append(is_host)
        self.depends.append(depends)
        return len(self.kinds) - 1

    def _find_lasting(self, tensor: Tensor, key: int) -> int | None:
        """Register what outlives the step: a weight, another storage of the model, or a constant of an earlier step."""
        piece = self.weights.find(tensor)
        if piece is not None:
            return self._weight(tensor, key, piece)
        left = self.weights.history.leftovers.get(key)
        if left is not None and not left.constant:
            raise TraceError(
                "CAD3205",
                f"the stage reads a tensor that an earlier run left behind ({left.origin})",
                expected="state that is declared as a leaf",
                got=f"{DTYPE_NAMES[tensor.dtype]} {list(tensor.shape)} kept by the model",
                hint="return it in the state, or compute it anew in each step",
            )
        label = left.origin if left is not None else self.weights.owned.get(key)
        if label is None:
            return None
        index = self.add_constant(tensor)
        self._index[key] = index
        self.lasting[index] = label
        if left is None or left.from_weights:
            self.depends[index] = self.WEIGHT
            self.derived.add(self.names[index])
        return index

    def _weight(self, tensor: Tensor, key: int, piece: Piece) -> int:
        index = self._pieces.get((key, piece.name))
        if index is None:
            size = piece.upper_byte - piece.lower_byte
            index = self._append("weight", piece.name, size, tensor.device, self.WEIGHT)
            self._pieces[key, piece.name] = index
            if piece.lower_byte:
                self._base_bytes[index] = piece.lower_byte
            self.lasting[index] = piece.name
            if size == tensor.untyped_storage().nbytes():
                self._index[key] = index  # nothing else stands on this storage
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
