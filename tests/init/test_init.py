"""Init: what it writes compiles and verifies unedited; what no plan can serve is told as `compile` tells it."""

import json
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest
import yaml
from click.testing import CliRunner, Result

from cadence_runtime.errors import CadenceError, ErrorList
from cadencec.cli.app import app
from cadencec.init import Request, init_file, to_json
from cadencec.init.pushes import described
from cadencec.plan.compile import compile_spec
from cadencec.spec.load import load_spec
from cadencec.verify import verify_loaded
from tests.plan.models import loaded

CASES = Path(__file__).resolve().parents[1] / "cases"
REPLAY = ["01", "02", "03", "08", "10", "11", "13", "15", "19", "21", "24", "25"]
REFUSED = ["04", "07", "17"]

Init = Callable[..., dict[str, object]]


def check_holds(spec_path: str, events: int = 60, stages: bool = False) -> int:
    """Compile and verify a spec as it stands, where asked without the released loop; return its keys."""
    spec = load_spec(spec_path)
    plan = compile_spec(spec, embed_weights=True).plan
    report = verify_loaded(loaded(plan), spec, events=events, walks=2, stages=stages)
    assert report.differences == ()
    assert report.events >= min(events, 10)
    return len(plan.captures)


def case(number: str) -> str:
    (path,) = CASES.glob(f"{number}_*.py")
    return f"{path}:build"


@pytest.mark.parametrize("number", REPLAY)
def test_what_is_written_for_a_case_compiles_and_verifies(number: str, tmp_path: Path) -> None:
    report = init_file(Request(case(number), str(tmp_path / "case.yaml")))
    assert check_holds(report.path) == len(report.compiled.plan.captures)


def test_two_sessions_of_one_core(tmp_path: Path) -> None:
    entry = f"{CASES / 'two_sessions_core.py'}:build"
    report = init_file(Request(entry, str(tmp_path / "core.yaml"), pushes=("x:float32[1,4]",), horizon=8))
    check_holds(report.path)
    retained = {region.name: region.retention for region in report.inferred.regions}
    assert retained == {"kv": ("grow", None), "ring": ("ring", 3), "pos": ("fixed", None)}


def test_silero(tmp_path: Path) -> None:
    request = Request(
        "cadencec.models.silero_vad:build", str(tmp_path / "vad.yaml"), ("x:float32[1,512]",), cadence="32 ms"
    )
    report = init_file(request)
    with pytest.raises(CadenceError, match="CAD3424: the released loop has no event `push`"):
        check_holds(report.path)
    check_holds(report.path, stages=True)
    assert report.questions == 0
    assert "cadence: 32 ms" in report.text
    assert "# The model has a released loop (`stock`)" in report.text and "`cadencec verify --stages`" in report.text


@pytest.mark.parametrize("number", REFUSED)
def test_what_no_plan_serves_is_told_as_compile_tells_it(number: str, tmp_path: Path) -> None:
    (spec,) = CASES.glob(f"{number}_*.yaml")
    with pytest.raises(CadenceError) as told:
        compile_spec(load_spec(str(spec)))
    with pytest.raises(CadenceError) as caught:
        init_file(Request(case(number), str(tmp_path / "case.yaml")))
    assert codes(caught.value) == codes(told.value)
    assert str(caught.value).splitlines()[0] == str(told.value).splitlines()[0]
    assert list(tmp_path.iterdir()) == []


def codes(error: CadenceError) -> list[str]:
    return [each.code for each in (error.errors if isinstance(error, ErrorList) else (error,))]


# What is inferred.


@pytest.fixture
def init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Init:
    """Write a model, watch it, and return its spec as data."""
    monkeypatch.chdir(tmp_path)

    def run(step: str, state: str, *pushes: str, holds: bool = True, **options: object) -> dict[str, object]:
        code = f"""
        import torch
        class Model:
            def init_state(self):
                return {state}
            def step(self, s, x, last=False):
                {step}
        def build():
            return Model()
        """
        Path("model.py").write_text(dedent(code))
        request = Request("./model.py:build", "model.yaml", pushes or ("x:float32[2,4]",), force=True, **options)  # type: ignore[arg-type]
        report = init_file(request)
        if holds:
            check_holds(report.path, 20)
        found: dict[str, object] = yaml.safe_load(report.text)
        return found

    return run


def test_growth_asks_for_a_horizon(init: Init) -> None:
    spec = init('return {"h": torch.cat([s["h"], x])}, x + s["h"].sum(0)', '{"h": torch.zeros(0, 4)}', horizon=3)
    assert spec["horizon"] == "3 events"
    assert spec["regions"] == {"h": {"shape": ["t", 4], "clock": "tick", "start": 0, "retain": "grow"}}
    assert "grew all along, over 400 pushes" in Path("model.yaml").read_text()


def test_a_window_of_many_pushes_is_met(init: Init) -> None:
    spec = init('return {"h": torch.cat([s["h"], x])[-101:].clone()}, x', '{"h": torch.zeros(0, 4)}')
    assert spec["regions"] == {"h": {"shape": ["t", 4], "clock": "tick", "start": 0, "retain": {"window": 101}}}


def test_rates_in_ratio_share_a_base(init: Init) -> None:
    step = """up = x.repeat_interleave(3, 0)
                a, b = torch.cat([s["a"], x])[-6:].clone(), torch.cat([s["b"], up])[-9:].clone()
                return {"a": a, "b": b}, x"""
    spec = init(step, '{"a": torch.zeros(0, 4), "b": torch.zeros(0, 4)}', cadence="40 ms")
    assert spec["clocks"] == {"tick": "50 Hz", "tick_2": "150 Hz"}
    assert spec["events"]["push"]["advance"] == {"tick": 2}  # type: ignore[index]


def test_layers_of_one_model_are_one_region(init: Init) -> None:
    spec = init("return [h * 0.5 + x for h in s], x + s[0]", "[torch.zeros(2, 4) for _ in range(3)]")
    assert spec["regions"] == {"state": {"leaves": ["0", "1", "2"], "shape": [2, 4]}}


def test_orders_that_do_not_run_are_guarded(init: Init) -> None:
    step = """if last and s["h"] is None: raise ValueError("nothing to flush")
                return {"h": None if last else x * 1}, x * (3 if last else 2)"""
    spec = init(step, '{"h": None}', "x:float32[2,4] last=false", "x:float32[2,4] last=true")
    assert spec["counters"] == {"last": 0}
    events: dict[str, dict[str, object]] = spec["events"]  # type: ignore[assignment]
    assert events["push_last"]["when"] == "last == 1"
    assert events["push"]["when"] == "last == 0 or last == 1 or last == 2"


def test_a_kind_that_may_not_come_first_is_run_behind_others(init: Init) -> None:
    step = """if last and s["h"] is not None: raise ValueError("begun already")
                if not last and s["h"] is None: raise ValueError("not begun")
                h = x if last else torch.cat([s["h"], x])
                return {"h": h[-30:].clone()}, x * 2"""
    spec = init(step, '{"h": None}', "x:float32[8,4] last=true", "x:float32[1,4] last=false")
    assert spec["regions"]["h"]["retain"] == {"window": 30}  # type: ignore[index]
    assert "horizon" not in spec


def test_growth_that_raises_is_told_and_bounds_the_horizon(init: Init) -> None:
    step = """h = torch.cat([s["h"], x])
                if len(h) > 20: raise ValueError("the table is full")
                return {"h": h}, x + h.sum(0)"""
    spec = init(step, '{"h": torch.zeros(0, 4)}', "x:float32[2,4]", holds=False)
    text = Path("model.yaml").read_text()
    assert "h grew all along, over 10 pushes.\n# The push behind them raised: ValueError: the table is full\n" in text
    assert spec["horizon"] == "10 events"


def test_a_window_that_one_push_fills_asks_how_many_rows_it_brings(init: Init) -> None:
    init('return {"h": torch.cat([s["h"], x.repeat(5, 1)])[-3:].clone()}, x', '{"h": torch.zeros(0, 4)}')
    assert (
        "? full behind one push: how many rows does a push bring? here 4 (`advance`)" in Path("model.yaml").read_text()
    )


def test_integers_ask_for_their_range(init: Init) -> None:
    spec = init('return s, torch.ones(9)[x] + s["h"]', '{"h": torch.zeros(4)}', "x:int64[2,4]<7")
    lower, upper = spec["stages"]["step"]["inputs"]["x"]["range"]  # type: ignore[index]
    assert (lower, 0 < upper < 7) == (0, True)
    assert "? may x be larger than what was pushed" in Path("model.yaml").read_text()


def test_layouts_that_change_for_ever_are_declared_contiguous(init: Init) -> None:
    step = 'return {"h": torch.cat([s["h"].as_strided((1, 4), (4, 1), 0), x, s["h"]])[-2:]}, x'
    spec = init(step, '{"h": torch.zeros(2, 4)}', holds=False)
    assert "regions" in spec


def test_long_runs_are_on_the_meta_device_where_the_model_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = """
    import torch
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = torch.nn.Linear(4, 4).requires_grad_(False)
        def init_state(self):
            return {"h": torch.zeros(0, 4)}
        def step(self, s, x):
            return {"h": torch.cat([s["h"], self.lin(x)])[-50:].clone()}, x
    def build():
        return Model()
    def example_inputs():
        return [torch.ones(1, 4) * i for i in range(5)]
    """
    Path("model.py").write_text(dedent(code))
    report = init_file(Request("./model.py:build"))
    assert report.observations.on_meta
    assert report.inferred.regions[0].retention == ("window", 50)
    assert report.path == "model.yaml"


def test_a_model_without_a_released_loop_is_told_of_none(tmp_path: Path) -> None:
    assert "stock" not in init_file(Request(case("01"), str(tmp_path / "case.yaml"))).text


def test_json_has_what_was_inferred(tmp_path: Path) -> None:
    report = init_file(Request(case("01"), str(tmp_path / "case.yaml")))
    found = to_json(report)
    assert found["clocks"] == {"tick": "1"}
    assert set(found["advance"]) == {push["event"] for push in found["pushes"]}
    assert found["grows"]["regions"] == list(report.inferred.grows)


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    texts = {init_file(Request(case("25"), str(tmp_path / f"{i}.yaml"), name="case")).text for i in range(2)}
    assert len(texts) == 1


@pytest.mark.soak
def test_a_module_with_200_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = """
    import torch
    class Model:
        def init_state(self):
            return [{"k": torch.zeros(0, 4), "v": torch.zeros(0, 4)} for _ in range(100)]
        def step(self, s, x):
            new = []
            for layer in s:
                k, v = torch.cat([layer["k"], x])[-8:].clone(), torch.cat([layer["v"], x])[-8:].clone()
                x = x + torch.softmax(x @ k.T, -1) @ v * 0.1
                new.append({"k": k, "v": v})
            return new, x
    def build():
        return Model()
    """
    Path("model.py").write_text(dedent(code))
    report = init_file(Request("./model.py:build", pushes=("x:float32[1,4]",)))
    assert [(region.name, len(region.leaves)) for region in report.inferred.regions] == [("k", 100), ("v", 100)]
    check_holds(report.path, 20)


# Bad input.


def cadencec(*args: object) -> Result:
    return CliRunner().invoke(app, ["init", *map(str, args)])


MODEL = """
import torch
class Model:
    def init_state(self):
        return {"h": torch.zeros(2, 4)}
    def step(self, s, x):
        BODY
def build():
    return Model()
"""


def refused(tmp_path: Path, body: str, *args: str, extra: str = "") -> str:
    (tmp_path / "model.py").write_text(MODEL.replace("BODY", body) + extra)
    done = cadencec(f"{tmp_path / 'model.py'}:build", "-o", tmp_path / "model.yaml", *args)
    assert done.exit_code in (1, 2) and done.stdout == ""
    assert not (tmp_path / "model.yaml").exists()
    message = done.stderr[done.stderr.index("error ") :]
    return message.replace(str(tmp_path), "HERE")


def test_nothing_is_known_of_the_inputs(tmp_path: Path) -> None:
    assert refused(tmp_path, "return s, x") == (
        "error CAD3414: nothing is known of what `HERE/model.py:build` takes\n"
        "  expected: a function `example_inputs` in its module, which returns what is pushed, push by push\n"
        "  got:      none\n"
        '  hint:     describe the inputs of a push: --push "x:float32[1,16]"\n'
    )


def test_example_inputs_of_different_stages(tmp_path: Path) -> None:
    extra = "def example_inputs():\n    return [torch.ones(2, 4), (torch.ones(2), 3)]\n"
    assert refused(tmp_path, "return s, x", extra=extra) == (
        "error CAD3415: the example inputs are not those of one stage\n"
        "  expected: at least one push, each with as many inputs\n"
        "  got:      2 pushes of [1, 2] inputs\n"
    )


def test_example_inputs_that_are_no_list(tmp_path: Path) -> None:
    assert refused(tmp_path, "return s, x", extra="def example_inputs():\n    return 3\n") == (
        "error CAD3415: the example inputs are not those of one stage\n"
        "  expected: a list of pushes\n"
        "  got:      `int`\n"
    )


def test_example_inputs_that_raise(tmp_path: Path) -> None:
    extra = "def example_inputs():\n    raise OSError('no audio file')\n"
    assert refused(tmp_path, "return s, x", extra=extra) == (
        "error CAD3421: `example_inputs` gives no pushes\n"
        "  got:      OSError: no audio file\n"
        "  at:       model.py:11: raise OSError('no audio file')\n"
    )


def test_a_leaf_that_a_spec_cannot_name(tmp_path: Path) -> None:
    body = 'return {"in proj": x}, x\n    def init_state(self):\n        return {"in proj": torch.zeros(2, 4)}'
    assert refused(tmp_path, body, "--push", "x:float32[2,4]") == (
        "error CAD3420: a clock spec cannot name a leaf of the state\n"
        "  expected: a path such as `layers.0.h`, or `.` for the state itself\n"
        "  got:      `in proj`\n"
        "  hint:     give the state keys without blanks and brackets\n"
    )


def test_a_state_that_changes_its_structure(tmp_path: Path) -> None:
    body = 'return {**s, f"h{len(s)}": x}, x'
    assert refused(tmp_path, body, "--push", "x:float32[2,4]") == (
        "error CAD3416: the state changes its structure\n"
        "  expected: the same leaves after each push: `h`\n"
        "  got:      leaves that come or go: `h1`\n"
        "  hint:     keep the nest, and set leaves that are not there yet to None\n"
    )


def test_lengths_that_nothing_explains(tmp_path: Path) -> None:
    body = 'n = len(s["h"]); return {"h": torch.zeros((3 * n + 1) % 11, 4)}, x'
    assert refused(tmp_path, body, "--push", "x:float32[2,4]") == (
        "error CAD3417: nothing in a clock spec explains the state leaf `h`\n"
        "  expected: one size, or one axis that grows, is kept to a length, or starts again\n"
        "  got:      lengths 2 -> 7, 2 -> 7, 7 -> 0, 2 -> 7, 7 -> 0, 0 -> 1 at one kind of push\n"
        "  hint:     declare the region by hand\n"
    )


def test_rates_that_no_clocks_have(tmp_path: Path) -> None:
    body = 'n = len(x); return {"h": torch.cat([s["h"], x])[-9:].clone(), **GROW}, x'
    (tmp_path / "model.py").write_text(
        MODEL.replace("BODY", body.replace("**GROW", '"g": torch.cat([s["g"], x[:1]])[-9:].clone()')).replace(
            '{"h": torch.zeros(2, 4)}', '{"h": torch.zeros(0, 4), "g": torch.zeros(0, 4)}'
        )
    )
    pushes = ["--push", "x:float32[1,4]", "--push", "x:float32[3,4]"]
    done = cadencec(f"{tmp_path / 'model.py'}:build", "-o", tmp_path / "model.yaml", *pushes)
    assert done.stderr[done.stderr.index("error ") :] == (
        "error CAD3418: no clocks have the rates at which regions move\n"
        "  expected: regions that move in one ratio at every kind of push\n"
        "  got:      `h` by [1, 3] rows, another by [1, 1], at kinds 1 to 2\n"
        "  hint:     split the stage, so that each part moves with its own event\n"
    )


def test_a_model_with_several_stages(tmp_path: Path) -> None:
    extra = "Model.stages = {'a': None}\n"
    assert refused(tmp_path, "return s, x", extra=extra) == (
        "error CAD3419: `HERE/model.py:build` gives its stages by name\n"
        "  expected: a model with one `step`\n"
        "  got:      a model with `stages`, whose order and regions only its author knows\n"
        "  hint:     write the spec by hand, as docs/spec.md teaches: its third model has several stages\n"
    )


def test_a_spec_that_is_there(tmp_path: Path) -> None:
    spec = tmp_path / "model.yaml"
    spec.write_text("mine")
    done = cadencec(f"{tmp_path / 'model.py'}:build", "-o", spec)
    assert (done.exit_code, spec.read_text()) == (2, "mine")
    assert done.stderr == (
        "error CAD9401: there is a file already\n"
        "  expected: a free name\n"
        f"  got:      {spec}\n"
        "  hint:     choose another name with `-o`, or replace it with `--force`\n"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x:float32[1,512", "words like `x:float32[1,16]`, `tok:int64[1,8]<32` or `last=false`"),
        ("", "at least one input"),
        ("x:float33[1]", "a dtype of "),
        ("x:uint8[1]<300", "a bound from 1 to 256, as uint8 has"),
        ("x:int64[1]<0", "a bound from 1 to "),
        ("x:float32[1]<3", "no `<3`, which integers have"),
        ("x:float32[99999,99999]", "at most 268,435,456 elements a tensor"),
        ("x:float32[1] x:float32[1]", "names of their own that a spec may have, unlike `x`"),
        ("min:float32[1]", "names of their own that a spec may have, unlike `min`"),
    ],
)
def test_pushes_that_describe_nothing(text: str, expected: str) -> None:
    with pytest.raises(CadenceError) as caught:
        described([text])
    assert str(caught.value).startswith(f"CAD9402: `--push` describes no inputs\n  expected: {expected}")
    assert str(caught.value).endswith(f"\n  got:      `{text}`")


def test_pushes_of_other_inputs() -> None:
    with pytest.raises(CadenceError, match="the inputs x, as in the first push"):
        described(["x:float32[1]", "y:float32[1]"])


@pytest.mark.parametrize(
    ("body", "extra", "code"),
    [
        ("raise ValueError('no')", "", "CAD3007"),
        ("return s, x", "def build(a): pass\n", "CAD3405"),
        ("return s, x", "def build(): return 3\n", "CAD3407"),
        ("return s, x", "1/0\n", "CAD3402"),
    ],
)
def test_entries_that_are_no_model(tmp_path: Path, body: str, extra: str, code: str) -> None:
    assert refused(tmp_path, body, "--push", "x:float32[2]", extra=extra).startswith(f"error {code}")


def test_an_entry_without_a_function(tmp_path: Path) -> None:
    done = cadencec("./model.py", "-o", tmp_path / "model.yaml")
    assert done.exit_code == 2 and "CAD1" in done.stderr and "entry" in done.stderr


def test_json_and_progress(tmp_path: Path) -> None:
    done = cadencec(case("02"), "-o", tmp_path / "case.yaml", "--json")
    body = json.loads(done.stdout)
    assert (body["schema"], body["questions"], body["keys"]) == ("cadencec.init/1", 1, 6)
    assert body["regions"][0]["retention"] == {"kind": "window", "cap": 8}
    assert body["pushes"] == [{"event": "push", "inputs": {"x": {"dtype": "float32", "sizes": [3, 12]}}}]
    assert done.stderr.splitlines()[:2] == ["load", "watch"]
    report = init_file(Request(case("02"), str(tmp_path / "case.yaml"), force=True))
    assert to_json(report) == {name: value for name, value in body.items() if name != "schema"}
