"""Diff: what is news between two plans or two specs, what is not, and what cannot be compared."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cadence_runtime.errors import CadenceError
from cadence_runtime.format.file import read_table
from cadence_runtime.format.plan import Plan
from cadence_runtime.format.source import MemorySource
from cadence_runtime.format.writer import write_plan
from cadence_runtime.zstd import compress
from cadencec.cli.app import app
from cadencec.diff import Report, Request, diff_files, exit_code, render, to_html, to_json
from cadencec.diff.gates import parse_gate
from tests.format.plans import cuda_example, example

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = sorted((ROOT / "plans").glob("growing-kv-cat.*.plan"))
SPEC = ROOT / "tests" / "cases" / "01_growing_kv_cat.yaml"

Diff = Callable[..., Report]


@pytest.fixture
def diff(tmp_path: Path) -> Diff:
    """Write two plans and compare them."""

    def run(before: Plan, after: Plan, **options: Any) -> Report:
        sides = [str(tmp_path / f"{name}.plan") for name in "ab"]
        for path, plan in zip(sides, (before, after), strict=True):
            write_plan(path, plan, compress=compress)
        return diff_files(Request(*sides, **options))

    return run


def changes(report: Report) -> dict[str, list[tuple[str, str | None, str | None]]]:
    parts = report.diff.parts
    return {part.name: [(c.name, c.before, c.after) for c in part.changes] for part in parts if part.changes}


def measure(report: Report, name: str) -> tuple[int | None, int | None]:
    found = next(each for each in report.diff.measures if each.name == name)
    return found.before, found.after


def relocated(plan: Plan, by: int = 4096) -> Plan:
    """Move everything behind the weights."""
    sections = tuple(s if s.name == "weights" else replace(s, offset=s.offset + by) for s in plan.sections)
    return replace(plan, sections=sections)


# What is news.


def test_a_plan_is_the_same_as_itself(diff: Diff) -> None:
    report = diff(example(), example())
    assert not report.diff.differs
    assert changes(report) == {}
    assert exit_code(report, Request("a", "b", exit_code=True)) == 0
    assert render(report.diff, ()).startswith("\x1b[1mtoy: same\x1b[0m, for cpu\n")


def test_more_keys_and_more_state(diff: Diff) -> None:
    report = diff(example(steps=3), example(steps=5))
    found = changes(report)
    assert [name for name, _, _ in found["keys"]] == ["step(x=[1,1,4], kv=[1,4,4])", "step(x=[1,1,4], kv=[1,5,4])"]
    assert found["demand"] == [("kv", "64 bytes", "96 bytes")]
    assert measure(report, "keys") == (4, 6)
    assert exit_code(report, Request("a", "b")) == 0
    assert exit_code(report, Request("a", "b", exit_code=True)) == 3


def test_what_only_moved_is_news_to_those_who_ask(diff: Diff) -> None:
    plans = example(), relocated(example())
    assert not diff(*plans).diff.differs
    asked = diff(*plans, offsets=True)
    assert {name for name, _, _ in changes(asked)["offsets"]} == {
        "section constants", "section state", "section io", "section scratch",
    }  # fmt: skip


def test_weights_by_their_digests_numerics_and_provenance(diff: Diff) -> None:
    before, after = example(), example()
    weight = replace(after.weights[0], sha256="ab" * 32, blob=None)
    origin = replace(after.provenance, compiler="9.9", numerics=(("threads", "2"),))
    report = diff(replace(example(embed=False)), replace(example(embed=False), weights=(weight,), provenance=origin))
    found = changes(report)
    assert [(name, after_) for name, _, after_ in found["weights"]] == [
        (before.weights[0].name, f"float32 [4] {'ab' * 8}")
    ]
    assert ("compiler", before.provenance.compiler, "9.9") in found["provenance"]
    assert "numerics" in found


def test_launches_of_a_cuda_plan(diff: Diff) -> None:
    before = cuda_example()
    part = before.cuda
    assert part is not None
    first, *rest = part.graphs
    node, *others = first.nodes
    wider = replace(first, nodes=(node._replace(grid=(4, 1, 1)), *others))
    report = diff(before, replace(before, cuda=replace(part, graphs=(wider, *rest))))
    shapes = "_Z3addPfi: grid 2x1x1 block 128x1x1 -> grid 4x1x1 block 128x1x1"
    wanted = f"3 launches: 1 with another launch shape, {shapes}"
    assert changes(report) == {"captures": [("init()", "3 launches", wanted)]}
    other = replace(first, nodes=(node._replace(params=bytes(8) + b"\x11\0\0\0"), *others))
    report = diff(before, replace(before, cuda=replace(part, graphs=(other, *rest))))
    assert changes(report) == {"captures": [("init()", "3 launches", "3 launches: 1 with other parameters")]}


def test_ops_of_a_cpu_plan_without_their_source_lines(diff: Diff) -> None:
    before = example()
    moved = tuple(replace(t, ops=tuple(replace(op, source="other.py:1") for op in t.ops)) for t in before.tapes)
    assert not diff(before, replace(before, tapes=moved)).diff.differs


def test_a_cpu_and_a_cuda_plan_of_one_model() -> None:
    cpu, cuda = GOLDEN
    report = diff_files(Request(str(cpu), str(cuda)))
    assert not report.diff.differs
    assert [part.name for part in report.diff.parts if part.why_not] == [
        "arena", "captures", "images", "library", "environment",
    ]  # fmt: skip
    assert "not compared: one is for cpu, the other for cuda" in render(report.diff, ())


def test_specs(tmp_path: Path) -> None:
    text = SPEC.read_text()
    other = tmp_path / "other.yaml"
    other.write_text(text.replace("horizon: 6 events", "horizon: 4 events"))
    report = diff_files(Request(str(SPEC), str(other)))
    assert other.read_text() != text
    assert changes(report)["clocks"] == [("horizon", "6 events", "4 events")]
    before, after = measure(report, "keys")
    assert before is not None and after is not None and before > after
    assert exit_code(report, Request("a", "b", exit_code=True)) == 3


def test_a_spec_that_proves_nothing_is_compared_by_what_it_declares(tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(SPEC.read_text().replace("horizon: 6 events", ""))
    report = diff_files(Request(str(SPEC), str(other)))
    assert changes(report)["clocks"] == [("horizon", "6 events", None)]
    assert [part.name for part in report.diff.parts if part.why_not] == ["keys", "demand"]
    assert [fault.code[:4] for fault in report.diff.faults] == ["CAD2"]
    assert exit_code(report, Request("a", "b")) == 0


# Gates.


def test_gates(diff: Diff) -> None:
    report = diff(
        example(steps=3), example(steps=5), fail_on=("keys", "keys,+1", "keys,+50%", "changed:numerics", "state,+1MiB")
    )
    assert [verdict.passed for verdict in report.verdicts] == [False, False, True, True, True]
    assert report.verdicts[0].why == "4 -> 6, at most 4"
    assert exit_code(report, Request("a", "b")) == 3
    assert "FAIL" in render(report.diff, report.verdicts)


def test_a_gate_on_what_cannot_be_compared_fails() -> None:
    report = diff_files(Request(*map(str, GOLDEN), fail_on=("changed:captures", "kernels")))
    assert [(v.passed, v.why) for v in report.verdicts] == [
        (False, "not compared: one is for cpu, the other for cuda"),
        (False, "not known of both"),
    ]


def test_a_share_is_exact() -> None:
    gate = parse_gate("memory,+0.1%")
    assert (gate.allowed, gate.is_share) == (Fraction(1, 1000), True)
    assert parse_gate("state,+2KiB").allowed == 2048


@pytest.mark.parametrize("text", ["mem", "memory,5%", "memory,+5%%", "changed:memory", "changed:", "", "memory,-5%"])
def test_what_is_no_gate(text: str) -> None:
    with pytest.raises(CadenceError) as caught:
        parse_gate(text)
    assert str(caught.value) == (
        "CAD9303: `--fail-on` takes a measure or a part\n"
        "  expected: MEASURE, MEASURE,+5% or MEASURE,+10MiB with one of memory, state, scratch, weights, constants, "
        "plan, keys, captures, nodes, kernels, images; or changed:PART with one of clocks, counters, regions, stages, "
        "events, keys, demand, arena, captures, images, library, weights, constants, numerics, environment, "
        "provenance, offsets\n"
        f"  got:      `{text}`"
    )


# Bad input, as a user meets it.


def cadencec(*args: object) -> Result:
    return CliRunner().invoke(app, ["diff", *map(str, args)])


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    for name, steps in (("a.plan", 3), ("b.plan", 4)):
        write_plan(tmp_path / name, example(steps=steps), compress=compress)
    return tmp_path / "a.plan", tmp_path / "b.plan"


def test_a_plan_and_a_spec(two: tuple[Path, Path]) -> None:
    done = cadencec(two[0], SPEC)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        "error CAD9302: a plan and a spec cannot be compared\n"
        f"  expected: another plan, like `{two[0]}`\n"
        "  got:      a spec\n"
        f"  at:       {SPEC}\n"
        "  hint:     compile the spec, or compare it with the spec that the plan was compiled from\n"
    )


def test_plans_of_two_models(two: tuple[Path, Path], tmp_path: Path) -> None:
    write_plan(tmp_path / "c.plan", example(name="other"), compress=compress)
    done = cadencec(two[0], tmp_path / "c.plan")
    assert done.exit_code == 3
    assert done.stderr == (
        "error CAD6902: the plans are of different models\n"
        f"  expected: `toy`, as in {two[0]}\n"
        "  got:      `other`\n"
        f"  at:       {tmp_path / 'c.plan'}\n"
        "  hint:     compare them nevertheless with `--any-model`\n"
    )
    assert cadencec(two[0], tmp_path / "c.plan", "--any-model").exit_code == 0


@pytest.mark.parametrize("content", [b"\x7fELF\0\0", b"# A page\n\ntext: [\n"])
def test_a_file_that_is_neither(two: tuple[Path, Path], tmp_path: Path, content: bytes) -> None:
    (tmp_path / "page").write_bytes(content)
    done = cadencec(two[0], tmp_path / "page")
    assert done.exit_code == 2
    assert done.stderr == (
        "error CAD9301: the file is neither a plan nor a clock spec\n"
        "  expected: a file that `cadencec compile` wrote, or a spec in YAML\n"
        "  got:      another kind of file\n"
        f"  at:       {tmp_path / 'page'}\n"
    )


def test_a_page_in_the_place_of_a_plan(two: tuple[Path, Path]) -> None:
    before = two[1].read_bytes()
    done = cadencec(*two, "--html", two[1])
    assert done.exit_code == 2
    assert done.stderr == (
        "error CAD9304: the page would replace a file that is compared\n"
        f"  at:       {two[1]}\n"
        "  hint:     choose another name for `--html`\n"
    )
    assert two[1].read_bytes() == before


def test_a_missing_file_and_a_folder(two: tuple[Path, Path], tmp_path: Path) -> None:
    assert "CAD9201" in cadencec(two[0], tmp_path / "none.plan").stderr
    (tmp_path / "folder.plan").mkdir()
    assert "CAD9202" in cadencec(two[0], tmp_path / "folder.plan").stderr


def test_a_damaged_plan_is_compared_as_far_as_it_can_be_read(two: tuple[Path, Path]) -> None:
    data = bytearray(two[1].read_bytes())
    extent = read_table(MemorySource(bytes(data)))["tapes"]
    data[extent.offset + 5] ^= 1
    two[1].write_bytes(data)
    done = cadencec(*two)
    assert done.exit_code == 1
    assert "CAD5007" in done.stdout and f"captures     not compared: {two[1]} is damaged" in done.stdout
    assert "keys         1 added, 4 same" in done.stdout
    body = json.loads(cadencec(*two, "--json").stdout)
    assert (body["after"]["unread"], body["after"]["faults"][0]["code"]) == (["tapes"], "CAD5007")


def test_a_plan_of_which_nothing_can_be_read(two: tuple[Path, Path]) -> None:
    two[1].write_bytes(two[1].read_bytes()[:100])
    done = cadencec(*two)
    assert (done.exit_code, done.stdout) == (3, "")
    assert done.stderr.startswith("error CAD5")


@pytest.mark.parametrize("section", ["nodes", "transitions", "tapes", "graphs", "blob-table"])
def test_every_section_may_be_damaged(two: tuple[Path, Path], section: str) -> None:
    data = bytearray(two[1].read_bytes())
    extent = read_table(MemorySource(bytes(data)))[section]
    if extent.size_bytes:
        data[extent.offset] ^= 0xFF
        two[1].write_bytes(data)
        assert cadencec(*two).exit_code == 1


# What is written.


def test_json_and_page(two: tuple[Path, Path], tmp_path: Path) -> None:
    done = cadencec(*two, "--json", "--html", tmp_path / "d.html", "--fail-on", "keys")
    body = json.loads(done.stdout)
    assert done.exit_code == 3
    assert (body["schema"], body["kind"], body["differs"]) == ("cadencec.diff/1", "plan", True)
    assert body["measures"]["keys"] == {"before": 4, "after": 5, "unit": None}
    assert body["parts"]["keys"]["changes"][0]["kind"] == "added"
    figures = {"before": 4, "after": 5, "at_most": 4, "changes": None}
    assert body["gates"] == [{"gate": "keys", "passed": False, "why": "4 -> 5, at most 4", **figures}]
    page = (tmp_path / "d.html").read_text()
    assert page.startswith("<!doctype html>") and "http" not in page and "<script" not in page
    assert "step(x=[1,1,4], kv=[1,4,4])" in page
    report = diff_files(Request(str(two[0]), str(two[1])))
    assert to_html(report) == to_html(report)
    assert to_json(report.diff, ()) == to_json(report.diff, ())


def test_names_in_a_page_are_text(two: tuple[Path, Path], tmp_path: Path) -> None:
    write_plan(tmp_path / "c.plan", example(name="<b>toy</b>"), compress=compress)
    page = to_html(diff_files(Request(str(two[0]), str(tmp_path / "c.plan"), any_model=True)))
    assert "<b>toy" not in page and "&lt;b&gt;toy" in page


def test_many_changes_are_listed_on_request(tmp_path: Path) -> None:
    for name, steps in (("a.plan", 3), ("b.plan", 40)):
        write_plan(tmp_path / name, example(steps=steps), compress=compress)
    short, full = (cadencec(tmp_path / "a.plan", tmp_path / "b.plan", *more).stdout for more in ([], ["--full"]))
    assert "and 25 more; `--full` lists them" in short
    assert "kv=[1,40,4]" in full and "kv=[1,40,4]" not in short


def test_neither_torch_nor_a_device_is_touched(two: tuple[Path, Path]) -> None:
    code = (
        "import sys; from cadencec.cli.app import app; from click.testing import CliRunner\n"
        f"done = CliRunner().invoke(app, ['diff', {str(two[0])!r}, {str(two[1])!r}])\n"
        "assert done.exit_code == 0, done\n"
        "print(sorted({'torch', 'numpy', 'networkx', 'pydantic', 'jinja2', 'cuda', 'rich'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
