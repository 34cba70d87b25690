"""Large constants leave the plan: they become weights of its weights file, under the digest of their bytes.

    storage constant 3f2a.., 40 MB   ->   storage weight `constant.3f2a..`, uint8 [40 M], in the safetensors file

A model that works out its start from a prompt folds hundreds of megabytes. In the weights file they are mapped instead
of read, and checked in full only by `check --full`, like every other weight.
"""

from dataclasses import replace

import torch
from torch import Tensor

from cadence_runtime.format.tape import Storage
from cadencec.passes.program import Program

LARGE_BYTES = 64 << 10


def externalise(program: Program, tensors: dict[str, Tensor], device: torch.device) -> Program:
    """Return the program with its large constants as weights, which are added to `tensors`."""
    tape = program.tape
    storages = tuple(_external(storage) for storage in tape.storages)
    moved = {new.name: old.name for old, new in zip(tape.storages, storages, strict=True) if old != new}
    if not moved:
        return program
    for name, digest in moved.items():
        if name not in tensors:
            tensors[name] = program.constants[digest].to(device)
    left = {digest: data for digest, data in program.constants.items() if digest not in moved.values()}
    return Program(replace(tape, storages=storages), left, program.derived & left.keys())


def _external(storage: Storage) -> Storage:
    """Return the storage as a weight where it is a large constant of the device."""
    if storage.kind != "constant" or storage.host or storage.size_bytes < LARGE_BYTES:
        return storage
    return replace(storage, kind="weight", name=f"constant.{storage.name}")
