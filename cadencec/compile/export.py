"""Weights out of a plan and into a safetensors file beside it.

    plan with embedded weights  ->  plan that names them, and  NAME.0123456789ab.safetensors

The file's name holds the digest of what is in it, so a file never changes under a plan that names it: compiling anew,
twice at once, or being killed between the two files leaves every plan with the weights that it was made with. Its
metadata have the digest of each tensor, so that a load notices a file that was put in another's place.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from safetensors.torch import save
from torch import Tensor

from cadence_runtime.format.cuda import KernelImage, Snapshot
from cadence_runtime.format.plan import Constant, Plan, Weight
from cadence_runtime.format.weights import DIGESTS, digests_text

Owner = TypeVar("Owner", Weight, Constant, KernelImage, Snapshot)

COMPLEX = ("complex32", "complex64", "complex128")
"""What a safetensors file cannot hold; such a weight stays in the plan."""


@dataclass(frozen=True, slots=True)
class Exported:
    """A plan without the bytes of its weights, and the file that holds them."""

    plan: Plan
    file_name: str
    data: bytes


def export_weights(plan: Plan, stem: str) -> Exported | None:
    """Return the plan with its embedded weights in a file `STEM.DIGEST.safetensors`.

    None for a plan that embeds none, or that names the weights file of a release: it cannot name a second one.
    """
    if plan.weights_file is not None:
        return None
    tensors = {
        w.name: as_tensor(w, plan.blobs[w.blob]) for w in plan.weights if w.blob is not None and w.dtype not in COMPLEX
    }
    if not tensors:
        return None
    data = save(tensors, {DIGESTS: digests_text({w.name: w.sha256 for w in plan.weights if w.name in tensors})})
    file_name = f"{stem}.{hashlib.sha256(data).hexdigest()[:12]}.safetensors"
    weights = tuple(replace(weight, blob=None) if weight.name in tensors else weight for weight in plan.weights)
    return Exported(without_unused_blobs(replace(plan, weights=weights, weights_file=file_name)), file_name, data)


def as_tensor(weight: Weight, data: bytes) -> Tensor:
    """Return a weight's bytes as the tensor that they are."""
    dtype: torch.dtype = getattr(torch, weight.dtype)
    if not data:
        return torch.empty(weight.sizes, dtype=dtype)
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).view(dtype).reshape(weight.sizes)


def without_unused_blobs(plan: Plan) -> Plan:
    """Return the plan without blobs that nothing names, the others in their order."""
    images, snapshots = (plan.cuda.images, plan.cuda.snapshots) if plan.cuda else ((), ())
    owners: tuple[Weight | Constant | KernelImage | Snapshot, ...]
    owners = (*plan.weights, *plan.constants, *images, *snapshots)
    named = {owner.blob for owner in owners}
    kept = [index for index in range(len(plan.blobs)) if index in named]
    places = {old: new for new, old in enumerate(kept)}
    return replace(
        plan,
        blobs=tuple(plan.blobs[index] for index in kept),
        weights=_moved(plan.weights, places),
        constants=_moved(plan.constants, places),
        cuda=plan.cuda and replace(plan.cuda, images=_moved(images, places), snapshots=_moved(snapshots, places)),
    )


def _moved(owners: tuple[Owner, ...], places: Mapping[int, int]) -> tuple[Owner, ...]:
    return tuple(owner if owner.blob is None else replace(owner, blob=places[owner.blob]) for owner in owners)
