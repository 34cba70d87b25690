"""Canonical JSON: one value, one text. What is not in canonical form is refused, so equal manifests are equal bytes.

    {"a":[1,2],"b":"x"}        sorted keys, no spaces, no floats, UTF-8, integers of 63 bits and a sign

Whatever the bytes are, `loads` returns a value or raises `PlanError`; it needs memory and time in proportion to them.
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import NoReturn

from cadence_runtime.errors import PlanError

Json = bool | int | str | None | list["Json"] | dict[str, "Json"]

MAX_DEPTH = 16
"""Lists and objects within one another; the manifest needs 8."""
MAX_INT = 2**63 - 1

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_NOT_BRACKETS = bytes(sorted(set(range(256)) - set(b"[]{}")))
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


def dumps(value: Json) -> bytes:
    """Return the canonical text of a value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def loads(data: bytes) -> Json:
    """Read canonical JSON. Raises PlanError CAD5101 to CAD5105."""
    _check_depth(data)
    try:
        value: Json = json.loads(
            data.decode(),
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_no_float,
            parse_constant=_no_float,
        )
        canonical = dumps(value)
    except (ValueError, RecursionError) as error:  # UnicodeError and JSONDecodeError are ValueErrors
        where = error.pos if isinstance(error, json.JSONDecodeError) else None
        at = "manifest" if where is None else f"manifest, character {where}"
        raise PlanError(
            "CAD5101", "the manifest is not JSON", expected="JSON in UTF-8", got=_why(error), at=at
        ) from None
    if canonical != data:
        raise PlanError(
            "CAD5104",
            "the manifest is not in canonical form",
            expected="sorted keys, no spaces, the shortest escapes",
            got="the same values written otherwise",
            at=f"manifest, byte {_first_difference(canonical, data)}",
        )
    return value


def _why(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return error.msg[:1].lower() + error.msg[1:]
    return "bytes that are not UTF-8" if isinstance(error, UnicodeError) else "text that cannot be read"


def _check_depth(data: bytes) -> None:
    brackets = _STRING.sub(b"", data).translate(None, _NOT_BRACKETS)
    depth = max(accumulate(map(_STEP.__getitem__, brackets)), default=0)
    if depth > MAX_DEPTH:
        raise PlanError(
            "CAD5103",
            "the manifest is nested too deeply",
            expected=f"at most {MAX_DEPTH} levels",
            got=f"{depth} levels",
            at="manifest",
        )


def _object(pairs: Sequence[tuple[str, Json]]) -> dict[str, Json]:
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    counts = Counter(key for key, _ in pairs)
    twice = next(key for key, count in counts.items() if count > 1)
    raise PlanError(
        "CAD5102", "a key stands twice in one object", expected="each key once", got=shown(twice), at="manifest"
    )


def _integer(text: str) -> int:
    if len(text) <= 20 and abs(value := int(text)) <= MAX_INT:
        return value
    raise PlanError(
        "CAD5105",
        "a number of the manifest is out of range",
        expected="integers of 63 bits and a sign",
        got=f"`{text[:24]}`",
        at="manifest",
    )


def _no_float(text: str) -> NoReturn:
    raise PlanError(
        "CAD5105",
        "a number of the manifest is no integer",
        expected="integers only",
        got=f"`{text[:24]}`",
        at="manifest",
    )


def _first_difference(a: bytes, b: bytes) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def shown(value: object) -> str:
    """Return a value of a plan as it may stand in a message: one short printable line."""
    text = value if isinstance(value, str) else repr(value)
    plain = "".join(letter if letter.isprintable() else "?" for letter in text[:61])
    return f"`{plain if len(plain) <= 60 else plain[:57] + '...'}`"
