"""One whole message for each code of the spec; `test_source.py` and `test_expression.py` have those of their own."""

import re
from pathlib import Path

import pytest

from tests.spec.example import BASE, edited, refused

MESSAGES = [
    (
        "advance: {token: 8}",
        "advance: {token: 8",
        """\
CAD1101: the spec is not YAML: expected ',' or '}', but got ':'
  at:       codec.yaml:22:8
  hint:     the bracket opens at line 21, column 14""",
    ),
    (
        "    internal: true",
        "\tinternal: true",
        """\
CAD1102: a tab where a token starts
  at:       codec.yaml:18:1
  hint:     indent with spaces""",
    ),
    (
        "{P: 4}",
        "&p {P: 4}",
        """\
CAD1103: anchors and aliases are not allowed
  at:       codec.yaml:5:9
  hint:     write the value out""",
    ),
    (
        "{P: 4}",
        "!!map {P: 4}",
        """\
CAD1104: tags are not allowed
  got:      `tag:yaml.org,2002:map`
  at:       codec.yaml:5:9
  hint:     leave the tag out""",
    ),
    (
        "params: {P: 4}",
        "params: {P: 4, Q: 1, P: 5}",
        """\
CAD1105: duplicate key `P`
  expected: each key once
  got:      again after line 5
  at:       codec.yaml:5:22""",
    ),
    (
        "horizon: 60 s",
        "horizon: 60 s\n---\na: 1",
        """\
CAD1106: more than one document
  expected: one document
  at:       codec.yaml:26:1""",
    ),
    (
        "{P: 4}",
        "{P: [[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]}",
        """\
CAD1107: the spec nests too deep
  expected: at most 16 levels
  at:       codec.yaml:5:27""",
    ),
    (
        "{P: 4}",
        "{[P]: 4}",
        """\
CAD1108: a key is a list or mapping
  expected: a name
  at:       codec.yaml:5:10""",
    ),
    (
        "{P: 4}",
        "{P: 012}",
        """\
CAD1109: `012` is not a plain number
  expected: decimal digits without a leading 0, up to 9223372036854775807
  at:       codec.yaml:5:13
  hint:     write `12`, or quote it if it is a text""",
    ),
    (
        "outputs: [audio]",
        "outputs: audio",
        """\
CAD1201: `outputs` of stage `decode` is not a list
  expected: a list
  got:      `audio`
  at:       codec.yaml:14:97""",
    ),
    (
        "kv: {leaves: [k, v], shape: [2, t, width], ",
        "kv: {leaves: [k, v], ",
        """\
CAD1202: missing key `shape` in region `kv`
  expected: dims of every leaf; `t` is the length
  at:       codec.yaml:10:3
  hint:     add `shape: [1, 8, t, 64]`""",
    ),
    (
        "retain: {window: P + 100}",
        "retian: {window: P + 100}",
        """\
CAD1203: unknown key `retian` in region `kv`
  expected: one of `axis`, `clock`, `dtype`, `layout`, `leaves`, `retain`, `shape`, `start`, `stock_bytes`
  got:      `retian`
  at:       codec.yaml:10:70
  hint:     did you mean `retain`?""",
    ),
    (
        "./codec.py:build",
        "./codec.py",
        """\
CAD1204: `./codec.py` is not an entry
  expected: `package.module:function` or `./file.py:function`
  at:       codec.yaml:2:29
  hint:     add the function: `:build`""",
    ),
    (
        "25 Hz",
        "40 ms",
        """\
CAD1205: `40 ms` is not a rate
  expected: a number and one of `Hz`, `kHz`, `MHz`, such as `25 Hz`
  got:      `ms`
  at:       codec.yaml:4:17
  hint:     write it the other way round: `25 Hz`""",
    ),
    (
        "{window: P + 100}",
        "{windw: P + 100}",
        """\
CAD1206: unknown retention `windw`
  expected: `fixed`, `grow`, `{window: N}` or `{ring: N}`
  at:       codec.yaml:10:78
  hint:     did you mean `window`?""",
    ),
    (
        "n: 0..5",
        "n: 0-5",
        """\
CAD1207: `0-5` is not a range
  expected: a range such as `0..25`, both ends included
  at:       codec.yaml:16:40
  hint:     write `0..5`""",
    ),
    (
        "cadence_spec: 1",
        "cadence_spec: 2",
        """\
CAD1208: unknown version of the spec
  expected: `1`
  got:      `2`
  at:       codec.yaml:1:15
  hint:     this release reads version 1""",
    ),
    (
        "run: [encode, decode]",
        "run: [encode, decoed]",
        """\
CAD1301: unknown stage `decoed`
  expected: one of `decode`, `encode`
  at:       codec.yaml:22:19
  hint:     did you mean `decode`?""",
    ),
    (
        "counters: {buf: 0, phase: 0}",
        "counters: {buf: 0, phase: 0, kv: 0}",
        """\
CAD1302: `kv` is both a counter and a region
  expected: one meaning a name
  at:       codec.yaml:10:3""",
    ),
    (
        "n: 0..5",
        "n: 5..0",
        """\
CAD1303: choice `n` has no values: 5..0
  expected: lowest first
  at:       codec.yaml:16:40""",
    ),
    (
        "shape: [2, t, width]",
        "axis: 0, shape: [2, t, width]",
        """\
CAD1304: `t` of region `kv` stands at 1, not at 0
  expected: `1`
  at:       codec.yaml:10:30
  hint:     leave `axis` out: the shape says it""",
    ),
    (
        "start: P,",
        "start: P + 101,",
        """\
CAD1305: region `kv` starts at 105, beyond its window of 104
  expected: at most 104
  at:       codec.yaml:10:67""",
    ),
    (
        "advance: {token: 8}",
        "advance: {token: 8, sample: 7685}",
        """\
CAD1306: event `chunk` advances 2 clocks
  expected: one clock; the others follow by their rates
  at:       codec.yaml:21:14
  hint:     `token: 8` is `sample: 7680`; the spec says 7685""",
    ),
    (
        "inputs: [token: [1, 8], last: false]",
        "inputs: [token: [1, 8]]",
        """\
CAD1307: event `chunk` gives stage `decode` no input `last`
  expected: an event input or an output of an earlier stage
  at:       codec.yaml:22:19
  hint:     add `inputs: {last: false}`""",
    ),
    (
        "writes: [kv]",
        'writes: ["kv[euler]"]',
        """\
CAD1308: unknown index `euler` in stage `encode`
  at:       codec.yaml:13:34
  hint:     add `repeat: {euler: 5}`""",
    ),
    (
        "axis: 1,",
        "axis: 1, start: [7],",
        """\
CAD1309: queue `token` starts with 1 rows, its counter `buf` with 0
  expected: the same number
  at:       codec.yaml:8:3
  hint:     list 0 rows in `start`, or start the counter at 1""",
    ),
    (
        "last: false]",
        "last: 0]",
        """\
CAD1310: input `last` cannot be `0`
  expected: one of `false`, `true`
  at:       codec.yaml:20:29""",
    ),
    (
        "do: {buf: buf - 8}",
        "do: {buf: buf - 8}\n    choose: {m: 1}",
        """\
CAD1312: internal event `chunk` has choices, and nobody to make them
  at:       codec.yaml:24:13
  hint:     name what it follows from with `let`""",
    ),
    (
        "when: buf >= 8",
        "when: bvf >= 8",
        """\
CAD1406: unknown name `bvf`
  expected: one of `P`, `buf`, `phase`, `width`
  at:       codec.yaml:19:11
  hint:     did you mean `buf`?""",
    ),
]


@pytest.mark.parametrize(("old", "new", "message"), MESSAGES, ids=[message[:7] for _, _, message in MESSAGES])
def test_message(old: str, new: str, message: str) -> None:
    assert str(refused(edited(old, new))) == message


def test_nothing_comes_from_outside() -> None:
    text = edited("  turn: {reset: true}\n", "").replace("unit: {when", "unit: {internal: true, when")
    text = text.replace("choose: {n: 0..5}, inputs: {token: [1, n]}, do: {buf: buf + n}", "do: {buf: buf}")
    assert str(refused(text)) == (
        "CAD1311: no event comes from outside\n"
        "  at:       codec.yaml:15:1\n"
        "  hint:     add one, such as `frame: {inputs: {x: [1, 80]}, run: [step]}`"
    )


def test_an_override_of_nothing() -> None:
    assert str(refused(BASE, {"widht": "9"})) == (
        "CAD1209: `widht` names nothing to set\n"
        "  expected: one of `P`, `cadence`, `cadence_spec`, `clocks`, `counters`, `events`, `horizon`, `model`,"
        " `numerics`, `params`, `queues`, `regions`, `stages`, `width`\n"
        "  at:       --set widht:1:1\n"
        "  hint:     did you mean `width`?"
    )


def test_a_comma_that_yaml_takes() -> None:
    assert str(refused(edited("do: {buf: buf - 8}", "do: {buf: max(0, buf - 8)}"))) == (
        "CAD1401: an expression ends too early\n"
        "  expected: `)`, `,` or an operator\n"
        "  at:       codec.yaml:23:20\n"
        '  hint:     quote an expression that holds a comma: `"min(28, buf)"`\n'
        "CAD1204: `buf - 8)` is not a name\n"
        "  expected: a letter or `_`, then letters, digits and `_`\n"
        "  at:       codec.yaml:23:22"
    )


def test_a_sample_count_that_contradicts_the_rates_names_its_regions_and_both_numbers() -> None:
    text = edited("advance: {token: 8}", "advance: {token: 8, sample: 7685}")
    text = text.replace("tail: {shape: [1, 3], start: absent}", "tail: {shape: [1, t], clock: sample, start: 3}")
    assert refused(text).hint == "`token: 8` is `sample: 7680` (regions `tail`); the spec says 7685"


def test_every_code_has_its_whole_message_and_its_row_in_the_docs() -> None:
    root = Path(__file__).parents[2]
    sources = [*(root / "cadencec/spec").glob("*.py"), root / "runtime_stub/cadence_runtime/host/expression.py"]
    raised = {code for source in sources for code in re.findall(r'"(CAD1\d{3})"', source.read_text())}
    tests = [*(root / "tests/spec").glob("test_*.py"), root / "tests/host/test_expression.py"]
    shown = {code for test in tests for code in re.findall(r"(CAD1\d{3}): ", test.read_text())}
    rows = re.findall(r"^\| (CAD1\d{3}) \|", (root / "docs/errors/spec.md").read_text(), re.MULTILINE)
    assert raised <= shown
    assert rows == sorted(raised)
