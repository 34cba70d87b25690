"""Units, ranges and names: exact values, and hints that can be pasted."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cadence_runtime.errors import SpecError
from cadencec.spec import values


@pytest.mark.parametrize(
    ("text", "hertz"),
    [
        ("25 Hz", 25),
        ("24 kHz", 24000),
        ("12.5 Hz", Fraction(25, 2)),
        ("1000/3 Hz", Fraction(1000, 3)),
        ("2MHz", 2_000_000),
    ],
)
def test_rates_are_exact(text: str, hertz: Fraction) -> None:
    assert values.read_rate(text) == hertz


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1 s", 1),
        ("32 ms", Fraction(4, 125)),
        ("0.5 s", Fraction(1, 2)),
        ("2 min", 120),
        ("5 us", Fraction(1, 200_000)),
    ],
)
def test_times_are_exact(text: str, seconds: Fraction) -> None:
    assert values.read_time(text) == seconds


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("25 hz", "write `25 Hz`"),
        ("24 KHZ", "write `24 kHz`"),
        ("25", "write `25 Hz`"),
        (25, "write `25 Hz`"),
        (12.5, "write `12.5 Hz`"),
        ("40 ms", "write it the other way round: `25 Hz`"),
        ("3 min", "write it the other way round: `1/180 Hz`"),
        ("25 bananas", None),
        ("0 Hz", None),
        ("1/0 Hz", None),
        ("-1 Hz", None),
        ("1e3 Hz", None),
        (True, None),
        (None, None),
    ],
)
def test_wrong_rates(text: values.Value, hint: str | None) -> None:
    with pytest.raises(SpecError) as caught:
        values.read_rate(text)
    assert (caught.value.code, caught.value.hint) == ("CAD1205", hint)


@given(st.sampled_from(["25 hz", "24 KHZ", "7", "40 ms", "1/3 s", "0.25 us"]))
def test_what_a_hint_says_can_be_pasted(text: str) -> None:
    with pytest.raises(SpecError) as caught:
        values.read_rate(text)
    assert values.read_rate((caught.value.hint or "").split("`")[1]) > 0


def test_horizons() -> None:
    assert values.read_horizon("60 s") == values.Horizon("seconds", Fraction(60))
    assert values.read_horizon("6 events") == values.Horizon("events", Fraction(6))
    assert values.read_horizon("1 event") == values.Horizon("events", Fraction(1))
    for text in ("0 events", "1.5 events", "6", 6, "-1 s"):
        with pytest.raises(SpecError):
            values.read_horizon(text)


@pytest.mark.parametrize(
    ("text", "ends"), [("0..25", ("0", "25")), ("1 .. P//2", ("1", "P // 2")), (7, ("7", "7")), ("P", ("P", "P"))]
)
def test_spans(text: values.Value, ends: tuple[str, str]) -> None:
    span = values.read_span(text)
    assert (span.first.text, span.last.text) == ends


@pytest.mark.parametrize("text", ["0-25", "0...25", "0..", "..5", "", "a b", "1,2", None, True, 1.5, "0..5..9"])
def test_wrong_spans(text: values.Value) -> None:
    with pytest.raises(SpecError) as caught:
        values.read_span(text)
    assert caught.value.code == "CAD1207"


@pytest.mark.parametrize(
    ("value", "hint"), [("yes", "write `true`"), ("Off", "write `false`"), ("TRUE", "write `true`"), (1, None)]
)
def test_bools_of_other_times(value: values.Value, hint: str | None) -> None:
    with pytest.raises(SpecError) as caught:
        values.read_bool(value)
    assert caught.value.hint == hint


@pytest.mark.parametrize("entry", ["a.b:build", "./x.py:build", "x y/z.py:build", "a:b"])
def test_entries(entry: str) -> None:
    assert values.read_entry(entry) == entry


@pytest.mark.parametrize("entry", ["a.b", "./x.py", "x/y:build", "a.b:c.d", ":b", "a:", "a:b:c"])
def test_wrong_entries(entry: str) -> None:
    with pytest.raises(SpecError):
        values.read_entry(entry)
