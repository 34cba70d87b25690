"""The search: which nodes and keys there are, and what stops it."""

import gc

import pytest
import torch
from torch import Tensor

from cadence_runtime.format.plan import INIT, RESET, TensorForm
from cadence_runtime.format.tape import Literal
from cadencec.plan import compile as compile_module
from cadencec.trace.explore import held_limit
from cadencec.trace.runner import Runner
from tests.plan.models import STEP, compiled, line, place, refused, write_spec

SUM = """
class Model(nn.Module):
    def init_state(self):
        return {"h": torch.zeros(2, 4)}

    def step(self, state, x):
        return {"h": state["h"] + x}, state["h"] * 2

def build():
    return Model()
"""


def stages(plan) -> list[str]:
    return [capture.key.stage for capture in plan.captures]


def test_a_state_that_keeps_its_form_is_one_node(tmp_path):
    _, done = compiled(tmp_path, "regions: {h: {shape: [2, 4]}}" + STEP, SUM)
    plan = done.plan
    assert len(plan.nodes) == 1
    assert stages(plan) == [INIT, "step", RESET]
    assert [(t.source, t.event, t.captures, t.target) for t in plan.transitions] == [(0, 0, (1,), 0), (0, 1, (2,), 0)]


def test_growth_is_one_key_a_length_and_reset_finds_the_first_again(tmp_path):
    body = """
    clocks: {f: 50 Hz}
    regions: {h: {shape: [t, 4], clock: f, start: 0, retain: {window: 4}}}
    stages: {step: {inputs: {x: {dtype: float32}}, outputs: [y]}}
    events:
      frame: {inputs: {x: [2, 4]}, advance: {f: 2}, run: [step]}
      turn: {reset: true}
    """
    code = SUM.replace("torch.zeros(2, 4)", "torch.zeros(0, 4)").replace(
        '{"h": state["h"] + x}, state["h"] * 2', '{"h": torch.cat([state["h"], x])[-4:].clone()}, x + state["h"].sum(0)'
    )
    _, done = compiled(tmp_path, body, code)
    assert [node.configuration.lengths for node in done.plan.nodes] == [(0,), (2,), (4,)]
    assert stages(done.plan).count("step") == 3
    assert {t.target for t in done.plan.transitions if t.event == 1} == {0}


def test_a_node_that_waits_holds_its_leaves_and_not_the_buffers_that_the_model_cut_them_from(tmp_path):
    body = """
    counters: {n: 0}
    regions: {h: {shape: [2, 4]}}
    stages: {step: {inputs: {x: {dtype: float32}}, outputs: [y]}}
    events:
      frame: {choose: {c: 1..3}, inputs: {x: [c, 4]}, run: [step], do: {n: c}}
    """
    code = SUM.replace('{"h": state["h"] + x}, state["h"] * 2', '{"h": cut(state["h"] + x.sum(0))}, cut(x)')
    code = code.replace("class Model", "def cut(x): return torch.cat([x, torch.zeros(999, 4)])[:len(x)]\n\nclass Model")
    waiting, buffers, cut_from = [], [], {(999 + k) * 16 for k in (1, 2, 3)}

    def look(phase: str, done: int, known: int) -> None:
        waiting.append(phase == "trace" and known - done)
        found = (each for each in gc.get_objects() if issubclass(type(each), Tensor) and each.layout == torch.strided)
        buffers.extend(each for each in found if each.untyped_storage().nbytes() in cut_from)

    compiled(tmp_path, body, code, progress=look)
    assert max(waiting) == 3
    assert buffers == []


def test_states_that_are_not_held_are_made_again(tmp_path, monkeypatch):
    body = """
    clocks: {f: 50 Hz}
    counters: {n: 0}
    regions: {h: {shape: [t, 4], clock: f, start: 0, retain: {window: 9}}}
    stages: {step: {inputs: {x: {dtype: float32}}, outputs: [y]}}
    events:
      frame: {choose: {k: 1..3}, inputs: {x: [k, 4]}, advance: {f: k}, run: [step], do: {n: "(n + k) % 2"}}
      turn: {reset: true}
    """
    code = SUM.replace("torch.zeros(2, 4)", "torch.zeros(0, 4)").replace(
        '{"h": state["h"] + x}, state["h"] * 2', '{"h": torch.cat([state["h"], x])[-9:].clone()}, x + state["h"].sum(0)'
    )
    _, held = compiled(tmp_path, body, code)
    monkeypatch.setattr("cadencec.trace.explore.HELD_BYTES", 0)
    _, made_again = compiled(tmp_path, body, code)
    assert made_again.plan == held.plan
    assert len(held.plan.nodes) > 8


def test_on_a_device_half_of_its_free_memory_may_hold_states(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (100 << 30, 139 << 30))
    assert held_limit(torch.device("cuda", 0)) == 50 << 30
    assert held_limit(torch.device("cpu")) == 2 << 30


def test_what_follows_a_new_key_and_is_known_does_not_run(tmp_path, monkeypatch):
    """`step` is new at every length; the reset behind it is met once, and leads to node 0."""
    body = """
    clocks: {f: 50 Hz}
    regions: {h: {shape: [t, 4], clock: f, start: 0, retain: {window: 6}}}
    stages: {step: {args: [final], inputs: {x: {dtype: float32}}, outputs: [y]}}
    events:
      frame: {let: {final: 0}, inputs: {x: [2, 4]}, advance: {f: 2}, run: [step]}
      last: {let: {final: 1}, inputs: {x: [2, 4]}, advance: {f: 2}, run: [step], reset: true}
    """
    code = SUM.replace("torch.zeros(2, 4)", "torch.zeros(0, 4)").replace(
        'step(self, state, x):\n        return {"h": state["h"] + x}, state["h"] * 2',
        'step(self, state, x, final):\n        return {"h": torch.cat([state["h"], x])[-6:].clone()}, x * (final + 1)',
    )
    ran, run = [], Runner.run
    monkeypatch.setattr(Runner, "run", lambda self, job, *rest: ran.append(job.name) or run(self, job, *rest))
    _, done = compiled(tmp_path, body, code)
    assert (stages(done.plan).count("step"), stages(done.plan).count(RESET)) == (8, 1)
    assert [len(t.captures) for t in done.plan.transitions if t.event == 1] == [2, 2, 2, 2]
    assert RESET not in ran


def test_strides_and_structure_are_part_of_the_node(tmp_path):
    body = "regions: {h: {shape: [2, 4], start: absent}}" + STEP
    code = SUM.replace("torch.zeros(2, 4)", "None").replace(
        '{"h": state["h"] + x}, state["h"] * 2',
        '{"h": x if state["h"] is None else torch.cat([state["h"], x], 1)[:, 4:]}, x * 2',
    )
    _, done = compiled(tmp_path, body, code)
    forms = [done.plan.forms[node.forms[0]] for node in done.plan.nodes]
    assert forms == [
        Literal("none", ""),
        TensorForm("float32", (2, 4), (4, 1), 0, 0),
        TensorForm("float32", (2, 4), (8, 1), 0, 4),
    ]
    assert (done.plan.leaves[0].slot_bytes, stages(done.plan).count("step")) == ((4 + 8 + 4) * 4, 3)


def test_a_contiguous_region_has_one_form(tmp_path):
    body = "regions: {h: {shape: [2, 4], layout: contiguous}}" + STEP
    code = SUM.replace('{"h": state["h"] + x}', '{"h": torch.cat([state["h"], x], 1)[:, 4:]}')
    _, done = compiled(tmp_path, body, code)
    assert (len(done.plan.nodes), len(done.plan.forms)) == (1, 1)


def test_a_declared_counter_is_one_key_a_value(tmp_path):
    body = """
    counters: {pos: {start: 0, leaf: pos}}
    regions: {h: {shape: [2, 4]}}
    stages: {step: {inputs: {x: {dtype: float32}}, outputs: [y]}}
    events: {frame: {when: pos < 3, inputs: {x: [2, 4]}, run: [step], do: {pos: pos + 1}}}
    """
    code = SUM.replace('{"h": torch.zeros(2, 4)}', '{"h": torch.zeros(2, 4), "pos": 0}').replace(
        '{"h": state["h"] + x}', '{"h": state["h"] + x, "pos": state["pos"] + 1}'
    )
    _, done = compiled(tmp_path, body, code)
    assert [done.plan.forms[node.forms[1]] for node in done.plan.nodes] == [Literal("int", str(i)) for i in range(4)]
    assert stages(done.plan) == [INIT, "step", "step", "step"]


def test_rows_of_an_indexed_region_are_leaves(tmp_path):
    body = """
    clocks: {f: 50 Hz}
    regions: {att: {shape: [3, t, 4], clock: f, start: 1, retain: {window: 3}}}
    stages:
      refine: {repeat: {i: 3}, reads: ["att[i]"], writes: ["att[i]"], inputs: {x: {dtype: float32}}, outputs: [y]}
    events: {frame: {inputs: {x: [2, 4]}, advance: {f: 2}, run: [refine]}}
    """
    code = """
    class Model:
        def __init__(self):
            self.stages = {"refine": self.refine}

        def init_state(self):
            return {"att": torch.ones(3, 1, 4)}

        def refine(self, state, x, i):
            full = torch.cat([state["att"], x * (i + 1)])
            return {"att": full[-3:].clone()}, full.sum(0)

    def build():
        return Model()
    """
    _, done = compiled(tmp_path, body, code)
    assert [leaf.path for leaf in done.plan.leaves] == ["att[0]", "att[1]", "att[2]"]
    assert [c.key.args for c in done.plan.captures] == [(), (0,), (1,), (2,), (0,), (1,), (2,)]
    assert [t.captures for t in done.plan.transitions] == [(1, 2, 3), (4, 5, 6)]


def test_a_search_has_a_limit(tmp_path):
    body = """
    counters: {pos: {start: 0, leaf: pos}}
    stages: {step: {inputs: {x: {dtype: float32}}, outputs: [y]}}
    events: {frame: {when: pos < 30, inputs: {x: [2, 4]}, run: [step], do: {pos: pos + 1}}}
    """
    code = """
    class Model:
        def init_state(self):
            return {"pos": 0}

        def step(self, state, x):
            return {"pos": state["pos"] + 1}, x + state["pos"]

    def build():
        return Model()
    """
    assert refused(tmp_path, body, code, node_limit=8) == (
        "CAD3601: the search found more states of a session than its limit\n"
        "  expected: at most 8 nodes\n"
        "  got:      8 nodes, and more to come\n"
        "  hint:     bound the spec with `horizon` or `retain`, or raise the limit"
    )


GROWING_STRIDES = """
class Model:
    def init_state(self):
        return {"h": torch.zeros(2, 4)}

    def step(self, state, x):
        room = torch.zeros(2, state["h"].stride(0) + 4)
        room[:, :4] = state["h"] + x
        return {"h": room[:, :4]}, x * 2

def build():
    return Model()
"""


def test_strides_that_grow_for_ever(tmp_path):
    assert refused(tmp_path, "regions: {h: {shape: [2, 4]}}" + STEP, GROWING_STRIDES) == (
        "CAD3602: the layout of the state leaf `h` changes for ever at one configuration\n"
        "  expected: at most 64 layouts\n"
        "  got:      sizes [2, 4], strides [256, 1], offset 0 then sizes [2, 4], strides [260, 1], offset 0 ...\n"
        "  hint:     make the new state contiguous in the model, or declare `layout: contiguous` for its region"
    )


def test_a_contiguous_layout_stops_growing_strides(tmp_path):
    _, done = compiled(tmp_path, "regions: {h: {shape: [2, 4], layout: contiguous}}" + STEP, GROWING_STRIDES)
    assert len(done.plan.nodes) == 1


def test_the_same_leaves_in_another_nest(tmp_path):
    code = """
    class Model:
        def init_state(self):
            return {"c": None}

        def step(self, state, x):
            return {"c": (None, None)}, x * 2

    def build():
        return Model()
    """
    body = "regions: {h: {leaves: [c.0, c.1], shape: [2, 4], start: absent, retain: fixed}}" + STEP.replace(
        "outputs: [y]", "outputs: [y], writes: []"
    )
    assert refused(tmp_path, body, code) == (
        "CAD3507: the state after `frame` has the leaves of an earlier one in another nest\n"
        "  expected: one nest of dicts, lists and tuples for the same leaves\n"
        "  got:      None where a container was, or the other way round\n"
        "  hint:     keep the containers and set their leaves to None"
    )


def test_a_stage_that_fails_at_one_length_is_told_with_that(tmp_path):
    body = """
    clocks: {f: 50 Hz}
    regions: {h: {shape: [t, 4], clock: f, start: 0, retain: {window: 9}}}
    stages: {step: {inputs: {x: {dtype: float32}}, outputs: [y]}}
    events: {frame: {choose: {k: 2..3}, inputs: {x: [k, 4]}, advance: {f: k}, run: [step]}}
    """
    code = SUM.replace("torch.zeros(2, 4)", "torch.zeros(0, 4)").replace(
        '{"h": state["h"] + x}, state["h"] * 2',
        '{"h": torch.cat([state["h"], x])[-9:].clone()}, x if len(state["h"]) < 5 else x @ x',
    )
    assert refused(tmp_path, body, code) == (
        "CAD3007: stage `step` raised while it was traced\n"
        "  expected: the stage to run at every shape that the timeline reaches\n"
        "  got:      RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x4 and 2x4); "
        "in event `frame` with `x` [2, 4], `h` 5 long\n"
        f"  at:       {line('torch.cat', code)}\n"
        "  hint:     run the stage by hand at this shape, or correct the timeline"
    )


def test_a_stage_that_changes_in_place_what_it_only_reads(tmp_path):
    body = """
    regions: {h: {shape: [2, 4]}, g: {shape: [2, 4]}}
    stages: {mix: {reads: [h, g], writes: [g], inputs: {x: {dtype: float32}}, outputs: [y]}}
    events: {frame: {inputs: {x: [2, 4]}, run: [mix]}}
    """
    code = """
    class Model:
        def __init__(self):
            self.stages = {"mix": self.mix}

        def init_state(self):
            return {"h": torch.zeros(2, 4), "g": torch.zeros(2, 4)}

        def mix(self, state, x):
            state["h"].add_(x)
            return {"g": x + 1}, x * state["h"]

    def build():
        return Model()
    """
    assert refused(tmp_path, body, code) == (
        "CAD3603: stage `mix` changes the state leaf `h` in place but does not write it\n"
        "  expected: a leaf of a region among the stage's `writes`\n"
        "  got:      `aten::add_.Tensor`\n"
        f"  at:       {place('add_', code)}\n"
        "  hint:     add its region to `writes`"
    )


def test_a_stage_that_returns_what_it_does_not_write(tmp_path):
    body = """
    regions: {h: {shape: [2, 4]}, g: {shape: [2, 4]}}
    stages: {mix: {reads: [h, g], writes: [g], inputs: {x: {dtype: float32}}, outputs: [y]}}
    events: {frame: {inputs: {x: [2, 4]}, run: [mix]}}
    """
    code = """
    class Model:
        def __init__(self):
            self.stages = {"mix": self.mix}

        def init_state(self):
            return {"h": torch.zeros(2, 4), "g": torch.zeros(2, 4)}

        def mix(self, state, x):
            return {"h": x + 1}, x * state["h"]

    def build():
        return Model()
    """
    assert refused(tmp_path, body, code) == (
        "CAD3412: stage `mix` returns state that it does not write\n"
        "  expected: a dict by path with some of `g`\n"
        "  got:      `h`\n"
        "  hint:     declare it in the spec: `stages: {mix: {writes: [...]}}`"
    )


@pytest.mark.parametrize("seed", [0, 1])
def test_a_search_depends_on_nothing_but_its_arguments(tmp_path, seed):
    torch.manual_seed(seed)
    torch.rand(seed + 1)
    spec = write_spec(tmp_path, "regions: {h: {shape: [2, 4]}}" + STEP, SUM)
    from cadencec.plan.compile import compile_spec

    before = torch.get_rng_state()
    first, second = compile_spec(spec, walk_events=4), compile_spec(spec, walk_events=4)
    assert first == second
    assert torch.equal(torch.get_rng_state(), before)


def test_a_sequence_of_ops_is_compared_on_three_values_where_it_is_met_first(tmp_path, monkeypatch):
    """Two stages an event, so the third track is led into the middle of a push; the cut is met at the fifth key."""
    code = """
    class Model:
        def init_state(self):
            return {"h": torch.zeros(0, 4)}

        stages = property(lambda self: {"grow": self.grow, "mix": self.mix})

        def grow(self, state, x):
            h = torch.cat([state["h"], x])
            return {"h": h[-9:].clone() if len(h) > 9 else h}, x + 1

        def mix(self, state, p):
            return {}, p * state["h"].sum(0) + (torch.randn(4) if len(state["h"]) > 5 else 1.0)

    def build():
        return Model()
    """
    body = """
    clocks: {f: 50 Hz}
    regions: {h: {shape: [t, 4], clock: f, start: 0, retain: {window: 9}}}
    stages:
      grow: {inputs: {x: {dtype: float32}}, reads: [h], writes: [h], outputs: [p]}
      mix: {inputs: {p: {dtype: float32}}, reads: [h], writes: [], outputs: [y]}
    events: {frame: {inputs: {x: [2, 4]}, advance: {f: 2}, run: [grow, mix]}}
    """
    seen = []
    check = compile_module.check_tape

    def spy(tape, constant, weights, recording, executions, device):
        values = {str(sorted((n, v.tolist()) for n, v in e.inputs.items())) for e in executions}
        seen.append((tape.stage, len(executions), len(values)))
        check(tape, constant, weights, recording, executions, device)

    monkeypatch.setattr(compile_module, "check_tape", spy)
    _, done = compiled(tmp_path, body, code)
    assert seen == [
        (INIT, 3, 1),
        ("grow", 3, 3), ("mix", 3, 3),
        ("grow", 1, 1), ("mix", 1, 1),
        ("grow", 1, 1), ("mix", 3, 3),  # longer than five: it draws
        ("grow", 1, 1), ("mix", 1, 1),
        ("grow", 3, 3), ("mix", 1, 1),  # longer than nine: it is cut
        ("grow", 1, 1),
    ]  # fmt: skip
    assert done.plan.fidelity.values_per_tape == 1
