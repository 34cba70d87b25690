"""What earlier recordings of the same model left behind: tensors that are still alive, buffers that were overwritten.

A tensor that was constant when a step ended may be used by later steps (a table made on first use); one that was not is
state which nobody declared.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch

from cadencec.trace.attributes import Snapshot


class WeakStorage:
    """A weak reference to a storage: keeps its address from being reused, but not its bytes alive."""

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self.key: int = storage._cdata
        self._reference = storage._weak_ref()
        self._free = torch.UntypedStorage._free_weak_ref

    def is_alive(self) -> bool:
        """Return whether any tensor still stands on the storage."""
        return not torch.UntypedStorage._expired(self._reference)

    def __del__(self) -> None:
        self._free(self._reference)  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class Leftover:
    """A storage that outlived the recording which made it; `origin` says where that was."""

    reference: WeakStorage
    constant: bool
    from_weights: bool
    origin: str


@dataclass(slots=True)
class History:
    """`overwritten` and `read` name the weights that stages used as scratch and as weights, with the stage that did so
    first; `snapshot` is what the model held when the last recording ended."""

    leftovers: dict[int, Leftover] = field(default_factory=dict)
    overwritten: dict[str, str] = field(default_factory=dict)
    read: dict[str, str] = field(default_factory=dict)
    snapshot: Snapshot | None = None

    def remember(self, leftovers: Iterable[Leftover]) -> None:
        """Add what a recording left, and forget what has gone since."""
        alive = {key: left for key, left in self.leftovers.items() if left.reference.is_alive()}
        alive.update((left.reference.key, left) for left in leftovers if left.reference.is_alive())
        self.leftovers = alive
