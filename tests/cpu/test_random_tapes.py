"""The CPU player gives the bits of the plain interpreter, on tapes of random stages, whatever passes ran."""

import itertools

import pytest
import torch
from hypothesis import HealthCheck, given, settings

from cadencec.passes.pipeline import PASSES, optimise
from cadencec.trace.fidelity import difference
from cadencec.trace.interpret import interpret
from cadencec.trace.recorder import collect_weights
from tests.cpu.tapes import play
from tests.trace.programs import Program, programs
from tests.trace.stages import fresh, other, trace

STATE = {"a": torch.zeros(3, 4), "b": torch.zeros(3, 4).t()}
X = torch.zeros(3, 4)
SWITCHES = [
    frozenset(chosen) for count in (0, 1, len(PASSES)) for chosen in itertools.combinations(sorted(PASSES), count)
]


def check(program: Program) -> None:
    weights = collect_weights(program)
    recording = trace(program.step, {p: other(t, 1) for p, t in STATE.items()}, other(X, 1), weights=weights, outputs=2)
    state, x = {path: other(leaf, 2) for path, leaf in STATE.items()}, other(X, 3)
    for switches in SWITCHES:
        tape, constants = (optimised := optimise(recording, weights, switches)).tape, optimised.constants
        torch.manual_seed(4)
        outputs, leaves = interpret(tape, {"x0": x}, state, weights.tensor, constants.__getitem__)
        drawn = torch.get_rng_state()
        used = {storage.name: weights.tensor(storage.name) for storage in tape.storages if storage.kind == "weight"}
        played = play(tape, {"x0": fresh(x)}, state, used, constants, seed=4)
        assert not any(map(difference, played.outputs, outputs)), switches
        assert not any(difference(played.leaves[path], leaf) for path, leaf in leaves.items()), switches
        assert torch.equal(played.generator, drawn)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(programs)
def test_tapes_of_random_stages(program: Program) -> None:
    check(program)


@pytest.mark.soak
@settings(max_examples=3000, suppress_health_check=[HealthCheck.too_slow])
@given(programs)
def test_tapes_of_many_random_stages(program: Program) -> None:
    check(program)
