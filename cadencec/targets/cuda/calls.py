"""The driver's calls by cuda-bindings, for what a compiler needs of them beyond a replay: reading graphs back."""

from typing import Any

from cuda.bindings import driver as cu

from cadence_runtime.cuda.driver import driver_error
from cadence_runtime.cuda.libcuda import HINTS

SUCCESS = cu.CUresult.CUDA_SUCCESS


def call(name: str, *arguments: Any) -> Any:
    """Make one driver call by name; return its results (one bare, several as a tuple, none as None)."""
    result, *values = getattr(cu, name)(*arguments)
    if result != SUCCESS:
        raise driver_error(name, result.name, HINTS.get(result.name))
    return values[0] if len(values) == 1 else tuple(values) if values else None
