"""Whose kernel image is it? By the names of its kernels, as far as they tell. And which versions are installed?"""

import re
from importlib.metadata import distributions

from cadencec.targets.cuda.images import FUNCTION, symbols

MARKS = (
    ("nvjet", "cuBLASLt"),
    ("cublasLt", "cuBLASLt"),
    ("cublas", "cuBLAS"),
    ("gemm", "cuBLAS"),
    ("gemv", "cuBLAS"),
    ("cudnn", "cuDNN"),
    ("cutlass", "CUTLASS"),
    ("fft", "cuFFT"),
    ("at6native", "PyTorch"),
    ("at4cuda", "PyTorch"),
    ("pytorch_flash", "PyTorch"),
    ("triton", "Triton"),
)
"""Parts of mangled kernel names, the most telling first."""


def library_of(image: bytes) -> str:
    """Return the library that an image most likely comes from, or `unknown`."""
    names = [symbol.name for symbol in symbols(image) if symbol.kind == FUNCTION]
    for mark, library in MARKS:
        if any(mark in name for name in names):
            return library
    return "unknown"


_PACKAGES = re.compile(r"(?:nvidia-)?(cublas|cuda-nvrtc|cufft|curand|cusolver|cusparse|triton)(?:-cu\d+)?")


def installed_versions() -> dict[str, str]:
    """Return the versions of the packages that bring kernels, by the library's name; nothing of libraries that came
    without a package."""
    names = ((_PACKAGES.fullmatch(package.name.lower()), package.version) for package in distributions())
    return {match[1]: version for match, version in names if match is not None}
