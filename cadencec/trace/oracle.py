"""The oracle of a model: the released modules, driven by the released streaming loop.

An adapter's module may offer, beside the entry that a spec names,

    stock(device="cpu", **options) -> Oracle        the entry's own options, and where it runs

An oracle is one session. It shares no state with another, and holds its weights under their published names, as the
adapter does (`published_name`), so that a checkpoint loads into both. It transcribes only the released loop; a test of
the adapter pins the digest of what it transcribes.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from cadence_runtime.errors import CadenceError, TraceError
from cadencec.trace.model import HOST, Option, check_options, failure, import_entry, steady_random
from cadencec.trace.source import SourceLines

FACTORY = "stock"

Outputs = list[dict[str, Tensor]]
"""What a push gives: for each event that has outputs, in order, its outputs by name, on the host."""


@runtime_checkable
class Oracle(Protocol):
    """One session of a released model.

    `variants` are the ways to run it, from what the release does by itself (its own CUDA graphs, `torch.compile`) to
    the plainest, whose bits a plan must have. An oracle may also have `state()`, the leaves of the spec's regions by
    path as the released objects hold them; without it, regions are compared with the adapter's own stages.
    """

    @property
    def variants(self) -> tuple[str, ...]:
        """The names of the variants on this device; one at least."""

    def start(self, variant: str) -> None:
        """Begin a session; the one before is over. Weights stay as they are from here on."""

    def push(self, event: str, **inputs: Any) -> Outputs:
        """Let an external event of the spec happen, and what follows it. Inputs are tensors on the host by name, and
        values of choices that no shape shows."""


def has_oracle(entry: str, base_folder: str | Path) -> bool:
    """Return whether the module of a spec's `entry` offers an oracle; what importing it raises comes through."""
    place, _, _ = entry.rpartition(":")
    return callable(getattr(import_entry(place, Path(base_folder), entry), FACTORY, None))


def check_names(loop: str, event: str, got: Sequence[str], expected: Sequence[str]) -> None:
    """Raise TraceError CAD3426 unless a plan's outputs of an event have the names that the loop gives them."""
    if set(got) != set(expected):
        raise TraceError(
            "CAD3426",
            f"{loop} has other names for the outputs of `{event}`",
            expected=_listed(expected),
            got=_listed(got),
            hint="name outputs as the adapter's own spec does, or hold the plan to its own stages by `--stages`",
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


def load_oracle(
    entry: str, options: Mapping[str, Option], base_folder: str | Path, device: torch.device = HOST
) -> Oracle | None:
    """Return the oracle of the model that a spec's `entry` names, not started yet, or None where its module offers
    none.

    Raises TraceError CAD3405 where `stock` takes other options than the entry, CAD3406 where it fails, CAD3423 where
    it returns no oracle, and what importing the module raises.
    """
    place, _, _ = entry.rpartition(":")
    name = f"{place}:{FACTORY}"
    with steady_random():
        factory = getattr(import_entry(place, Path(base_folder), entry), FACTORY, None)
        if not callable(factory):
            return None
        given = {"device": str(device), **options}
        check_options(factory, given, name)
        try:
            oracle = factory(**given)
        except (Exception, SystemExit) as error:
            if isinstance(error, CadenceError):
                raise
            raise failure("CAD3406", f"`{name}` failed", error) from error
    if not isinstance(oracle, Oracle) or not oracle.variants:
        lacking = [f"`{part}`" for part in ("variants", "start", "push") if not getattr(oracle, part, None)]
        raise TraceError(
            "CAD3423",
            f"`{name}` returned no oracle",
            expected="`variants`, `start(variant)` and `push(event, **inputs)`",
            got=f"`{type(oracle).__name__}` without " + " and ".join(lacking),
            hint="give the adapter's module another name for it, or wrap the released loop in a class that has them",
        )
    return oracle


@contextmanager
def running(what: str) -> Iterator[None]:
    """Run an oracle without gradients; a failure of its code is a TraceError CAD3425 that names the line."""
    try:
        with torch.no_grad():
            yield
    except CadenceError:
        raise
    except Exception as error:
        raise TraceError(
            "CAD3425",
            f"the released loop raised in {what}",
            expected="the released loop to take every push of the timeline",
            got=f"{type(error).__name__}: {error}".partition("\n")[0],
            at=SourceLines().of_error(error),
            hint="correct the timeline, or what `stock` makes of the event",
        ) from error
