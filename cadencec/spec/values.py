"""One scalar of a clock spec -> its value: names, units, ranges, dtypes, entries and literals.

Each reader takes what the YAML held (None, bool, int, float or str) and returns a value, or raises a `SpecError` that
says what was expected and what was meant; the loader adds the place.

    25 Hz -> 25/s    24 kHz -> 24000/s    12.5 Hz -> 25/2 a second    32 ms -> 4/125 s    0..25 -> 0 to 25, both ends
"""

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal as OneOf

from cadence_runtime.errors import SpecError
from cadence_runtime.format.tape import ITEM_BYTES
from cadence_runtime.host.expression import RESERVED, Expression, ExpressionError, parse
from cadence_runtime.host.program import Horizon
from cadencec.spec.source import Value

HERTZ = {"Hz": Fraction(1), "kHz": Fraction(1000), "MHz": Fraction(1_000_000)}
SECONDS = {"s": Fraction(1), "ms": Fraction(1, 1000), "us": Fraction(1, 1_000_000), "min": Fraction(60)}

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_DOTTED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*", re.ASCII)
_LEAF = re.compile(r"\.|[^.\s\[\]]+(?:\.[^.\s\[\]]+)*")
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)
_ENTRY = re.compile(r"(?P<module>[A-Za-z_]\w*(?:\.\w+)*|[^:]*\.py):(?P<function>[A-Za-z_]\w*)")
_REFERENCE = re.compile(rf"(?P<region>{_DOTTED.pattern})(?:\[(?P<index>{_NAME.pattern})\])?", re.ASCII)
_QUANTITY = re.compile(r"(?P<number>[0-9]{1,15}(?:\.[0-9]{1,9}|/[0-9]{1,15})?) *(?P<unit>[A-Za-z]*)", re.ASCII)


RetentionKind = OneOf["fixed", "grow", "window", "ring"]


@dataclass(frozen=True, slots=True)
class Retain:
    """The retention as written; `cap` is an expression of params, or None where it was not given."""

    kind: RetentionKind
    cap: Expression | None = None


@dataclass(frozen=True, slots=True)
class Reference:
    """A region that a stage reads or writes, whole or one row at a time."""

    region: str
    index: str | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """A range as written, both ends included."""

    first: Expression
    last: Expression


def suggest(word: str, known: Iterable[str]) -> str | None:
    """Return `did you mean ...?` for the known word that is closest to `word`, if one is close."""
    close = closest(word, known)
    return f"did you mean `{close}`?" if close else None


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is closest to `word`, whatever its case, or None where none is close."""
    by_case = {name.casefold(): name for name in sorted(known, reverse=True)}
    close = difflib.get_close_matches(word.casefold()[:100], sorted(by_case), n=1, cutoff=0.6)
    return by_case[close[0]] if close else None


def one_of(known: Iterable[str]) -> str | None:
    """Return ``one of `a`, `b` `` in sorted order, or None where nothing is known."""
    names = [f"`{name}`" for name in sorted(known)]
    if not names:
        return None
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return ("one of " if len(names) > 1 else "") + ", ".join(names[:20]) + more


def shown(value: object) -> str:
    """Return a value as a message shows it."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "nothing"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    plain = "".join(letter if letter.isprintable() else "?" for letter in text[:60])
    return f"`{plain}`" if len(text) <= 60 else f"`{plain}...`"


def wrong(what: str, expected: str, value: object, hint: str | None = None) -> SpecError:
    """Return the error for a value of the wrong kind."""
    return SpecError("CAD1201", what, expected=expected, got=shown(value), hint=hint)


def read_expression(value: Value) -> Expression:
    """Return an integer or a text as an expression."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        hint = "write `1` or `0`" if isinstance(value, bool) else None
        raise wrong("not an integer or an expression", "an integer, or an expression such as `P + 100`", value, hint)
    return parse(str(value))


def read_name(value: Value) -> str:
    """Return a name that expressions can use."""
    text = _matched(value, _NAME, "a name", "a letter or `_`, then letters, digits and `_`")
    if text in RESERVED:
        raise SpecError("CAD1204", f"`{text}` is not a name", expected="a word that expressions do not use")
    return text


def read_dotted(value: Value) -> str:
    """Return the name of a region: names with dots between them."""
    return _matched(value, _DOTTED, "a region name", "names with dots between them, such as `decoder.kv`")


def read_leaf(value: Value) -> str:
    """Return the path of a leaf in the model's state."""
    return _matched(value, _LEAF, "a leaf", "a path such as `layers.0.h`, or `.` for the state itself")


def read_file_name(value: Value) -> str:
    """Return a name that can stand in a file's name."""
    return _matched(value, _FILE_NAME, "a model name", "letters, digits, `_`, `-` and `.`")


def read_entry(value: Value) -> str:
    """Return `module:function` or `file.py:function`."""
    hint = "add the function: `:build`" if isinstance(value, str) and ":" not in value else None
    return _matched(value, _ENTRY, "an entry", "`package.module:function` or `./file.py:function`", hint)


def read_reference(value: Value) -> Reference:
    """Return `region` or `region[index]`."""
    text = _matched(value, _REFERENCE, "a region name", "a region, or `region[index]`")
    match = _REFERENCE.fullmatch(text)
    return Reference(match["region"], match["index"]) if match else Reference(text)


def _matched(value: Value, pattern: re.Pattern[str], noun: str, expected: str, hint: str | None = None) -> str:
    if not isinstance(value, str):
        quoted = "quote it" if isinstance(value, bool) or value is None else None
        raise wrong("not a text", expected, value, hint or quoted)
    if not pattern.fullmatch(value) or len(value) > 200:
        raise SpecError("CAD1204", f"{shown(value)} is not {noun}", expected=expected, hint=hint)
    return value


def read_text(value: Value) -> str:
    """Return a text that is not empty."""
    if not isinstance(value, str) or not value:
        raise wrong("not a text", "a text", value)
    return value


def read_bool(value: Value) -> bool:
    """Return `true` or `false`; YAML 1.1 spellings get a hint."""
    if isinstance(value, bool):
        return value
    meant = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
    word = str(value).lower()
    hint = f"write `{meant.get(word, word)}`" if word in meant or word in {"true", "false"} else None
    raise wrong("not a bool", "`true` or `false`", value, hint)


def read_literal(value: Value) -> bool | int | str:
    """Return a literal input: a bool, an integer or a text."""
    if value is None or not isinstance(value, bool | int | str):
        raise wrong("not a literal", "a bool, an integer or a text", value)
    return value


def read_option(value: Value) -> Value:
    """Return an option of the model: any scalar."""
    if isinstance(value, dict | list):
        raise wrong("not a scalar", "a bool, a number, a text or `null`", value)
    return value


def read_whole(value: Value) -> int:
    """Return an integer that is no expression."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong("not an integer", "an integer", value)
    return value


def read_choice(value: Value, known: Iterable[str], what: str) -> str:
    """Return one of some known words."""
    if isinstance(value, str) and value in known:
        return value
    hint = suggest(value, known) if isinstance(value, str) else None
    raise SpecError("CAD1206", f"unknown {what} {shown(value)}", expected=one_of(known), hint=hint)


def read_dtype(value: Value) -> str:
    """Return the torch name of a dtype."""
    return read_choice(value, ITEM_BYTES, "dtype")


def read_sha256(value: Value) -> str:
    """Return 64 lower-case hex digits."""
    return _matched(value, re.compile("[0-9a-f]{64}"), "a digest", "64 lower-case hex digits")


def read_rate(value: Value) -> Fraction:
    """Return a rate in Hz, exactly."""
    return _quantity(value, HERTZ, "rate", "25 Hz")


def read_time(value: Value) -> Fraction:
    """Return a time in seconds, exactly."""
    return _quantity(value, SECONDS, "time", "32 ms")


def read_horizon(value: Value) -> Horizon:
    """Return `60 s` or `6 events`."""
    match = re.fullmatch(r"([1-9][0-9]{0,8}) *events?", value) if isinstance(value, str) else None
    if match:
        return Horizon("events", Fraction(int(match[1])))
    units = SECONDS | {"events": Fraction(1)}
    limit = _quantity(value, units, "horizon", "60 s` or `6 events")
    if isinstance(value, str) and value.rstrip().endswith("events"):
        raise SpecError("CAD1205", f"{shown(value)} is not a horizon", expected="a whole number of events")
    return Horizon("seconds", limit)


def _quantity(value: Value, units: dict[str, Fraction], what: str, example: str) -> Fraction:
    """Return number times unit; the message tells a missing unit, a misspelt one and a zero apart."""
    match = _QUANTITY.fullmatch(str(value)) if isinstance(value, int | float | str) else None
    expected = f"a number and one of {', '.join(f'`{unit}`' for unit in units)}, such as `{example}`"
    if match is None or isinstance(value, bool):
        raise SpecError("CAD1205", f"{shown(value)} is not a {what}", expected=expected)
    number, unit = match["number"], match["unit"]
    if unit not in units:
        hint = _unit_hint(number, unit, units)
        got = shown(unit) if unit else "no unit"
        raise SpecError("CAD1205", f"{shown(value)} is not a {what}", expected=expected, got=got, hint=hint)
    if re.fullmatch(r"[0-9]+/0+", number) or not Fraction(number):
        raise SpecError("CAD1205", f"{shown(value)} is not a {what}", expected="more than 0")
    return Fraction(number) * units[unit]


def _unit_hint(number: str, unit: str, units: dict[str, Fraction]) -> str | None:
    other, base = (SECONDS, "Hz") if "Hz" in units else (HERTZ, "s")
    if unit in other and not re.fullmatch(r"0+(\.0+)?|.*/0+|0+/.*", number):
        return f"write it the other way round: `{1 / (Fraction(number) * other[unit])} {base}`"
    close = next((known for known in units if known.casefold() == unit.casefold()), None if unit else base)
    return f"write `{number} {close}`" if close else None


def read_span(value: Value) -> Span:
    """Return `0..25`, both ends included; a single number is a range of one."""
    text = str(value) if isinstance(value, str) or type(value) is int else ""
    parts = [part.strip() for part in text.split("..")]
    is_single = len(parts) == 1 and re.fullmatch(r"-?\w+", text) is not None
    if len(parts) > 2 or not all(parts) or (len(parts) == 1 and not is_single):
        expected = "a range such as `0..25`, both ends included"
        ends = re.fullmatch(r"(\w+) *(?:-|to|\.\.\.) *(\w+)", text)
        hint = f"write `{ends[1]}..{ends[2]}`" if ends else None
        raise SpecError("CAD1207", f"{shown(value)} is not a range", expected=expected, hint=hint)
    try:
        return Span(parse(parts[0]), parse(parts[-1]))
    except ExpressionError as error:
        hint = error.hint or "write both ends: `0..25`"
        raise SpecError("CAD1207", f"{shown(value)} is not a range: {error.what}", hint=hint) from None


def read_retain(value: object) -> tuple[RetentionKind, Value]:
    """Return the kind of a retention and its cap as written: `fixed`, `grow`, `{window: cap}`, `{ring: cap}`."""
    expected = "`fixed`, `grow`, `{window: N}` or `{ring: N}`"
    kind, cap = next(iter(value.items())) if isinstance(value, dict) and len(value) == 1 else (value, None)
    if kind in ("fixed", "grow") and cap is None:
        return kind, None
    if kind in ("fixed", "window", "ring") and cap is not None:
        return kind, cap
    if kind in ("window", "ring"):
        what = f"retention `{kind}` without its length"
        raise SpecError("CAD1206", what, expected=expected, hint=f"write `{{{kind}: 100}}`")
    word = kind if isinstance(kind, str) else ""
    hint = "leave the length out: `grow`" if word == "grow" else suggest(word, ("fixed", "grow", "window", "ring"))
    raise SpecError("CAD1206", f"unknown retention {shown(kind)}", expected=expected, hint=hint)
