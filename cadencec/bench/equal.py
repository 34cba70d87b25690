"""Did both sides say the same, bit for bit? Compared as they were written down by their processes."""

from collections.abc import Sequence
from itertools import zip_longest

from cadence_runtime.cuda.arrays import RAW_BITS
from cadencec.bench.rows import Array, Row
from cadencec.bench.tensors import tensor_of
from cadencec.trace.fidelity import difference
from cadencec.trace.oracle import check_names


def first_difference(got: Sequence[Row], expected: Sequence[Row], events: Sequence[str], loop: str) -> str | None:
    """Return where the replay first parts from the loop that it is held to, or None; `events` are those of the pushes.

    Raises TraceError CAD3426 where the two have other names for outputs.
    """
    for row, wanted in zip_longest(got, expected):
        number = min(each.head["push"] for each in (row, wanted) if each is not None)
        if row is None or wanted is None or row.head != wanted.head:
            return f"push {number + 1} (`{events[number]}`): outputs on one side only"
        found, right = ({array.name: array for array in each.arrays} for each in (row, wanted))
        check_names(loop, events[number], tuple(found), tuple(right))
        for name, array in right.items():
            if not _is_same(found[name], array):
                what = difference(_read_as(found[name], array), tensor_of(array))
                return f"push {number + 1} (`{events[number]}`), output `{name}`: {what}"
    return None


def _is_same(got: Array, expected: Array) -> bool:
    has_dtype = got.dtype == RAW_BITS.get(expected.dtype, expected.dtype) or got.dtype == expected.dtype
    return has_dtype and got.sizes == expected.sizes and got.data == expected.data


def _read_as(got: Array, expected: Array) -> object:
    """Return what was got as a tensor, of the dtype that is expected where its bits can be that."""
    if got.dtype == RAW_BITS.get(expected.dtype):
        return tensor_of(Array(got.name, expected.dtype, got.sizes, got.data))
    return tensor_of(got)
