"""What a spec must mean to be a program: each rule of the language, broken once."""

import pytest

from cadence_runtime.host.program import ABSENT, Region
from cadencec.spec import parse_spec
from tests.spec.example import codes, edited, refused

KV = "shape: [2, t, width], clock: token, start: P, retain: {window: P + 100}"


def region(body: str) -> Region:
    return parse_spec(edited(KV, body), "codec.yaml").program.regions[0]


@pytest.mark.parametrize(
    ("body", "start", "cap", "axis"),
    [
        ("shape: [2, 8]", 1, 1, None),
        ("shape: []", 1, 1, None),
        ("shape: [2, 8], start: absent", ABSENT, 1, None),
        ("shape: [2, t], start: 5", 5, 5, 1),
        ("shape: [2, t], retain: {fixed: 5}", 5, 5, 1),
        ("shape: [2, t], retain: {fixed: P}, start: 4", 4, 4, 1),
        ("shape: [2, t], retain: {fixed: 5}, start: absent", ABSENT, 5, 1),
        ("shape: [t, 2], retain: {ring: 2 * P}", 8, 8, 0),
        ("shape: [t, 2], retain: {ring: 8}, start: absent, axis: 0", ABSENT, 8, 0),
        ("shape: [2, t], clock: token, retain: grow", 0, None, 1),
        ("shape: [2, t], clock: token, retain: {window: 3}", 0, 3, 1),
        ("shape: [2, t], clock: token, retain: {window: 3}, start: 3", 3, 3, 1),
    ],
)
def test_start_and_cap_follow_from_each_other(body: str, start: int, cap: int | None, axis: int | None) -> None:
    built = region(body)
    assert (built.start, built.retention.cap, built.axis) == (start, cap, axis)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("shape: [2, t]", "CAD1305"),
        ("shape: [2, t], start: absent", "CAD1305"),
        ("shape: [2, t], retain: grow", "CAD1305"),
        ("shape: [2, t], retain: {window: 4}", "CAD1305"),
        ("shape: [2, t], retain: {ring: 4}, start: 3", "CAD1305"),
        ("shape: [2, t], retain: {fixed: 4}, start: 3", "CAD1305"),
        ("shape: [2, t], retain: {ring: 0}", "CAD1305"),
        ("shape: [2, t], start: -1", "CAD1305"),
        ("shape: [2, 8], start: 2", "CAD1305"),
        ("shape: [2, 8], retain: {window: 4}", "CAD1304"),
        ("shape: [2, 8], retain: grow", "CAD1304"),
        ("shape: [2, 8], axis: 1", "CAD1304"),
        ("shape: [t, t], start: 3", "CAD1304"),
        ("shape: [0, 8]", "CAD1304"),
        ("shape: [2 * t, 8]", "CAD1406"),
        ("shape: [buf, 8]", "CAD1406"),
        ("shape: [8 // 0]", "CAD1405"),
        ("shape: [9223372036854775807 * 2]", "CAD1407"),
        ("shape: 8", "CAD1201"),
        ("shape: [1.5]", "CAD1201"),
        ("shape: [1], dtype: half", "CAD1206"),
        ("shape: [1], layout: sorted", "CAD1206"),
        ("shape: [1], clock: tokens", "CAD1301"),
        ("shape: [2, t], clock: token, retain: {grow: 3}", "CAD1206"),
        ("shape: [2, t], clock: token, retain: window", "CAD1206"),
    ],
)
def test_regions_that_make_no_sense(body: str, code: str) -> None:
    assert codes(refused(edited(KV, body))) == [code]


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        # names
        ("params: {P: 4}", "params: {P: 4, buf: 1}", "CAD1302"),
        ("params: {P: 4}", "params: {P: 4, t: 1}", "CAD1302"),
        ("params: {P: 4}", "params: {P: 4, width: 1}", "CAD1302"),
        ("params: {P: 4}", "params: {P: Q, Q: 4}", "CAD1406"),
        ("choose: {n: 0..5}", "choose: {n: 0..5}, let: {n: 3}", "CAD1302"),
        ("choose: {n: 0..5}", "choose: {n: 0..5}, let: {buf: 3}", "CAD1302"),
        ("leaves: [k, v]", "leaves: [k, tail]", "CAD1302"),
        ("leaves: [k, v]", "leaves: [k, k]", "CAD1302"),
        ("phase: 0}", "phase: {start: 0, leaf: k}}", "CAD1302"),
        ("cadence: 40 ms", "numerics: {cudnn_determinstic: true}", "CAD1301"),
        ("cadence: 40 ms", "numerics: {cudnn_deterministic: 1}", "CAD1206"),
        ("cadence: 40 ms", "numerics: {threads: 0}", "CAD1206"),
        # stages
        ("reads: [kv], writes: [kv]", "reads: [kv]", "CAD1202"),
        ("reads: [kv]", "reads: [kw]", "CAD1301"),
        ("reads: [kv]", "reads: [kv, kv]", "CAD1302"),
        ("writes: [kv]", "writes: [kv], repeat: {i: 0}", "CAD1308"),
        ("writes: [kv]", "writes: [kv], repeat: {i: 2, j: 2}", "CAD1308"),
        ("reads: [kv], writes: [kv]", 'reads: ["kv[i]"], writes: ["kv[i]"], repeat: {i: 3}', "CAD1308"),
        ("args: [phase]", "args: [fase]", "CAD1307"),
        ("range: [0, 31]", "range: [0]", "CAD1303"),
        ("range: [0, 31]", "range: [31, 0]", "CAD1303"),
        (", range: [0, 31]", "", "CAD1303"),
        ("choices: [false, true]", "choices: []", "CAD1310"),
        ("choices: [false, true]", "choices: [false], dtype: bool", "CAD1310"),
        ("[h, last:", "[h, h, last:", "CAD1105"),
        # events
        ("n: 0..5", "n: 0..kv", "CAD1406"),
        ("advance: {token: 8}", "advance: {tokens: 8}", "CAD1301"),
        ("do: {buf: buf - 8}", "do: {buff: buf - 8}", "CAD1301"),
        ("run: [encode, decode]", "run: [encode, decode, decode]", "CAD1302"),
        ("run: [encode, decode]", "run: [decode, encode]", "CAD1307"),
        ("last: false]", "last: [1]]", "CAD1310"),
        ("last: false]", "last: false, more: 3]", "CAD1307"),
        ("last: false]", "last: false, more: [3]]", "CAD1307"),
        ("token: [1, 8], last", "token: 8, last", "CAD1309"),
        ("token: [1, 8], last", "token: [8], last", "CAD1309"),
        ("do: {buf: buf - 8}", "restart: [kw]", "CAD1301"),
        ("  turn: {reset: true}", "  turn: {reset: true, restart: [kv]}", "CAD1312"),
        ("do: {buf: buf - 8}", "outputs: [sound]", "CAD1307"),
        ("inputs: {token: [1, n]}", "inputs: {token: [1, m]}", "CAD1406"),
        # queues
        ("counter: buf", "counter: buff", "CAD1301"),
        ("axis: 1", "axis: -1", "CAD1309"),
        ("dtype: int64}\nregions", "dtype: int32}\nregions", "CAD1309"),
        ("queues:\n", "queues:\n  tokens: {counter: buf, axis: 1}\n", "CAD1309"),
        ("queues:\n", "queues:\n  h: {counter: buf, axis: 1}\n", "CAD1309"),
    ],
)
def test_what_makes_no_sense(old: str, new: str, code: str) -> None:
    assert codes(refused(edited(old, new))) == [code]


def test_a_horizon_in_seconds_needs_a_clock() -> None:
    text = (
        "cadence_spec: 1\nmodel: {name: a, entry: 'a:b'}\nstages: {step: {outputs: [y]}}\nevents: {go: {run: [step]}}\n"
    )
    assert codes(refused(text + "horizon: 60 s\n")) == ["CAD1311"]
    assert parse_spec(text + "horizon: 6 events\n", "a.yaml").program.stages[0].reads == ()


def test_one_stage_reads_and_writes_all_regions_and_depends_on_all_python_ints() -> None:
    text = """\
cadence_spec: 1
model: {name: a, entry: "a:b"}
counters: {pos: {start: 0, leaf: pos}, phase: 0}
regions: {x: {shape: [3]}, y: {shape: [4]}}
stages: {step: {outputs: [z]}}
events: {go: {run: [step], do: {pos: (pos + 1) % 4}}}
"""
    (stage,) = parse_spec(text, "a.yaml").program.stages
    assert (stage.reads, stage.writes, stage.args) == (("x", "y"), ("x", "y"), ("pos",))


def test_a_stage_may_replace_what_it_takes() -> None:
    """As an Euler step does: the last of a name is what later stages take, and what the event delivers."""
    old = "  decode: {reads: [tail], writes: [tail], inputs: [h, last: {choices: [false, true]}], outputs: [audio]}\n"
    text = edited(old, "  refine: {reads: [], writes: [], inputs: [h], outputs: [h]}\n" + old)
    refined = parse_spec(text.replace("run: [encode, decode]", "run: [encode, refine, decode]"), "a.yaml").program
    assert refined.events[1].outputs == ("audio",)
    alone = text.replace("run: [encode, decode]", "run: [encode, refine]").replace(", last: false]", "]")
    assert "CAD1311" in codes(refused(alone))


def test_an_index_takes_a_region_row_by_row() -> None:
    text = edited("reads: [kv], writes: [kv]", 'reads: ["kv[i]"], writes: ["kv[i]"], repeat: {i: 2}')
    stage = parse_spec(text, "a.yaml").program.stages[0]
    assert (stage.repeat, stage.indexed, stage.reads) == (("i", 2), ("kv",), ("kv",))
