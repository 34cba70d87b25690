"""What the bits of a CPU replay depend on besides the plan: torch, its libraries, the instruction set, the threads."""

import os
import platform

import torch

from cadence_runtime.cpu.numerics import flushes_denormals, text_of

_ISA = ("_is_avx2_supported", "_is_avx512_supported", "_is_avx512_bf16_supported", "_is_vnni_supported",
        "_is_amx_tile_supported", "_is_amx_fp16_supported")  # fmt: skip
_VARIABLES = ("ATEN_CPU_CAPABILITY", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA")


def environment() -> tuple[tuple[str, str], ...]:
    """Return sorted (name, value) pairs; a plan runs only where they are those of the machine that compiled it."""
    isa = [name.removeprefix("_is_").removesuffix("_supported") for name in _ISA if _has(name)]
    pairs = {
        "cpu.capability": torch.backends.cpu.get_cpu_capability(),
        "cpu.isa": " ".join(isa) or "base",
        "cpu.machine": platform.machine(),
        "default_dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "flush_denormal": text_of(flushes_denormals()),
        "mkl": _version("mkl"),
        "mkldnn": _version("mkldnn"),
        "threads": str(torch.get_num_threads()),
        "torch": torch.__version__.partition("+")[0],
    }
    pairs |= {f"env.{name}": os.environ[name] for name in _VARIABLES if name in os.environ}
    return tuple(sorted(pairs.items()))


def _has(name: str) -> bool:
    return bool(getattr(torch.cpu, name, lambda: False)())


def _version(library: str) -> str:
    """Return the version that torch was built with, from the lines of its own description."""
    words = {"mkl": "Math Kernel Library Version ", "mkldnn": "MKL-DNN v"}[library]
    for line in torch.__config__.show().splitlines():
        _, found, rest = line.partition(words)
        if found:
            return rest.split()[0]
    return "none"
