"""One small spec, and what a reader makes of an edit to it."""

import pytest

from cadence_runtime.errors import CadenceError, ErrorList
from cadencec.spec import parse_spec

BASE = """\
cadence_spec: 1
model: {name: codec, entry: "./codec.py:build", options: {width: 8}}
cadence: 40 ms
clocks: {token: 25 Hz, sample: 24 kHz}
params: {P: 4}
counters: {buf: 0, phase: 0}
queues:
  token: {counter: buf, axis: 1, dtype: int64}
regions:
  kv: {leaves: [k, v], shape: [2, t, width], clock: token, start: P, retain: {window: P + 100}}
  tail: {shape: [1, 3], start: absent}
stages:
  encode: {reads: [kv], writes: [kv], args: [phase], inputs: {token: {dtype: int64, range: [0, 31]}}, outputs: [h]}
  decode: {reads: [tail], writes: [tail], inputs: [h, last: {choices: [false, true]}], outputs: [audio]}
events:
  unit: {when: phase == 0, choose: {n: 0..5}, inputs: {token: [1, n]}, do: {buf: buf + n}}
  chunk:
    internal: true
    when: buf >= 8
    inputs: [token: [1, 8], last: false]
    advance: {token: 8}
    run: [encode, decode]
    do: {buf: buf - 8}
  turn: {reset: true}
horizon: 60 s
"""


def edited(old: str, new: str) -> str:
    """Return the spec with one edit; the place must be there once."""
    assert BASE.count(old) == 1, old
    return BASE.replace(old, new)


def refused(text: str, overrides: dict[str, str] | None = None) -> CadenceError:
    """Return the error that a spec is refused with."""
    with pytest.raises(CadenceError) as caught:
        parse_spec(text, "codec.yaml", overrides)
    return caught.value


def codes(error: CadenceError) -> list[str]:
    """Return the codes of all errors, in order."""
    return [part.code for part in error.errors] if isinstance(error, ErrorList) else [error.code]
