"""Streaming models with awkward state: each compiles, and two interleaved sessions equal the stock model."""

from pathlib import Path

import pytest

from cadencec.verify import verify_loaded
from tests.plan.models import STEP, compiled, loaded

ONE = "regions: {h: {shape: [2, 4]}}" + STEP


def model(init: str, step: str, more: str = "") -> str:
    """Return a model's code: what `init_state` returns, the lines of `step`, and lines of the class."""
    lines = "\n".join(f"        {line}" for line in step.strip().splitlines())
    head = f"class Model:\n{more}    def init_state(self):\n        return {init}\n\n    def step(self, s, x):\n"
    return f"{head}{lines}\n\ndef build():\n    return Model()\n"


TWO_STAGES = """
regions: {a: {shape: [2, 4]}, b: {shape: [4]}}
stages:
  one: {reads: [b], writes: [b], inputs: {x: {dtype: float32}}, outputs: [y]}
  two: {reads: [a], writes: [a], inputs: {x: {dtype: float32}}, outputs: [z]}
events:
  one: {inputs: {x: [2, 4]}, run: [one]}
  two: {inputs: {x: [2, 4]}, run: [two]}
  both: {inputs: {x: [2, 4]}, run: [one, two]}
  turn: {reset: true}
"""

TIED_ACROSS_STAGES = """
class Model:
    def __init__(self):
        self.stages = {"one": self.one, "two": self.two}

    def init_state(self):
        a = torch.zeros(2, 4)
        return {"a": a, "b": a[1]}

    def one(self, s, x):
        s["b"].add_(x[0])
        return {"b": s["b"]}, s["b"] * x

    def two(self, s, x):
        s["a"].mul_(0.5).add_(x)
        return {"a": s["a"]}, s["a"] + x

def build():
    return Model()
"""

UNTIES_BY_WRITING = """
class Model:
    def __init__(self):
        self.stages = {"one": self.one, "two": self.two}

    def init_state(self):
        return {"a": torch.zeros(4), "b": torch.zeros(4)}

    def one(self, s, x):
        s["b"].add_(x[0])
        return {"b": s["b"]}, s["b"] * x

    def two(self, s, x):
        return {"a": s["b"]}, s["a"] + x

def build():
    return Model()
"""

UNTIES_BY_RETURNING = TIED_ACROSS_STAGES.replace(
    's["a"].mul_(0.5).add_(x)\n        return {"a": s["a"]}', 'return {"a": s["a"] * 0.5 + x}'
)

RETURNS_NOTHING = TIED_ACROSS_STAGES.replace('{"b": s["b"]}', "{}").replace('{"a": s["a"]}', "None")

PASSED_SPEC = """
regions: {h: {shape: [3, 4]}}
stages:
  one: {reads: [], writes: [], inputs: {x: {dtype: float32}}, outputs: [y]}
  two: {reads: [h], writes: [h], inputs: [y], outputs: [z]}
events:
  frame: {inputs: {x: [2, 4]}, run: [one, two]}
  turn: {reset: true}
"""

PASSED = """
class Model:
    def __init__(self):
        self.stages = {"one": self.one, "two": self.two}

    def init_state(self):
        return {"h": torch.zeros(3, 4)}

    def one(self, s, x):
        return {}, x.tanh()[1].expand(3, 4)

    def two(self, s, y):
        return {"h": s["h"] * 0.5 + y}, s["h"] * y

def build():
    return Model()
"""

HAZARDS = {
    "expanded state": (
        ONE,
        model(
            '{"h": torch.zeros(1, 4).expand(2, 4)}',
            'y = x + s["h"]\nreturn {"h": y.mean(0, keepdim=True).tanh().expand(2, 4)}, y',
        ),
    ),
    "unfolded state": (
        "regions: {h: {shape: [3, 2]}}" + STEP,
        model(
            '{"h": torch.zeros(4).unfold(0, 2, 1)}',
            'y = x[:, :3] + s["h"].sum(1)\nreturn {"h": y.flatten()[:4].tanh().unfold(0, 2, 1)}, y',
        ),
    ),
    "permuted state": (
        ONE,
        model(
            '{"h": torch.zeros(4, 2).t()}',
            'y = s["h"] @ x.t()\nreturn {"h": (x + y.sum()).t().contiguous().t()}, y',
        ),
    ),
    "tied leaves, both written in place": (
        "regions: {a: {shape: [2, 4]}, b: {shape: [4]}}" + STEP,
        model(
            '{"a": (a := torch.zeros(2, 4)), "b": a[1]}',
            's["a"].mul_(0.5).add_(x)\ny = s["b"] * x\ns["b"].add_(1)\nreturn s, y + s["a"]',
        ),
    ),
    "interleaved leaves": (
        "regions: {k: {shape: [2, 4]}, v: {shape: [2, 4]}}" + STEP,
        model(
            '{"k": (kv := torch.zeros(2, 4, 2))[..., 0], "v": kv[..., 1]}',
            's["k"].add_(x)\ns["v"].sub_(s["k"])\nreturn s, s["k"] * s["v"]',
        ),
    ),
    "swapped leaves": (
        "regions: {a: {shape: [2, 4]}, b: {shape: [2, 4]}}" + STEP,
        model(
            '{"a": torch.zeros(2, 4), "b": torch.ones(2, 4)}',
            'return {"a": s["b"], "b": s["a"]}, s["a"] + x',
        ),
    ),
    "state that is a slice of itself": (
        "regions: {h: {shape: [3, 4]}}" + STEP,
        model('{"h": torch.zeros(3, 4)}', 'return {"h": torch.cat([s["h"], x])[-3:]}, s["h"][1:] * x'),
    ),
    "a view of the state as output": (
        "regions: {r: {shape: [6, 4]}, pos: {dtype: int64, shape: []}}" + STEP,
        model(
            '{"r": torch.zeros(6, 4), "pos": torch.zeros((), dtype=torch.int64)}',
            's["r"].index_copy_(0, (s["pos"] + torch.arange(2)) % 6, x)\ns["pos"] += 2\nreturn s, s["r"]',
            '    def reset(self, s):\n        s["pos"].zero_()\n        return s\n\n',
        ),
    ),
    "a nest of lists, tuples and None": (
        "regions:\n"
        "  h: {leaves: [layers.0.h.0, layers.0.h.1, layers.1.h.0, layers.1.h.1], shape: [2, 4]}\n"
        "  c: {leaves: [conv], shape: [2, 1], start: absent}" + STEP,
        model(
            '{"layers": [{"h": (torch.zeros(2, 4), torch.ones(2, 4))} for _ in range(2)], "conv": None, "none": {}}',
            """
layers = []
for layer in s["layers"]:
    a, b = layer["h"]
    x = torch.tanh(x + a * b)
    layers.append({"h": (b, x)})
y = x if s["conv"] is None else x * s["conv"]
return {"layers": layers, "conv": x[:, -1:], "none": {}}, y
""",
        ),
    ),
    "None where a tuple comes later": (
        "regions: {h: {leaves: [c.0, c.1], shape: [2, 4], start: absent}}" + STEP,
        model('{"c": None}', 'a, b = s["c"] or (x, x * 2)\nreturn {"c": (b, a + x)}, a * b'),
    ),
    "a bare tensor": (
        "regions: {h: {leaves: [.], shape: [2, 4]}}" + STEP,
        model("torch.zeros(2, 4)", "return s + x, s * 2"),
    ),
    "a bool that a counter stands for": (
        """
        counters: {first: {start: 1, leaf: first}}
        regions: {h: {shape: [2, 4]}}
        stages: {step: {inputs: {x: {dtype: float32}}, outputs: [y]}}
        events:
          frame: {inputs: {x: [2, 4]}, run: [step], do: {first: 0}}
          turn: {reset: true}
        """,
        model(
            '{"h": torch.zeros(2, 4), "first": True}',
            'y = x if s["first"] else x + s["h"]\nreturn {"h": y * 1, "first": False}, y',
        ),
    ),
    "outputs that are no tensors": (
        "regions: {h: {shape: [2, 4]}}" + STEP.replace("[y]", "[y, z, n, e]"),
        model('{"h": torch.zeros(2, 4)}', 'return {"h": s["h"] + x}, {"y": s["h"], "z": None, "n": (3, x[:, ::2])}'),
    ),
    "lazy conjugation": (
        "regions: {h: {shape: [2, 4], dtype: complex64}}" + STEP,
        model(
            '{"h": torch.zeros(2, 4, dtype=torch.complex64)}',
            'h = torch.complex(x, x.sin()) + s["h"]\nreturn {"h": h.conj()}, (h @ s["h"].T).real',
        ),
    ),
    "state that starts as a buffer of the model": (
        ONE,
        model(
            '{"h": self.start}',
            'return {"h": s["h"] + x}, s["h"] * 2',
            "    def __init__(self):\n        self.start = torch.ones(2, 4)\n\n",
        ),
    ),
    "random draws at the start, in a step and in a reset": (
        ONE,
        model(
            '{"h": torch.rand(2, 4)}',
            'return {"h": s["h"] * 0.5 + torch.randn_like(x)}, x + torch.rand(1)',
            '    def reset(self, s):\n        return {"h": s["h"] + torch.rand(2, 1)}\n\n',
        ),
    ),
    "a step under its own inference mode": (
        ONE,
        model('{"h": torch.zeros(2, 4)}', 'return {"h": s["h"] + x}, (s["h"] @ x.t()).softmax(0)').replace(
            "    def step", "    @torch.inference_mode()\n    def step"
        ),
    ),
    "a tensor that repeats itself, passed to the next stage": (PASSED_SPEC, PASSED),
    "leaves tied across stages": (TWO_STAGES, TIED_ACROSS_STAGES),
    "leaves tied across stages until one of them is new": (TWO_STAGES, UNTIES_BY_RETURNING),
    "stages that change in place and return nothing": (TWO_STAGES, RETURNS_NOTHING),
    "a new leaf that is tied to one that is only read": (
        TWO_STAGES.replace("reads: [a]", "reads: [a, b]").replace("a: {shape: [2, 4]}", "a: {shape: [4]}"),
        UNTIES_BY_WRITING,
    ),
}  # fmt: skip


@pytest.mark.parametrize("hazard", HAZARDS)
def test_awkward_state_is_replayed_bit_for_bit(tmp_path: Path, hazard: str) -> None:
    spec, done = compiled(tmp_path, *HAZARDS[hazard])
    with loaded(done.plan) as plan:
        report = verify_loaded(plan, spec, events=60, walks=2)
    assert report.differences == ()
    assert report.captures == report.captures_in_plan
    assert report.resets > 0
