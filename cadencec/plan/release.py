"""The release's weights file: put into a model by published tensor names, and known by digest."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from cadence_runtime.errors import TraceError
from cadencec.spec.spec import Spec
from cadencec.spec.values import suggest
from cadencec.trace.bits import raw_bytes
from cadencec.trace.weights import Weights


def read_release(spec: Spec) -> dict[str, Tensor]:
    """Return the tensors of the spec's weights file by name; none where the spec names no file.

    Raises TraceError CAD3901 for a file that cannot be read, CAD3902 for another file than the spec pins.
    """
    if spec.model.weights is None:
        return {}
    path = Path(spec.path).parent / spec.model.weights.path
    at = spec.where("model.weights.file")
    try:
        if spec.model.weights.sha256 is not None:
            _check_digest(path, spec.model.weights.sha256, at)
        with safe_open(os.fspath(path), "pt") as file:
            return {name: file.get_tensor(name) for name in sorted(file.keys())}
    except FileNotFoundError:
        reason = "no such file"
    except (OSError, SafetensorError) as error:
        reason = str(error)
    raise TraceError(
        "CAD3901",
        f"the weights file `{spec.model.weights.path}` cannot be read",
        expected="a safetensors file, relative to the spec",
        got=reason,
        at=at,
    )


def _check_digest(path: Path, expected: str, at: str) -> None:
    with path.open("rb") as file:
        got = hashlib.file_digest(file, "sha256").hexdigest()
    if got != expected:
        raise TraceError(
            "CAD3902", "the weights file is another one than the spec pins", expected=expected, got=got, at=at
        )


def apply_release(tensors: Mapping[str, Tensor], weights: Weights, at: str) -> None:
    """Copy the file's tensors into the model's by name. Raises TraceError CAD3903 for one that does not fit."""
    for name, tensor in tensors.items():
        own = weights.tensors.get(name)
        if own is None or own.shape != tensor.shape or own.dtype != tensor.dtype:
            raise TraceError(
                "CAD3903",
                f"tensor `{name}` of the weights file does not fit the model",
                expected="a tensor of the model"
                if own is None
                else f"{own.dtype} {list(own.shape)}".removeprefix("torch."),
                got=f"{tensor.dtype} {list(tensor.shape)}".removeprefix("torch."),
                at=at,
                hint=suggest(name, weights.tensors) if own is None else "is this another release of the model?",
            )
        with torch.no_grad():
            own.copy_(tensor)


def digests(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Return the sha256 of each tensor's raw bytes."""
    return {name: hashlib.sha256(raw_bytes(tensor).numpy().tobytes()).hexdigest() for name, tensor in tensors.items()}
