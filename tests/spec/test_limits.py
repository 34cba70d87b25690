"""What no plan can hold is refused with the spec, before any model is built, by the place where it stands."""

import pytest

from cadence_runtime.format.manifest import PROGRAM
from cadencec.spec import parse_spec
from tests.spec.example import BASE, edited, refused


def several(count: int, each: str) -> str:
    return ", ".join(each.replace("@", f"n{i}") for i in range(count))


CASES = {
    "params": ("{P: 4}", "{P: 4, " + several(4096, "@: 1") + "}", "`params`", "a list of at most 4096", "5:9"),
    "counters": ("{buf: 0,", "{" + several(4096, "@: 0") + ", buf: 0,", "`counters`", "a list of at most 4096", "6:11"),
    "leaves": (
        "leaves: [k, v]",
        f"leaves: [{several(4097, '@')}]",
        "`leaves` of region `kv`",
        "a list of at most 4096",
        "10:16",
    ),
    "shape": ("shape: [1, 3]", f"shape: [{'1, ' * 64}3]", "`shape` of region `tail`", "a list of at most 64", "11:17"),
    "inputs": (
        "token: [1, n]",
        f"token: [{'1, ' * 64}n]",
        "`inputs` of event `unit`",
        "a list of at most 64",
        "16:55",
    ),
    "effects": (
        "do: {buf: buf + n}",
        "do: {buf: buf + n}, let: {" + several(4097, "@: 1") + "}",
        "`let` of event `unit`",
        "a list of at most 4096",
        "16:97",
    ),
    "choices": (
        "n: 0..5",
        "n: 0..9223372036854775807",
        "`choose` of event `unit`",
        "-9223372036854775807 to 9223372036854775807",
        "16:36",
    ),
    "letters": ("leaves: [k, v]", 'leaves: ["k\\u202e", v]', "`leaves` of region `kv`", "printable text", "10:16"),
}


@pytest.mark.parametrize("what", CASES)
def test_what_no_plan_can_hold_is_refused_where_it_stands(what: str) -> None:
    old, new, subject, expected, at = CASES[what]
    message = str(refused(edited(old, new)))
    assert message.startswith(f"CAD1313: {subject} does not fit into a plan\n  expected: {expected}\n  got:      ")
    assert message.endswith(f"\n  at:       codec.yaml:{at}")


def test_a_weights_file_has_a_printable_name() -> None:
    text = edited("options: {width: 8}}", 'options: {width: 8}, weights: {file: "a\\u202e.safetensors"}}')
    assert str(refused(text)) == (
        "CAD1313: `file` of `weights` of `model` does not fit into a plan\n"
        "  expected: printable text\n"
        "  got:      `a?.safetensors`\n"
        "  at:       codec.yaml:2:86"
    )


def test_what_is_accepted_comes_back_from_a_plan() -> None:
    program = parse_spec(BASE, "codec.yaml").program
    assert PROGRAM.decode(PROGRAM.encode(program)) == program
