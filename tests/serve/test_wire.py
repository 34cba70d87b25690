"""The wire: what is written is read, and what is no message is one error and never anything else."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from cadence_runtime.errors import SessionError
from cadence_serve.wire import DTYPES, decode, encode, error_fields

ARRAYS = st.sampled_from(sorted(DTYPES)).flatmap(
    lambda name: arrays.arrays(name, arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
)
FIELDS = st.dictionaries(
    st.text(max_size=8).filter(lambda name: name != "tensors"), st.integers() | st.text(max_size=8)
)


@given(FIELDS, st.dictionaries(st.text(max_size=8), ARRAYS, max_size=3))
def test_what_is_written_is_read_bit_for_bit(fields: dict[str, object], tensors: dict[str, np.ndarray]) -> None:  # type: ignore[type-arg]
    message = decode(encode(fields, tensors))
    assert message.fields == fields
    assert {name: (a.dtype, a.shape, a.tobytes()) for name, a in message.tensors.items()} == {
        name: (a.dtype, a.shape, a.tobytes()) for name, a in tensors.items()
    }


def test_the_bytes_of_a_message_are_these() -> None:
    x = np.arange(3, dtype=">i2")[::-1]
    header = b'{"type": "push", "tensors": [{"name": "x", "dtype": "int16", "shape": [3]}]}'
    assert encode({"type": "push"}, {"x": x}) == len(header).to_bytes(4, "little") + header + b"\2\0\1\0\0\0"
    assert encode({"type": "open", "seed": 7}) == '{"type": "open", "seed": 7}'


@given(st.binary(max_size=200) | st.text(max_size=100))
def test_garbage_is_one_error(message: bytes | str) -> None:
    try:
        found = decode(message)
    except SessionError as error:
        assert error.code == "CAD7071"
    else:
        assert isinstance(found.fields, dict)


@given(ARRAYS, st.integers(0, 500), st.integers(0, 255))
def test_a_message_with_another_byte_is_read_or_is_one_error(array: np.ndarray, at: int, byte: int) -> None:  # type: ignore[type-arg]
    message = bytearray(encode({"type": "push"}, {"x": array}))  # type: ignore[arg-type]
    message[at % len(message)] = byte
    try:
        found = decode(bytes(message))
    except SessionError as error:
        assert error.code == "CAD7071"
    else:
        assert sum(each.nbytes for each in found.tensors.values()) <= len(message)


def binary(header: object, data: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(4, "little") + text + data


X = {"name": "x", "dtype": "int8", "shape": [2]}


@pytest.mark.parametrize(
    ("message", "expected", "got"),
    [
        ("[1]", "a JSON object", "[1]"),
        ("[" * 100_000, "a JSON object", "maximum recursion depth exceeded"),
        ('{"tensors": [1]}', "tensors in a binary message", "tensors in a text message"),
        (b"ab", "4 bytes of size", "2 bytes"),
        (b"\xff\xff\xff\xff{}", "an object within the 2 bytes behind", "size 4294967295"),
        (binary({"tensors": {}}), "a list of tensors", "{}"),
        (binary({"tensors": [X, X]}, b"abcd"), "tensors of different names", "two of 'x'"),
        (binary({"tensors": [X]}, b"a"), "2 bytes or more of tensors", "1"),
        (binary({"tensors": [X]}, b"abc"), "2 bytes of tensors", "3"),
        (binary({"tensors": [7]}), "name, dtype and shape", "7"),
        (binary({"tensors": [X | {"name": 7}]}), "a name", "7"),
        (binary({"tensors": [X | {"dtype": "object"}]}), f"one of {', '.join(DTYPES)}", "'object'"),
        (binary({"tensors": [X | {"shape": [-1]}]}), "a shape of at most 8 sizes", "[-1]"),
        (binary({"tensors": [X | {"shape": [True]}]}), "a shape of at most 8 sizes", "[True]"),
        (binary({"tensors": [X | {"shape": [1] * 9}]}), "a shape of at most 8 sizes", "[1, 1, 1, 1, 1, 1, 1, 1, 1]"),
    ],
)
def test_what_is_wrong_with_a_message_is_said(message: str | bytes, expected: str, got: str) -> None:
    with pytest.raises(SessionError) as caught:
        decode(message)
    assert str(caught.value).startswith(
        f"CAD7071: the message makes no sense\n  expected: {expected}\n  got:      {got}"
    )


def test_sizes_that_no_memory_holds_are_read_without_it() -> None:
    with pytest.raises(SessionError, match="bytes or more of tensors"):
        decode(binary({"tensors": [X | {"shape": [2**62, 2**62]}]}))


def test_a_bool_has_two_values() -> None:
    message = decode(binary({"tensors": [X | {"dtype": "bool"}]}, b"\x00\x07"))
    assert message.tensors["x"].tobytes() == b"\x00\x01"


def test_outputs_without_a_dtype_on_the_wire_are_refused() -> None:
    with pytest.raises(SessionError) as caught:
        encode({}, {"y": np.array(["a"])})
    assert str(caught.value) == (
        f"CAD7081: output `y` cannot be sent\n  expected: one of {', '.join(DTYPES)}\n  got:      str32"
    )


def test_an_error_is_a_message() -> None:
    error = SessionError("CAD7073", "no session is open", expected="one", got="none", hint="open one")
    assert error_fields(error, 3, ended=True) == {
        "type": "error",
        "id": 3,
        "code": "CAD7073",
        "what": "no session is open",
        "expected": "one",
        "got": "none",
        "at": None,
        "hint": "open one",
        "ended": True,
    }
