"""How dataclasses become JSON and come back: small codecs that are put together like the types they stand for.

    CLOCK = record(Clock, name=NAME, rate_hz=FRACTION)
    CLOCK.encode(Clock("mel", Fraction(50)))             -> {"name": "mel", "rate_hz": "50"}
    CLOCK.decode({"name": "mel", "rate": "50"}, ...)     -> PlanError CAD5106: unknown key `rate`

Decoding is closed and exact: every key is there and none besides, `true` is no int, text is printable.
"""

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Generic, TypeVar

from cadence_runtime.errors import CadenceError, PlanError
from cadence_runtime.format.strict_json import MAX_INT, Json, shown
from cadence_runtime.frozen import frozen
from cadence_runtime.host.expression import Expression, parse

T = TypeVar("T")
MAX_TEXT = 4096
"""Characters of one string of the manifest."""


class Mismatch(Exception):
    """A value that does not fit; `path` grows from the inside out while it travels."""

    def __init__(self, code: str, what: str, expected: str, got: str) -> None:
        super().__init__(what)
        self.code, self.what, self.expected, self.got = code, what, expected, got
        self.path: list[str] = []


@frozen
class Codec(Generic[T]):
    """A type of the manifest: `encode` makes JSON of a value, `decode` makes a value of JSON or raises `Mismatch`."""

    encode: Callable[[T], Json]
    decode: Callable[[Json], T]


def read(codec: Codec[T], value: Json) -> T:
    """Decode a whole manifest; raises PlanError CAD5106 to CAD5109 with the path of what does not fit."""
    try:
        return codec.decode(value)
    except Mismatch as error:
        at = "manifest" + "".join(reversed(error.path))
        raise PlanError(error.code, error.what, expected=error.expected, got=error.got, at=at) from None


def _wrong_type(expected: str, got: Json) -> Mismatch:
    name = {bool: "a bool", int: "an integer", str: "a string", list: "a list", dict: "an object"}.get(
        type(got), "null"
    )
    return Mismatch("CAD5107", "a value of the manifest has the wrong type", expected, name)


def _wrong_value(expected: str, got: object) -> Mismatch:
    return Mismatch("CAD5108", "a value of the manifest is not allowed", expected, shown(got))


# Single values.


def _decode_bool(value: Json) -> bool:
    if type(value) is not bool:
        raise _wrong_type("true or false", value)
    return value


def integer(lower: int = -MAX_INT, upper: int = MAX_INT) -> Codec[int]:
    """An int from `lower` to `upper`, both included."""

    def decode(value: Json) -> int:
        if type(value) is not int:
            raise _wrong_type("an integer", value)
        if not lower <= value <= upper:
            raise _wrong_value(f"{lower} to {upper}", value)
        return value

    return Codec(lambda value: value, decode)


def text(pattern: str | None = None, expected: str = "printable text") -> Codec[str]:
    """A printable string that matches a pattern as a whole."""
    regex = None if pattern is None else re.compile(pattern, re.ASCII)

    def decode(value: Json) -> str:
        if type(value) is not str:
            raise _wrong_type("a string", value)
        if len(value) > MAX_TEXT or not value.isprintable() or (regex and not regex.fullmatch(value)):
            raise _wrong_value(expected, value)
        return value

    return Codec(lambda value: value, decode)


def one_of(*words: str) -> Codec[Any]:
    """One of a few words."""
    expected = "one of " + ", ".join(f"`{word}`" for word in words)

    def decode(value: Json) -> str:
        if type(value) is not str:
            raise _wrong_type(expected, value)
        if value not in words:
            raise _wrong_value(expected, value)
        return value

    return Codec(lambda value: value, decode)


def _decode_scalar(value: Json) -> bool | int | str:
    if isinstance(value, str):
        return TEXT.decode(value)
    if not isinstance(value, bool | int):
        raise _wrong_type("a bool, an integer or a string", value)
    return value


def _decode_fraction(value: Json) -> Fraction:
    raw = _FRACTION_TEXT.decode(value)
    numerator, _, denominator = raw.partition("/")
    made = Fraction(int(numerator), int(denominator or "1")) if denominator != "0" else None
    if made is None or str(made) != raw:
        raise _wrong_value("a fraction in lowest terms, such as `25` or `25/2`", raw)
    return made


def _decode_expression(value: Json) -> Expression:
    raw = TEXT.decode(value)
    try:
        made = parse(raw)
    except CadenceError as error:
        raise Mismatch("CAD5109", "an expression of the plan cannot be read", "an expression", error.what) from None
    if made.text != raw:
        raise _wrong_value(f"the canonical expression {shown(made.text)}", raw)
    return made


BOOL: Codec[bool] = Codec(lambda value: value, _decode_bool)
INT = integer()
COUNT = integer(lower=0)
TEXT = text()
DIGEST = text("[0-9a-f]{64}", "a sha256 as 64 hex digits")
SCALAR: Codec[bool | int | str] = Codec(lambda value: value, _decode_scalar)
_FRACTION_TEXT = text("[0-9]{1,19}(/[0-9]{1,19})?", "a fraction, such as `25` or `25/2`")
FRACTION: Codec[Fraction] = Codec(str, _decode_fraction)
EXPRESSION: Codec[Expression] = Codec(lambda value: value.text, _decode_expression)


# Values made of others.


def optional(inner: Codec[T]) -> Codec[T | None]:
    """Null, or an inner value."""
    return Codec(
        lambda value: None if value is None else inner.encode(value),
        lambda value: None if value is None else inner.decode(value),
    )


def listed(inner: Codec[T], most: int | None = None) -> Codec[tuple[T, ...]]:
    """A list of inner values, as a tuple, and of at most so many."""

    def decode(value: Json) -> tuple[T, ...]:
        if type(value) is not list:
            raise _wrong_type("a list", value)
        if most is not None and len(value) > most:
            raise _wrong_value(f"a list of at most {most}", f"a list of {len(value)}")
        made: list[T] = []
        try:
            for item in value:
                made.append(inner.decode(item))
        except Mismatch as error:
            error.path.append(f"[{len(made)}]")
            raise
        return tuple(made)

    return Codec(lambda values: [inner.encode(value) for value in values], decode)


def items(*inner: Codec[Any]) -> Codec[Any]:
    """A list of fixed length with a codec for each place, as a tuple."""

    def decode(value: Json) -> tuple[Any, ...]:
        if type(value) is not list:
            raise _wrong_type(f"a list of {len(inner)}", value)
        if len(value) != len(inner):
            raise _wrong_value(f"a list of {len(inner)}", f"a list of {len(value)}")
        return tuple(codec.decode(item) for codec, item in zip(inner, value, strict=True))

    return Codec(lambda values: [codec.encode(value) for codec, value in zip(inner, values, strict=True)], decode)


def record(made: Callable[..., T], **codecs: Codec[Any]) -> Codec[T]:
    """An object with exactly these keys, which are the fields of the data class `made`."""
    names: tuple[str, ...] = made.__match_args__  # type: ignore[attr-defined]
    if set(names) != set(codecs):
        raise TypeError(f"the schema of {made} names {sorted(codecs)}, its fields are {sorted(names)}")
    return Codec(
        lambda value: {name: codecs[name].encode(getattr(value, name)) for name in names},
        lambda value: made(**decode_keys(codecs, value)),
    )


def decode_keys(codecs: Mapping[str, Codec[Any]], value: Json) -> dict[str, Any]:
    """Return the decoded values of an object that has exactly the given keys."""
    if type(value) is not dict:
        raise _wrong_type("an object", value)
    if value.keys() != codecs.keys():
        unknown, missing = sorted(value.keys() - codecs.keys()), sorted(codecs.keys() - value.keys())
        what, key = ("an unknown", unknown[0]) if unknown else ("a missing", missing[0])
        expected = ", ".join(f"`{name}`" for name in sorted(codecs))
        raise Mismatch(
            "CAD5106", f"{what} key in the manifest", expected, shown(key) if unknown else f"no {shown(key)}"
        )
    made = {}
    name = ""
    try:
        for name, codec in codecs.items():
            made[name] = codec.decode(value[name])
    except Mismatch as error:
        error.path.append(f".{name}")
        raise
    return made


def either(choices: Mapping[str, tuple[type, Codec[Any]]]) -> Codec[Any]:
    """An object with one key that says which of several types its value has."""

    def encode(value: object) -> Json:
        return next({key: codec.encode(value)} for key, (kind, codec) in choices.items() if isinstance(value, kind))

    def decode(value: Json) -> Any:
        if type(value) is not dict or len(value) != 1 or (key := next(iter(value))) not in choices:
            expected = " or ".join(f"an object `{key}`" for key in choices)
            raise _wrong_type(expected, value) if type(value) is not dict else _wrong_value(expected, value)
        return choices[key][1].decode(value[key])

    return Codec(encode, decode)
