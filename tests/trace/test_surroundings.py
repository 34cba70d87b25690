"""State that hides where no attribute of the model holds it: named as any other, however late it would show."""

import sys
from pathlib import Path

import pytest

from cadencec.verify import verify_loaded
from tests.plan.models import STEP, compiled, loaded, refused

BODY = "regions: {h: {shape: [2, 4]}}" + STEP

CLASS = """
{head}
class Model:
{more}
    def init_state(self):
        return {{"h": torch.zeros(2, 4)}}

    def step(self, s, x):
        {count}
        return {{"h": s["h"] + x}}, x * (1 if {seen} < 500 else 2)

def build():
    return Model()
"""

HIDDEN = {
    "cadencec_entry_model.N": ("N = 0", "pass", "global N; N += 1", "N"),
    "cadencec_entry_model.G.n": ('G = {"n": 0}', "pass", 'G["n"] += 1', 'G["n"]'),
    "cadencec_entry_model.f.default 0.1": ("def f(x, seen=[]): seen.append(x); return len(seen)", "pass", "", "f(1)"),
    "Model.n": ("", "n = 0", "Model.n += 1", "self.n"),
    "Helper.n": ("class Helper: n = 0", "helper = Helper()", "Helper.n += 1", "Helper.n"),
    "Model.c": ("import itertools", "c = itertools.count()", "", "next(self.c)"),
    "Model.g.n": ("def g():\n    n = 0\n    while True: n += 1; yield n", "g = g()", "", "next(self.g)"),
    "Model.a": ("import array", 'a = array.array("i", [0])', "self.a[0] += 1", "self.a[0]"),
    "Model.k": ("import numpy as np", "k = np.int64(0)", "Model.k += 1", "self.k"),
    "Model.r": ("import random", "r = random.Random(3)", "", "self.r.randrange(400)"),
    "Model.q.queue.1": ("import queue", "q = queue.Queue()", "self.q.put(1)", "self.q.qsize()"),
}


@pytest.mark.parametrize("path", HIDDEN)
def test_a_counter_is_named_wherever_it_hides(tmp_path: Path, path: str) -> None:
    head, more, count, seen = HIDDEN[path]
    code = CLASS.format(head=head, more="    " + more.replace("\n", "\n    "), count=count or "pass", seen=seen)
    message = refused(tmp_path, BODY, code)
    assert message.splitlines()[0] == f"CAD3203: undeclared state: attribute `{path}` changes on every run"


def test_a_counter_in_a_closure(tmp_path: Path) -> None:
    code = """
    import types

    def build():
        n = 0

        def step(s, x):
            nonlocal n
            n += 1
            return {"h": s["h"] + x}, x * (1 if n < 500 else 2)

        return types.SimpleNamespace(init_state=lambda: {"h": torch.zeros(2, 4)}, step=step)
    """
    assert refused(tmp_path, BODY, code) == (
        "CAD3203: undeclared state: attribute `step.n` changes on every run\n"
        "  expected: an attribute that stays, or state that is declared as a leaf\n"
        "  got:      int 0 -> int 1 -> int 2\n"
        "  hint:     return it in the state: a tensor, or an int that a counter of the spec declares and bounds"
    )


def test_an_attribute_that_keeps_what_the_step_puts_out(tmp_path: Path) -> None:
    code = """
    class Model(nn.Module):
        last = None

        def init_state(self):
            return {"h": torch.zeros(2, 4)}

        def step(self, s, x):
            self.last = x * 2 if self.last is None else x * 2 + self.last
            return {"h": s["h"] + x}, self.last

    def build():
        return Model()
    """
    assert refused(tmp_path, BODY, code).startswith(
        "CAD3202: undeclared state: attribute `last` is bound to a tensor that outlives the step\n"
    )


HELD = {
    "bound methods": """
        import types
        class Core(nn.Module):
            def __init__(self):
                super().__init__()
                self.f = nn.Linear(4, 4)
            def init_state(self):
                return {"h": torch.zeros(2, 4)}
            def step(self, s, x):
                return {"h": self.f(x) + s["h"]}, s["h"] * 2
        def build():
            core = Core()
            return types.SimpleNamespace(init_state=core.init_state, step=core.step)
    """,
    "closures": """
        import types
        def build():
            f = nn.Linear(4, 4)
            def init_state():
                return {"h": torch.zeros(2, 4)}
            def step(s, x):
                return {"h": f(x) + s["h"]}, s["h"] * 2
            return types.SimpleNamespace(init_state=init_state, step=step)
    """,
    "methods that close over a module": """
        def build():
            f = nn.Linear(4, 4)
            class Model:
                def init_state(self):
                    return {"h": torch.zeros(2, 4)}
                def step(self, s, x):
                    return {"h": f(x) + s["h"]}, s["h"] * 2
            return Model()
    """,
    "partial functions": """
        import functools, types
        def step(f, s, x):
            return {"h": f(x) + s["h"]}, s["h"] * 2
        def build():
            start = functools.partial(dict, h=torch.zeros(2, 4))
            return types.SimpleNamespace(init_state=start, step=functools.partial(step, nn.Linear(4, 4)))
    """,
    "a hook": """
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.f, scale = nn.Linear(4, 4), torch.full((4,), 3.0)
                self.f.register_forward_hook(lambda module, args, y: y * scale)
            def init_state(self):
                return {"h": torch.zeros(2, 4)}
            def step(self, s, x):
                return {"h": self.f(x) + s["h"]}, s["h"] * 2
        def build():
            return Model()
    """,
    "a mapping that resolves what it holds": """
        from collections.abc import Mapping
        class Settings(Mapping):
            def __init__(self):
                self.scale = torch.full((4,), 2.0)
            def __getitem__(self, key):
                raise RuntimeError("resolved")
            def __iter__(self):
                return iter(["scale"])
            def __len__(self):
                return 1
        class Model:
            def __init__(self):
                self.settings = Settings()
            def init_state(self):
                return {"h": torch.zeros(2, 4)}
            def step(self, s, x):
                return {"h": self.settings.scale * x + s["h"]}, s["h"] * 2
        def build():
            return Model()
    """,
    "a dict with like keys": """
        class Model:
            def __init__(self):
                self.tables = {1: torch.full((4,), 2.0), "1": torch.full((4,), 3.0)}
            def init_state(self):
                return {"h": torch.zeros(2, 4)}
            def step(self, s, x):
                return {"h": self.tables[1] * x + s["h"]}, s["h"] * self.tables["1"]
        def build():
            return Model()
    """,
}  # fmt: skip


@pytest.mark.parametrize("way", HELD)
def test_what_a_model_holds_in_other_ways_are_weights(tmp_path: Path, way: str) -> None:
    spec, done = compiled(tmp_path, BODY, HELD[way])
    assert done.plan.weights
    with loaded(done.plan) as plan:
        assert verify_loaded(plan, spec, events=20, walks=1).differences == ()


def test_looking_at_what_surrounds_a_model_imports_nothing(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.py").write_text("")
    head = """
import functools, typing
T = typing.TypeVar("T")
T.__module__ = "elsewhere"
def f(): pass
f.__module__ = "elsewhere"
G = {"partial": functools.partial(f), "var": T, "list": typing.List[T]}
"""
    code = CLASS.format(head=head, more="", count="pass", seen="1").replace("500", "2")
    compiled(tmp_path, BODY, code)
    assert "elsewhere" not in sys.modules
