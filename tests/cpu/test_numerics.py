"""Numeric switches: applied and put back, held while a plan is open, refused where two plans disagree."""

import threading

import pytest
import torch

from cadence_runtime.cpu.environment import environment
from cadence_runtime.cpu.numerics import SWITCHES, applied, hold, read, unknown_values
from cadence_runtime.errors import IncompatibleError
from cadencec.trace import numerics as traced

OTHER = {
    "threads": "3",
    "flush_denormal": "true",
    "deterministic_algorithms": "true",
    "float32_matmul_precision": "medium",
    "mkldnn.matmul.fp32_precision": "bf16",
    "mkldnn.conv.fp32_precision": "ieee",
    "mkldnn.enabled": "false",
}


def test_every_switch_is_set_and_put_back() -> None:
    assert OTHER.keys() == SWITCHES.keys()
    before = read()
    with applied(OTHER.items()):
        assert read() == OTHER
    assert read() == before


@pytest.mark.parametrize("switch", OTHER)
def test_one_switch_is_put_back_with_those_that_it_moves(switch: str) -> None:
    before = read(traced.TABLE)
    with applied([(switch, OTHER[switch])]):
        assert read()[switch] == OTHER[switch]
    assert read(traced.TABLE) == before


@pytest.mark.parametrize(
    "switches", [[("allow_tf32", True)], [("allow_tf32", False)], [("float32_matmul_precision", "high")]]
)
def test_the_switches_of_a_spec_are_put_back_with_those_that_they_move(switches: list[tuple[str, bool | str]]) -> None:
    before = read(traced.TABLE)
    with traced.applied(switches):
        assert traced.shown(switches)[0] in read(traced.TABLE).items()
    assert read(traced.TABLE) == before


def test_switches_of_other_devices_and_of_nobody_are_left_alone() -> None:
    before = read(traced.TABLE)
    with applied([("cuda.matmul.fp32_precision", "tf32"), ("cudnn.deterministic", "true"), ("autocast.cpu", "x")]):
        assert read(traced.TABLE) == before


def test_the_last_of_several_plans_puts_back_what_was_there() -> None:
    before = read()
    one, other = hold(OTHER.items()), hold(OTHER.items())
    assert read() == OTHER
    one.release()
    one.release()
    assert read() == OTHER
    other.release()
    assert read() == before


def test_plans_that_disagree_are_refused_by_switch() -> None:
    held = hold([("float32_matmul_precision", "medium"), ("deterministic_algorithms", "true")])
    try:
        with pytest.raises(IncompatibleError) as caught:
            hold([("float32_matmul_precision", "high"), ("deterministic_algorithms", "true")])
        assert str(caught.value) == (
            "CAD6006: another plan that is open here needs another `float32_matmul_precision`\n"
            "  expected: medium\n"
            "  got:      high\n"
            "  hint:     close the other plan first, or load this one in a process of its own"
        )
        assert read() == held.values
    finally:
        held.release()


def test_a_plan_that_was_forgotten_holds_nothing() -> None:
    before = read()
    forgotten = hold([("threads", "3")])
    del forgotten
    torch.set_num_threads(int(before["threads"]))
    hold([("threads", "2")]).release()
    assert read() == before


def test_a_thread_that_ran_torch_before_gets_the_count_too() -> None:
    ready, go = threading.Event(), threading.Event()
    counts = []

    def work() -> None:
        torch.ones(4).sum()
        ready.set()
        go.wait()
        held.on_this_thread()
        counts.append(torch.get_num_threads())

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait()
    before = torch.get_num_threads()
    held = hold([("threads", str(before + 2))])
    go.set()
    thread.join()
    held.release()
    assert counts == [before + 2]


def test_values_that_no_switch_takes_are_refused_before_anything_is_set() -> None:
    wanted = [("threads", "1000000"), ("flush_denormal", "yes"), ("threads", "2"), ("no.switch", "1")]
    assert [str(error) for error in unknown_values(wanted)] == [
        "CAD6007: the plan wants a value of the numeric switch `threads` that it does not take\n"
        "  expected: a count from 1 to 1024\n"
        "  got:      1000000",
        "CAD6007: the plan wants a value of the numeric switch `flush_denormal` that it does not take\n"
        "  expected: false, true\n"
        "  got:      yes",
    ]


def test_the_environment_knows_what_no_switch_sets() -> None:
    assert dict(environment())["default_dtype"] == "float32"
    assert dict(environment())["flush_denormal"] == "false"
    with applied([("flush_denormal", "true"), ("threads", "3")]):
        assert dict(environment())["flush_denormal"] == "true"
        assert dict(environment())["threads"] == "3"
