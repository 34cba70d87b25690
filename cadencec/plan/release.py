"""The release's weights files: read by published tensor names, and known by digest. A model takes them in `published`.

    flow.pt, prefix `flow.`     ->  flow.spk_embed_affine_layer.weight, ...
    model.safetensors           ->  the names in it
    model.safetensors.index.json  ->  the names in all files that it lists

Tensors are mapped, not read: of a checkpoint of many gigabytes only what the model takes is ever looked at.
"""

import hashlib
import json
import os
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from cadence_runtime.errors import TraceError
from cadence_runtime.format.source import require_end
from cadencec.spec.spec import Spec, WeightsFile
from cadencec.trace.bits import raw_bytes

TORCH_SUFFIXES = (".pt", ".pth", ".bin", ".ckpt")
"""Of files that `torch.save` wrote; all others are safetensors files, or an index of some."""

INDEX_SUFFIX = ".index.json"

NESTED = ("state_dict", "model")
"""Where training code keeps the tensors, beside what else it saves."""


def read_release(spec: Spec) -> dict[str, Tensor]:
    """Return the tensors of the spec's weights files by name, with the prefix of their file; none without files.

    Raises TraceError CAD3901 for a file that cannot be read, CAD3902 for another file than the spec pins, CAD3904 for
    a name that two files hold, UsageError CAD9202 for a pipe or device.
    """
    tensors: dict[str, Tensor] = {}
    for number, weights in enumerate(spec.model.weights):
        listed = f"model.weights.{number}"
        at = spec.where(f"{listed if listed in spec.marks else 'model.weights'}.file")
        found = {weights.prefix + name: tensor for name, tensor in _read(spec, weights, at).items()}
        if twice := sorted(found.keys() & tensors.keys()):
            raise TraceError(
                "CAD3904", "two weights files hold a tensor of one name", got=f"`{twice[0]}`", at=at, hint=_PREFIX_HINT
            )
        tensors |= found
    return tensors


_PREFIX_HINT = 'tell them apart: `{file: flow.pt, prefix: "flow."}`'


def _read(spec: Spec, weights: WeightsFile, at: str) -> dict[str, Tensor]:
    path = Path(spec.path).parent / weights.path
    require_end(path)
    try:
        if weights.sha256 is not None:
            _check_digest(path, weights.sha256, at)
        if path.name.endswith(INDEX_SUFFIX):
            return _index(path)
        return _torch(path) if path.suffix in TORCH_SUFFIXES else _safetensors(path)
    except FileNotFoundError:
        reason = "no such file"
    except (pickle.UnpicklingError, EOFError):
        reason = "objects that are no tensors, or no file of torch"
    except (OSError, SafetensorError, RuntimeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
    raise TraceError(
        "CAD3901",
        f"the weights file `{weights.path}` cannot be read",
        expected=f"a file of {', '.join(TORCH_SUFFIXES)} with tensors alone, relative to the spec"
        if path.suffix in TORCH_SUFFIXES
        else "a safetensors file, relative to the spec",
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


def _safetensors(path: Path) -> dict[str, Tensor]:
    with safe_open(os.fspath(path), "pt") as file:
        return {name: file.get_tensor(name) for name in sorted(file.keys())}


def _index(path: Path) -> dict[str, Tensor]:
    """Return the tensors of all files that an index of a sharded checkpoint lists, which lie beside it."""
    document = json.loads(path.read_text(encoding="utf-8"))
    listed = document.get("weight_map") if isinstance(document, dict) else None
    if not isinstance(listed, dict) or not all(isinstance(name, str) for name in listed.values()):
        raise ValueError("no `weight_map` from names of tensors to files")
    tensors: dict[str, Tensor] = {}
    for name in sorted(set(listed.values())):
        if Path(name).name != name:
            raise ValueError(f"the file `{name}`, which does not lie beside it")
        if not (path.parent / name).is_file():
            raise ValueError(f"no such file as `{name}`, which it lists")
        tensors |= _safetensors(path.parent / name)
    return tensors


def _torch(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a file of `torch.save`, of which no code is run."""
    document = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    for name in NESTED:
        if isinstance(document, Mapping) and isinstance(document.get(name), Mapping):
            document = document[name]
    return dict(_checked(document))


def _checked(document: Any) -> Mapping[str, Tensor]:
    if not isinstance(document, Mapping):
        raise ValueError(f"`{type(document).__name__}`, where a mapping from names to tensors was expected")
    for name, tensor in document.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise ValueError(f"`{type(tensor).__name__}` under `{name}`, where a tensor was expected")
    return document


def digests(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Return the sha256 of each tensor's raw bytes."""
    return {name: hashlib.sha256(raw_bytes(tensor).numpy().tobytes()).hexdigest() for name, tensor in tensors.items()}
