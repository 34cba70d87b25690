"""Explanations: what they hold, how they read, and that every spec of this repository is explained at once."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cadence_runtime.errors import TimelineError
from cadencec.explain import Explanation, exit_code, explain, render, to_json
from cadencec.spec import load_spec

ROOT = Path(__file__).resolve().parent.parent.parent
SPECS = sorted((ROOT / "specs").glob("*.yaml"))

CACHE = """\
cadence_spec: 1
model: {name: cache, entry: "model.py:build"}
clocks: {frame: 50 Hz}
regions:
  kv: {leaves: [k, v], shape: [1, 2, t, 8], clock: frame, retain: grow}
stages:
  step: {inputs: [x], outputs: [y]}
events:
  step: {inputs: {x: [1, 1, 16]}, advance: {frame: 1}, run: [step]}
  turn: {reset: true}
"""

Make = Callable[[str], Explanation]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    monkeypatch.chdir(tmp_path)

    def explained(text: str) -> Explanation:
        Path("cache.yaml").write_text(text)
        return explain(load_spec("cache.yaml", {}))

    return explained


def plain(found: Explanation) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", render(found))


def test_the_whole_text_of_a_small_spec(make: Make) -> None:
    assert plain(make(CACHE + "horizon: 6 events\n")) == (
        "cache  cache.yaml\n"
        "clocks: frame 50 Hz; horizon: 6 events\n"
        "7 configurations, 7 of them at rest, 13 pushes: closed, every shape is known\n"
        "\n"
        "regions  768 B in all\n"
        "  region  clock  start  retention  largest  demand\n"
        "  kv      frame      0  grow             6   768 B\n"
        "\n"
        "stages  6 keys\n"
        "  stage  keys  repeats  its key is made of\n"
        "  step      6           kv\n"
        "\n"
        "steady cycle  none: every session ends, or returns to its start by a reset\n"
        "\n"
        "what to do next\n"
        "  horizon: 3 events: keys 6 -> 3, 768 B -> 384 B\n"
        "  compile it: cadencec compile cache.yaml\n"
        "\n"
        "events\n"
        "  event  may happen  when    runs\n"
        "  step   6 pushes    always  step\n"
        "  turn   7 pushes    always  reset\n"
        "\n"
        "who reads and writes what\n"
        "  region  leaf                  read by  written by\n"
        "  kv      float32 [1, 2, t, 8]  step     step"
    )


def test_an_unbounded_spec_is_explained_as_such(make: Make) -> None:
    found = make(CACHE)
    assert exit_code(found) == 2
    text = plain(found)
    assert (
        "unbounded: no largest size can be planned\n"
        "CAD2101: region `kv` grows 1 frame per `step`: 0 -> 1 -> 2\n"
        "  expected: a largest length\n"
        "  got:      a cycle that can be repeated for ever: `step`\n"
        "  at:       cache.yaml:5:3\n"
        "  hint:     retain: {window: ...} or horizon: 60 s\n"
    ) in text
    assert "  horizon: 10 s: 500 keys, 64 kB\n" in text
    assert "  try one: cadencec explain cache.yaml --set horizon='10 s'\n" in text


def test_a_search_that_meets_its_limit_is_explained_too(make: Make) -> None:
    make(CACHE + "horizon: 6 events\n")
    found = explain(load_spec("cache.yaml", {}), limit=5)
    assert found.problem is not None and found.problem.code == "CAD2102"
    assert "not proven to be bounded: no largest size can be planned\nCAD2102: more than 5 " in plain(found)
    assert explain(load_spec("cache.yaml", {}), limit=7).problem is None


def test_a_spec_that_contradicts_itself_is_not_explained(make: Make) -> None:
    with pytest.raises(TimelineError) as caught:
        make(CACHE.replace("frame: 1}", "frame: 1 // 0}"))
    assert caught.value.code == "CAD2002"
    assert str(caught.value.at).startswith("cache.yaml:9:3")


def test_notes_have_their_place(make: Make) -> None:
    found = make(CACHE.replace("  turn:", "  late: {when: 1 == 0}\n  turn:") + "horizon: 2 events\n")
    assert [(note.code, note.at) for note in found.notes] == [("CAD2301", "cache.yaml:10:3")]
    assert "worth a look\n  CAD2301: event `late` can never happen" in plain(found)


def test_stock_sizes_stand_beside_the_demand(make: Make) -> None:
    sized = CACHE.replace("kv: {", "kv: {stock_bytes: 1000 * 1000, ", 1)
    found = make(sized + "horizon: 6 events\n")
    assert "largest  demand  stock" in plain(found)
    assert to_json(found)["regions"][0]["stock_bytes"] == 1_000_000


def test_json_has_everything_and_only_plain_values(make: Make) -> None:
    found = to_json(make(CACHE + "horizon: 6 events\n"))
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert (found["configurations"], found["keys"], found["demand_bytes"]) == (7, 6, 768)
    assert found["clocks"] == [{"name": "frame", "rate_hz": "50"}]
    assert found["regions"][0]["shape"] == [1, 2, "t", 8]
    assert found["levers"][0]["edit"] == "horizon: 3 events"
    assert found["problem"] is None


def test_json_of_an_unbounded_spec_has_the_problem(make: Make) -> None:
    found = to_json(make(CACHE))
    assert (found["configurations"], found["keys"], found["path"]) == (None, None, None)
    assert found["problem"]["code"] == "CAD2101"
    assert [lever["edit"] for lever in found["levers"]] == ["horizon: 10 s", "horizon: 30 s", "horizon: 60 s"]


def test_the_first_screen_of_the_live_rule() -> None:
    found = explain(load_spec(str(ROOT / "specs" / "minicpm_o45.yaml"), {}))
    text = plain(found)
    for line in (
        "1265 configurations, 56 of them at rest, 1593 pushes: closed, every shape is known",
        "  estimator.att  mel       300  window 400       400   262 MB  2.23 GB",
        "  encode   1122               conformer.att, conformer.cnn, tok, final",
        "  denoise   993  x 5 (euler)  estimator.att, estimator.cnn, mel",
        "  for ever  unit        encode(28 0 at 400), denoise(50 at 400), vocode(50 0 at 8/3840/3840)",
        "  choose: {n: 25..25} in `first`, `end`: keys 2167 -> 13",
    ):
        assert line in text.splitlines(), line
    head = text[: text.index("\nevents\n")].splitlines()
    assert len(head) <= 40, "what matters fits one screen"
    assert text.isascii()


def test_a_long_round_is_cut_in_the_middle(make: Make) -> None:
    found = make(
        CACHE.replace("retain: grow", "retain: {window: 30}").replace("turn: {reset: true}", "stop: {when: 1 == 0}")
    )
    lines = plain(found).splitlines()
    rows = lines[lines.index("steady cycle  20 ms a round") + 2 :]
    assert rows[:9] == [
        "  once      step       step(at 0)",
        "  once      step       step(at 1)",
        "  once      step       step(at 2)",
        "  once      step       step(at 3)",
        "  once      (23 more)",
        "  once      step       step(at 27)",
        "  once      step       step(at 28)",
        "  once      step       step(at 29)",
        "  for ever  step       step(at 30)",
    ]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.stem)
def test_every_spec_is_explained_in_two_seconds(spec: Path) -> None:
    """Of the processor: a busy machine is no fault."""
    began = time.process_time()
    found = explain(load_spec(str(spec), {}))
    assert time.process_time() - began < 2
    assert (found.problem is None) == (spec.stem != "cosyvoice2")
    assert render(found) and to_json(found)


def test_explaining_takes_little_memory_and_no_torch() -> None:
    code = (
        "import re, sys\n"
        "from cadencec.explain import explain, render\n"
        "from cadencec.spec import load_spec\n"
        f"render(explain(load_spec({str(ROOT / 'specs' / 'minicpm_o45.yaml')!r}, {{}})))\n"
        "assert 'torch' not in sys.modules\n"
        # Not getrusage: its peak counts the process that started this one.
        "print(int(re.search(r'VmHWM:\\s+(\\d+) kB', open('/proc/self/status').read())[1]) // 1024)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 300
