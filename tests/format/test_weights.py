"""Safetensors headers: what the format's own library writes is read, and what it refuses is refused."""

import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save

from cadence_runtime.format.weights import DIGESTS, HeaderError, digests_text, read_entries

DTYPES = {"float32": np.float32, "float16": np.float16, "int64": np.int64, "uint8": np.uint8, "bool": np.bool_}


def entries(data: bytes):
    return read_entries(len(data), lambda offset, size: data[offset : offset + size])


def file(header: object, body: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def row(dtype: str, shape: list[int], lower: int, upper: int) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [lower, upper]}


@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8"), min_size=1, max_size=8),
        st.tuples(st.sampled_from(sorted(DTYPES)), st.lists(st.integers(0, 4), max_size=3)),
        max_size=5,
    )
)
def test_every_tensor_is_found(wanted):
    tensors = {name: np.ones(shape, DTYPES[dtype]) for name, (dtype, shape) in wanted.items()}
    data = save(tensors, {"format": "pt"})
    found = entries(data)
    assert {name: (e.dtype, list(e.sizes)) for name, e in found.items()} == wanted
    for name, entry in found.items():
        assert data[entry.lower : entry.upper] == tensors[name].tobytes()


REFUSED = {
    "0 bytes, too short for a header": b"",
    "a header of 99 bytes in a file of 10": struct.pack("<Q", 99) + b"{}",
    "a header of 18446744073709551615 bytes in a file of 10": b"\xff" * 8 + b"{}",
    "a header that is no JSON": file(b"{]"),
    "a header that is no object": file([1]),
    "a name stands twice in the header": file(b'{"a":1,"a":1}'),
    "`1.5` in the header, which has only integers": file(b'{"a":1.5}'),
    "metadata that are no strings by name": file({"__metadata__": {"format": 1}}),
    "metadata `cadencec.sha256` that are no digests by name": file({"__metadata__": {"cadencec.sha256": "[]"}}),
    "tensor `a` without dtype, shape and data_offsets, and nothing else": file({"a": {}}),
    "tensor `a` with a dtype, shape or data_offsets of the wrong type": file({"a": row("F32", [-1], 0, 4)}, bytes(4)),
    "tensor `a` of 4 bytes in 8": file({"a": row("F32", [1], 0, 8)}, bytes(8)),
    "tensor `b` from byte 130 to 134, not from 134": file(
        {"a": row("F32", [1], 0, 4), "b": row("F32", [1], 0, 4)}, bytes(4)
    ),
    "tensor `a` from byte 73 to 77, not from 69": file({"a": row("F32", [1], 4, 8)}, bytes(8)),
    "tensors that end at byte 73 of 76": file({"a": row("F32", [1], 0, 4)}, bytes(7)),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_no_header_is_refused(reason):
    with pytest.raises(HeaderError) as caught:
        entries(REFUSED[reason])
    assert str(caught.value) == reason


def test_the_library_refuses_the_same_but_for_two_that_it_is_lenient_about():
    lenient = []
    for reason, data in REFUSED.items():
        try:
            deserialize(data)
        except SafetensorError:
            continue
        lenient.append(reason)
    own = "metadata `cadencec.sha256` that are no digests by name"
    assert set(lenient) <= {"a name stands twice in the header", own}


@pytest.mark.parametrize("said", ["", "[]", "[" * 9999, '{"a":1}', '{"a":"\\u001b[31m"}', '{"a":"AB"}'])
def test_what_a_file_says_of_its_bytes_is_digests_or_nothing(said):
    with pytest.raises(HeaderError, match=r"metadata `cadencec\.sha256` that are no digests by name"):
        entries(file({"__metadata__": {"cadencec.sha256": said}}))


def test_what_a_file_says_of_its_bytes_stands_with_each_tensor():
    tensors = {"a": np.ones(2, np.float32), "b": np.ones(1, np.float32)}
    said = digests_text({"a": "0" * 64})
    assert {name: entry.sha256 for name, entry in entries(save(tensors, {DIGESTS: said})).items()} == {
        "a": "0" * 64,
        "b": None,
    }


def test_a_dtype_that_no_tape_holds_keeps_its_own_name():
    assert entries(file({"a": row("F8_E8M0", [4], 0, 4)}, bytes(4)))["a"].dtype == "F8_E8M0"


@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(data):
    try:
        entries(struct.pack("<Q", len(data)) + data)
    except HeaderError:
        return
    assert json.loads(data) in ({}, {"__metadata__": {}})


def test_deep_nesting_is_refused():
    with pytest.raises(HeaderError, match="a header that is no JSON"):
        entries(file(b"[" * 100_000))
