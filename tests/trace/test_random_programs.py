"""Random stages: a tape replays like the stage on values that it was not recorded on, whatever passes ran."""

import itertools

import pytest
import torch
from hypothesis import HealthCheck, given, settings

from cadence_runtime.format.tape import Tape, View
from cadencec.passes.pipeline import PASSES, optimise
from cadencec.trace.bits import same_bits
from cadencec.trace.interpret import interpret
from cadencec.trace.operands import views_of
from cadencec.trace.recorder import collect_weights
from tests.trace.programs import Program, programs
from tests.trace.stages import fresh, other, trace

STATE = {"a": torch.zeros(3, 4), "b": torch.zeros(3, 4).t()}
X = torch.zeros(3, 4)
SWITCHES = [
    frozenset(chosen) for count in range(len(PASSES) + 1) for chosen in itertools.combinations(sorted(PASSES), count)
]


def check(program: Program) -> None:
    weights = collect_weights(program)
    recording = trace(program.step, {p: other(t, 1) for p, t in STATE.items()}, other(X, 1), weights=weights, outputs=2)
    state, x = {path: other(leaf, 2) for path, leaf in STATE.items()}, other(X, 3)
    torch.manual_seed(4)
    want_state, want = program.step({path: fresh(leaf) for path, leaf in state.items()}, fresh(x))
    drawn = torch.get_rng_state()
    for switches in SWITCHES:
        optimised = optimise(recording, weights, switches)
        check_form(optimised.tape)
        torch.manual_seed(4)
        outputs, new = interpret(optimised.tape, {"x0": x}, state, weights.tensor, optimised.constants.__getitem__)
        assert all(map(same_bits, outputs, want)), switches
        assert all(same_bits(new[path], want_state[path]) for path in want_state), switches
        assert torch.equal(torch.get_rng_state(), drawn), switches


def check_form(tape: Tape) -> None:
    """Every view lies within its storage; reads and writes are storages of views that the op has."""
    for op in tape.ops:
        views = list(views_of((*op.args, *(value for _, value in op.kwargs), *op.outs)))
        assert all(in_storage(view, tape) for view in views)
        assert {*op.reads, *op.writes} <= {view.storage for view in views}
        assert op.reads == tuple(sorted(set(op.reads))) and op.writes == tuple(sorted(set(op.writes)))
    for binding in (*tape.inputs, *tape.state_in, *tape.outputs, *tape.state_out):
        assert not isinstance(binding.value, View) or in_storage(binding.value, tape)


def in_storage(view: View, tape: Tape) -> bool:
    lower, upper = view.span()
    return 0 <= lower <= upper <= tape.storages[view.storage].size_bytes


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(programs)
def test_tapes_of_random_stages_replay_like_the_stage(program: Program):
    check(program)


@pytest.mark.soak
@settings(max_examples=3000, suppress_health_check=[HealthCheck.too_slow])
@given(programs)
def test_tapes_of_many_random_stages_replay_like_the_stage(program: Program):
    check(program)
