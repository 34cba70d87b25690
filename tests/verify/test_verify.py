"""Verification finds what differs, says where, and says how much it compared."""

import json
from dataclasses import replace

import pytest
import torch

from cadence_runtime.cpu.player import CpuPlayer
from cadence_runtime.errors import IncompatibleError
from cadence_runtime.format.writer import write_plan
from cadencec.verify import Difference, VerifyReport, render, to_json, verify, verify_file, verify_loaded
from tests.plan.models import STEP, compiled, loaded

BODY = "regions: {h: {shape: [2, 4]}}" + STEP

LINEAR = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Linear(4, 4)

    def init_state(self):
        return {"h": torch.zeros(2, 4)}

    def step(self, state, x):
        y = self.f(x) + state["h"]
        return {"h": y.tanh()}, y

def build():
    return Model().eval()
"""

PIPELINE = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.out = nn.Embedding(10, 4), nn.Linear(4, 1)
        self.refiners = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    @property
    def stages(self):
        return {"encode": self.encode, "refine": self.refine, "vocode": self.vocode}

    def init_state(self):
        return {"enc": torch.zeros(1, 0, 4), "att": torch.zeros(3, 1, 2, 4), "tail": torch.zeros(1, 0)}

    def encode(self, state, token, final):
        x = self.emb(token).repeat_interleave(2, 1)
        x = x if final else x[:, :-2]
        full = torch.cat([state["enc"], x], 1)
        return {"enc": full[:, -6:]}, x + full.mean(1, keepdim=True)

    def refine(self, state, m, i):
        full = torch.cat([state["att"], m], 1)
        y = m + self.refiners[i](torch.softmax(m @ full.transpose(1, 2), -1) @ full)
        return {"att": full[:, -8:]}, y

    def vocode(self, state, m):
        full = torch.cat([state["tail"], torch.tanh(self.out(m))[:, :, 0]], 1)
        return {"tail": full[:, -4:]}, full + 0.01 * torch.randn_like(full)

def build():
    return Model().eval()
"""

PIPELINE_BODY = """
clocks: {tok: 25 Hz, mel: 50 Hz}
counters: {buf: 2, phase: 0}
queues: {token: {counter: buf, axis: 1, dtype: int64, start: [7, 7]}}
regions:
  enc: {shape: [1, t, 4], clock: mel, start: 0, retain: {window: 6}}
  att: {shape: [3, 1, t, 4], clock: mel, start: 2, retain: {window: 8}}
  tail: {shape: [1, t], clock: mel, start: 0, retain: {window: 4}}
stages:
  encode: {reads: [enc], writes: [enc], args: [final], inputs: {token: {dtype: int64, range: [0, 9]}}, outputs: [m]}
  refine: {repeat: {i: 3}, reads: ["att[i]"], writes: ["att[i]"], inputs: [m], outputs: [m]}
  vocode: {reads: [tail], writes: [tail], inputs: [m], outputs: [audio]}
events:
  first: {when: phase == 0, choose: {n: 0..2}, inputs: {token: [1, n]}, do: {buf: buf + n, phase: 1}}
  unit: {when: phase == 1, inputs: {token: [1, 3]}, do: {buf: buf + 3}}
  end: {when: phase <= 1, choose: {n: 0..2}, inputs: {token: [1, n]}, do: {buf: buf + n, phase: 2}}
  chunk:
    {internal: true, when: buf >= 4, let: {k: "min(4, buf)", final: 0}, inputs: {token: [1, k]},
     advance: {mel: 2 * (k - 1)}, run: [encode, refine, vocode], do: {buf: "buf - (k - 1)"}}
  last:
    {internal: true, when: phase == 2 and buf < 4, let: {k: buf, final: 1}, inputs: {token: [1, k]},
     advance: {mel: 2 * k}, run: [encode, refine, vocode], reset: true}
  turn: {reset: true}
"""
"""A queue of tokens, internal events, an indexed stage, outputs handed on, random draws and a reset by itself."""


def test_a_file_is_verified_with_its_counts(tmp_path):
    _, done = compiled(tmp_path, BODY, LINEAR)
    write_plan(tmp_path / "model.plan", done.plan)
    spec = load_spec_text(tmp_path)
    told = []
    report = verify_file(
        str(tmp_path / "model.plan"), str(spec), events=30, walks=3, progress=lambda *news: told.append(news)
    )
    assert (report.is_equal, report.exit_code) == (True, 0)
    assert (report.events, report.walks, report.sessions, report.leaves) == (30, 3, 6, 6)
    assert report.events == report.outputs + report.resets
    assert (report.captures, report.captures_in_plan) == (3, 3)
    # Each output at once and late, each leaf once; all have eight numbers.
    assert report.elements == 8 * (2 * report.outputs + report.leaves)
    assert told[-1] == ("verify", 30, 30)


def load_spec_text(folder):
    """Write the spec that `compiled` made to a file."""
    head = 'cadence_spec: 1\nmodel: {name: model, entry: "./model.py:build"}\n'
    (folder / "model.yaml").write_text(head + BODY)
    return folder / "model.yaml"


def test_a_walk_depends_on_its_seed_alone(tmp_path):
    spec, done = compiled(tmp_path, BODY, LINEAR)
    with loaded(done.plan) as plan:
        reports = [verify_loaded(plan, spec, events=20, walks=2, seed=seed) for seed in (3, 3, 4)]
    assert reports[0] == reports[1]
    assert reports[0] != reports[2]


def test_queues_indexed_stages_and_draws(tmp_path):
    spec, done = compiled(tmp_path, PIPELINE_BODY, PIPELINE)
    with loaded(done.plan) as plan:
        report = verify_loaded(plan, spec, events=120, walks=3)
    assert report.differences == ()
    assert report.captures == report.captures_in_plan
    assert report.resets > 10


def broken(plan, name: str):
    """Return the plan with one bit of a weight flipped."""
    weight = next(weight for weight in plan.weights if weight.name == name)
    blobs = list(plan.blobs)
    data = bytearray(blobs[weight.blob])
    data[0] ^= 1
    blobs[weight.blob] = bytes(data)
    return replace(plan, blobs=tuple(blobs))


def test_one_flipped_bit_is_found_and_placed(tmp_path):
    spec, done = compiled(tmp_path, BODY, LINEAR)
    with loaded(broken(done.plan, "f.bias")) as plan:
        report = verify_loaded(plan, spec, events=12, walks=1)
    assert report.exit_code == 3
    assert len({d.session for d in report.differences}) == len(report.differences)
    first = report.differences[0]
    assert (first.walk, first.pushed, first.what, first.when) == (0, "frame", "output `y` of `frame`", "at once")
    assert first.event >= 1
    assert first.difference.startswith("[0, 0]: ")
    text = render(report)
    assert text.startswith("model: differs from the model's own stages\n")
    assert first.line() in text


def test_outputs_that_change_later_are_found(tmp_path, monkeypatch):
    spec, done = compiled(tmp_path, BODY, LINEAR)
    monkeypatch.setattr(CpuPlayer, "copy", lambda self, array: array)
    with loaded(done.plan) as plan:
        report = verify_loaded(plan, spec, events=12, walks=1)
    assert {difference.when for difference in report.differences} == {"late"}


def test_state_that_differs_is_found(tmp_path, monkeypatch):
    spec, done = compiled(tmp_path, BODY, LINEAR)
    leaf = CpuPlayer.leaf
    monkeypatch.setattr(CpuPlayer, "leaf", lambda self, index, form: leaf(self, index, form) + 1)
    with loaded(done.plan) as plan:
        report = verify_loaded(plan, spec, events=4, walks=1)
    assert {(d.what, d.when) for d in report.differences} == {("state leaf `h`", "at the end")}


def test_another_spec_is_refused(tmp_path):
    spec, done = compiled(tmp_path, BODY, LINEAR)
    write_plan(tmp_path / "model.plan", done.plan)
    other = replace(spec, sha256="0" * 64)
    with pytest.raises(IncompatibleError) as caught:
        verify(tmp_path / "model.plan", other)
    assert str(caught.value) == (
        f"CAD6901: the plan was compiled from another spec than `{spec.path}`\n"
        f"  expected: {spec.sha256}\n"
        f"  got:      {'0' * 64}\n"
        "  hint:     name the spec of this plan, with the same `--set`, or compile it anew"
    )
    assert caught.value.exit_code == 3


def test_the_generators_of_the_process_stay_where_they_are(tmp_path):
    spec, done = compiled(tmp_path, BODY, LINEAR)
    before = torch.get_rng_state()
    with loaded(done.plan) as plan:
        verify_loaded(plan, spec, events=4, walks=1)
    assert torch.equal(torch.get_rng_state(), before)


REPORT = VerifyReport("toy", 1, 2, 3, 1, 2, 4, 99, 2, 3, (), False, 1.5, ("the released loop",))
DIFFERENCE = Difference(
    0, "A", 3, "frame", "output `y` of `frame`", "late", "[1]: 0.5 instead of 0.25", "the released loop"
)


def test_a_report_as_text():
    assert render(REPORT) == (
        "toy: bit-identical to the released loop\n"
        "  3 events in 2 sessions of 1 walks, 1 resets, 1.5 s by the clocks\n"
        "  2 outputs and 4 state leaves compared, 99 numbers\n"
        "  2 of 3 captures ran"
    )
    random = replace(REPORT, random_weights=True)
    assert render(random).startswith("toy, random weights: bit-identical to the released loop\n")
    assert to_json(random)["random_weights"] and not to_json(REPORT)["random_weights"]
    assert render(replace(REPORT, differences=(DIFFERENCE,))).splitlines()[-1] == (
        "  walk 0, session A, event 3 (`frame`): output `y` of `frame` late is not that of the released loop: "
        "[1]: 0.5 instead of 0.25"
    )


def test_a_report_as_json():
    found = json.loads(json.dumps(to_json(replace(REPORT, differences=(DIFFERENCE,)))))
    assert (found["against"], found["seconds"]) == (["the released loop"], 1.5)
    assert (found["model"], found["equal"], found["events"], found["elements"]) == ("toy", False, 3, 99)
    assert found["differences"] == [
        {
            "walk": 0,
            "session": "A",
            "event": 3,
            "pushed": "frame",
            "what": "output `y` of `frame`",
            "when": "late",
            "difference": "[1]: 0.5 instead of 0.25",
            "against": "the released loop",
        }
    ]
