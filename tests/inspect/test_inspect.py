"""Inspect: what is in a plan, for people and for programs, without torch."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cadence_runtime.errors import CadenceError
from cadence_runtime.format.writer import write_plan
from cadence_runtime.zstd import compress
from cadencec.inspect import inspect, render, to_json
from cadencec.inspect.render import bytes_text
from tests.format.plans import cuda_example, example

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_plan(tmp_path / "toy.plan", example(), compress=compress)
    return tmp_path / "toy.plan"


@pytest.fixture
def cuda_path(tmp_path: Path) -> Path:
    write_plan(tmp_path / "toy.plan", cuda_example(), compress=compress)
    return tmp_path / "toy.plan"


def test_what_is_in_a_plan(path):
    found = inspect(path)
    assert (found.model, found.target, found.format) == ("toy", "cpu", "1.0")
    assert found.size_bytes == path.stat().st_size
    assert sum(section.stored_bytes for section in found.sections) <= found.size_bytes
    (region,) = found.regions
    assert (region.longest, region.retention, region.demand_bytes) == (4, "grow", 4 * 16)
    assert [(stage.name, stage.keys, stage.longest) for stage in found.stages] == [("init", 1, 1), ("step", 3, 3)]
    assert found.stages[1].scratch_bytes == 256 + 4 * 16
    assert (found.nodes, found.transitions, found.captures) == (4, 7, 4)
    assert (found.weights.count, found.weights.embedded, found.weights.file) == (1, 1, None)
    assert found.arena_bytes == found.arena[-1].offset + found.arena[-1].size_bytes
    assert found.cuda is None


def test_what_is_in_a_cuda_plan(cuda_path):
    cuda = inspect(cuda_path).cuda
    assert cuda is not None
    assert (cuda.compute_capability, cuda.driver, cuda.graph_nodes, cuda.relocations) == ("9.0", 13000, 12, 16)
    assert [(image.library, image.kernels) for image in cuda.images] == [("toy", 1)]
    assert sum(cuda.nodes_by_capture) == 12
    assert (cuda.push_budget_bytes, cuda.ahead_budget_bytes) == (3072 * 3, 3072 * 6)
    assert (cuda.largest_executable_bytes, cuda.executables_bytes) == (3072 * max(cuda.nodes_by_capture), 3072 * 12)


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_the_text_for_people(path):
    text = plain(render(inspect(path)))
    assert text.startswith(f"toy  {path}\n  for cpu, ")
    assert "kv      float32  1xtx4  frame  grow             4    64 B" in text
    assert "  4 configurations, 7 transitions" in text
    assert all(len(line) <= 110 and line == line.rstrip() for line in text.splitlines() if str(path) not in line)


def test_the_text_of_a_cuda_plan(cuda_path):
    text = plain(render(inspect(cuda_path)))
    assert "cuda  compute capability 9.0, driver for CUDA 13.0 or newer\n  12 graph nodes, 16 relocations" in text


def test_the_json_is_plain_and_without_the_path(path):
    body = to_json(inspect(path))
    assert "path" not in body
    assert json.loads(json.dumps(body)) == json.loads(json.dumps(to_json(inspect(path))))
    assert body["environment"] == {"threads": "1", "torch": "2.13.0"}


def test_it_needs_neither_torch_nor_a_device(path):
    code = (
        "import sys; from cadencec.inspect import inspect, render; render(inspect(sys.argv[1]));"
        "sys.exit(', '.join({'torch', 'cuda', 'numpy'} & set(sys.modules)) or 0)"
    )
    paths = os.pathsep.join((str(ROOT), str(ROOT / "runtime_stub")))
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], env={"PYTHONPATH": paths}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_broken_plan_is_not_described(path):
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CadenceError, match="CAD5003"):
        inspect(path)


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 << 30, "5.0 GiB"), (3 << 50, "3072.0 TiB")]
)
def test_sizes(count, text):
    assert bytes_text(count) == text
