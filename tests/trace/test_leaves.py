"""Declared leaves against real states: what is not declared, what is not there, what is something else."""

from tests.plan.models import STEP, place, refused

HEAD = """
class Model:
    def init_state(self):
        return {start}

    def step(self, state, x):
        return {after}, x * 2

def build():
    return Model()
"""


def model(start: str, after: str = "state") -> str:
    return HEAD.replace("{start}", start).replace("{after}", after)


def test_a_tensor_that_no_region_declares(tmp_path):
    code = model("{'h': torch.zeros(2, 4), 'hist': torch.zeros(1, 3)}")
    assert refused(tmp_path, "regions: {h: {shape: [2, 4]}}" + STEP, code) == (
        "CAD3502: no region declares the state leaf `hist`\n"
        "  expected: a region for every tensor of the state\n"
        "  got:      float32 [1, 3] after `init`\n"
        f"  at:       {place('def init_state', code)}\n"
        "  hint:     declare it: `regions: {hist: {leaves: [hist], shape: [1, 3], ...}}`"
    )


def test_a_tensor_that_appears_later(tmp_path):
    code = model("{'h': torch.zeros(2, 4)}", "{'h': x, 'late': x[0]}")
    assert refused(tmp_path, "regions: {h: {shape: [2, 4]}}" + STEP, code) == (
        "CAD3502: no region declares the state leaf `late`\n"
        "  expected: a region for every tensor of the state\n"
        "  got:      float32 [4] after `step`\n"
        f"  at:       {place('def step', code)}\n"
        "  hint:     declare it: `regions: {late: {leaves: [late], shape: [4], ...}}`"
    )


def test_a_python_int_is_told_with_what_a_step_does_to_it(tmp_path):
    code = model("{'pos': 0}", "{'pos': state['pos'] + 1}")
    assert refused(tmp_path, STEP, code) == (
        "CAD3503: no counter declares the state leaf `pos`, a Python int\n"
        "  expected: a tensor in a region, or a counter with its bounds\n"
        "  got:      int, changed 0 -> 1\n"
        f"  at:       {place('def init_state', code)}\n"
        "  hint:     keep it in a tensor, or declare it: `counters: {pos: {start: 0, leaf: pos}}` with its effect in "
        "`do`; each of its values is a capture of its own"
    )


def test_a_leaf_that_is_not_there(tmp_path):
    code = model("{'hist': torch.zeros(2, 4)}")
    body = "regions: {hist: {shape: [2, 4]}, history: {leaves: [hits], shape: [2, 4]}}" + STEP
    assert refused(tmp_path, body, code) == (
        "CAD3504: the state after `init` has no leaf `hits`\n"
        "  expected: the leaf `hits` of `history`\n"
        "  got:      `hist`\n"
        f"  at:       {tmp_path}/model.yaml:3:44\n"
        "  hint:     did you mean `hist`?"
    )


def test_another_shape_or_dtype_than_declared(tmp_path):
    code = model("{'h': torch.zeros(2, 5)}")
    assert refused(tmp_path, "regions: {h: {shape: [2, 4], dtype: float64}}" + STEP, code) == (
        "CAD3505: region `h` is not what the spec says after `init`\n"
        "  expected: float64 [2, 4]\n"
        "  got:      float32 [2, 5]\n"
        f"  at:       {tmp_path}/model.yaml:3:11\n"
        "  hint:     the spec's `shape`, `start`, `retain` and `advance` must give what the model does"
    )


def test_another_length_after_an_event(tmp_path):
    body = """
    clocks: {f: 50 Hz}
    regions: {kv: {leaves: [k], shape: [t, 4], clock: f, start: 0, retain: {window: 8}}}
    stages: {step: {inputs: {x: {dtype: float32}}, outputs: [y]}}
    events: {frame: {inputs: {x: [2, 4]}, advance: {f: 3}, run: [step]}}
    """
    code = model("{'k': torch.zeros(0, 4)}", "{'k': torch.cat([state['k'], x])[-8:]}")
    assert refused(tmp_path, body, code) == (
        "CAD3505: region `kv` is not what the spec says after `frame`\n"
        "  expected: float32 [3, 4], 3 long\n"
        "  got:      float32 [2, 4] in `k`\n"
        f"  at:       {tmp_path}/model.yaml:5:11\n"
        "  hint:     the spec's `shape`, `start`, `retain` and `advance` must give what the model does"
    )


def test_an_absent_region_that_is_there(tmp_path):
    code = model("{'h': torch.zeros(2, 4)}")
    assert refused(tmp_path, "regions: {h: {shape: [2, 4], start: absent}}" + STEP, code) == (
        "CAD3505: region `h` is not what the spec says after `init`\n"
        "  expected: None, for the region is absent\n"
        "  got:      float32 [2, 4]\n"
        f"  at:       {tmp_path}/model.yaml:3:11\n"
        "  hint:     the spec's `shape`, `start`, `retain` and `advance` must give what the model does"
    )


def test_a_counter_that_does_something_else(tmp_path):
    body = """
    counters: {pos: {start: 0, leaf: n}}
    stages: {step: {inputs: {x: {dtype: float32}}, outputs: [y]}}
    events: {frame: {when: pos < 4, inputs: {x: [2, 4]}, run: [step], do: {pos: pos + 1}}}
    """
    code = model("{'n': 0}", "{'n': state['n'] + 2}")
    assert refused(tmp_path, body, code) == (
        "CAD3506: counter `pos` is not the state leaf `n` after `frame`\n"
        "  expected: int 1\n"
        "  got:      int 2\n"
        f"  at:       {tmp_path}/model.yaml:4:12\n"
        "  hint:     the counter's `start` and its effects in `do` must give what the model does"
    )


def test_errors_of_several_leaves_are_told_together(tmp_path):
    code = model("{'a': torch.zeros(1), 'b': torch.zeros(2)}")
    message = refused(tmp_path, "regions: {a: {shape: [2]}, b: {shape: [3]}}" + STEP, code)
    assert [line for line in message.splitlines() if line.startswith("CAD")] == [
        "CAD3505: region `a` is not what the spec says after `init`",
        "CAD3505: region `b` is not what the spec says after `init`",
    ]
