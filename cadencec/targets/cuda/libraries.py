"""Whose kernel image is it? By the names of its kernels, as far as they tell."""

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
