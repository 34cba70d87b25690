"""Seconds by part, on a clock made by hand."""

import time

import pytest

from cadencec.trace.parts import Parts


def test_the_seconds_of_a_part_add_up_in_the_order_of_first_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([10.0, 11.0, 20.0, 23.0, 30.0, 30.5])
    monkeypatch.setattr(time, "perf_counter", lambda: next(moments))
    parts = Parts()
    for name in ("stock", "passes", "stock"):
        with parts(name):
            pass
    assert list(parts.seconds.items()) == [("stock", 1.5), ("passes", 3.0)]


def test_a_part_that_fails_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([1.0, 4.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(moments))
    parts = Parts()
    with pytest.raises(KeyError), parts("record"):
        raise KeyError
    assert parts.seconds == {"record": 3.0}
