"""The page of a plan: what it shows, that it needs nothing else, and that a browser shows it well."""

import re
import shutil
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from cadence_runtime.check import open_plan
from cadence_runtime.format.plan import Plan
from cadence_runtime.format.writer import write_plan
from cadence_runtime.zstd import compress
from cadencec.cli.app import app
from cadencec.report import Request, report_file
from cadencec.report.charts import bars, state_chart, strip, ticks
from cadencec.report.facts import Moment, family, report_facts
from cadencec.report.page import page as page_text
from tests.format.plans import cuda_example, example

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = sorted((ROOT / "plans").glob("*.plan"))
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
VOID = {"meta"}

PLANS = {"cpu": example(), "cuda": cuda_example(), "long": example(steps=60)}


def cadencec(*args: object) -> Result:
    return CliRunner().invoke(app, ["report", *map(str, args)])


@pytest.fixture(params=list(PLANS))
def page(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return written(PLANS[request.param], tmp_path).read_text()


def written(plan: Plan, folder: Path) -> Path:
    write_plan(folder / "toy.plan", plan, compress=compress)
    report_file(Request(str(folder / "toy.plan"), str(folder / "toy.html")))
    return folder / "toy.html"


class Balanced(HTMLParser):
    """Sees that every element is closed, and in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def pictures(page: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(svg) for svg in re.findall("<svg.*?</svg>", page, re.DOTALL)]  # noqa: S314 - our own


def test_the_page_needs_nothing_else(page: str) -> None:
    assert page.startswith("<!doctype html>\n")
    assert not re.search(r"https?:|<script|<link|<img|@import|url\((?!#)", page)
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []


def test_every_picture_has_words_and_a_way_in_for_the_keyboard(page: str) -> None:
    found = pictures(page)
    assert len(found) >= 7
    for svg in found:
        title, about = svg.find("title"), svg.find("desc")
        assert title is not None and title.text and about is not None and about.text
        assert svg.get("aria-labelledby") == f"{title.get('id')} {about.get('id')}"
        assert svg.find(".//*[@tabindex='0']") is not None
        for mark in svg.iterfind(".//*[@tabindex='0']"):
            assert mark.find("title") is not None
    ids = re.findall(' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_every_axis_has_a_name(page: str) -> None:
    charts = [svg for svg in pictures(page) if svg.find(".//*[@class='grid']") is not None]
    assert charts
    for svg in charts:
        names = [text.text for text in svg.iterfind(".//*[@class='axis']")]
        assert len(names) == 2 and all(names)


def test_what_it_says_of_the_toy(tmp_path: Path) -> None:
    text = written(example(), tmp_path).read_text()
    assert "<dt>keys captured</dt><dd>4</dd>" in text
    assert "<dt>state a session</dt><dd>64 B</dd>" in text
    assert "Every session ends: there is no steady cycle." in text
    assert text.count("<summary>") == 6


def test_the_same_plan_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    assert written(example(), first).read_bytes() == written(example(), second).read_bytes()


def test_names_are_text(tmp_path: Path) -> None:
    plan = example(name="<b>toy</b>")
    assert "<b>toy" not in written(plan, tmp_path).read_text()


def test_many_keys_stay_small(tmp_path: Path) -> None:
    page = written(example(steps=1000), tmp_path)
    assert page.stat().st_size < 200_000
    text = page.read_text()
    assert "977 more states are folded" in text
    assert "and 941 more keys" in text


@pytest.mark.parametrize("plan", GOLDEN, ids=lambda path: path.name)
def test_golden_plans(plan: Path, tmp_path: Path) -> None:
    done = cadencec(plan, "-o", tmp_path / "page.html", "--json")
    assert done.exit_code == 0, done.stderr
    text = (tmp_path / "page.html").read_text()
    found = open_plan(plan)
    assert f"<dd>{len(found.captures)}</dd>" in text and found.provenance.model in text


def test_what_the_released_code_allocates(tmp_path: Path) -> None:
    spec = tmp_path / "case.yaml"
    source = (ROOT / "tests" / "cases" / "01_growing_kv_cat.yaml").read_text()
    module = ROOT / "tests" / "cases" / "01_growing_kv_cat.py"
    changed = source.replace("./01_growing_kv_cat.py", str(module)).replace("kv: {", "kv: {stock_bytes: 65536, ")
    assert changed.count("stock_bytes") == 1
    spec.write_text(changed)
    plan = tmp_path / "case.plan"
    compiled = CliRunner().invoke(app, ["compile", str(spec), "-o", str(plan), "--embed-weights"])
    assert compiled.exit_code == 0, compiled.stderr
    assert cadencec(plan, "-o", tmp_path / "page.html", "--spec", spec).exit_code == 0
    assert "The released code allocates 65.5 kB" in (tmp_path / "page.html").read_text()
    done = cadencec(plan, "-o", tmp_path / "page.html", "--spec", ROOT / "specs" / "silero_vad.yaml")
    assert done.exit_code == 3
    assert re.sub("[0-9a-f]{64}", "DIGEST", done.stderr) == (
        "error CAD6903: the spec is not the one that the plan was compiled from\n"
        "  expected: DIGEST\n"
        "  got:      DIGEST\n"
        f"  at:       {ROOT / 'specs' / 'silero_vad.yaml'}\n"
        "  hint:     name the spec of this plan, or leave `--spec` out\n"
    )


# Bad input.


def test_a_header_with_a_spec(tmp_path: Path) -> None:
    write_plan(tmp_path / "toy.plan", example(), compress=compress)
    done = cadencec(tmp_path / "toy.plan", "--c-header", "--spec", "none.yaml", "-o", tmp_path / "toy.h")
    assert (done.exit_code, (tmp_path / "toy.h").exists()) == (2, False)
    assert done.stderr == (
        "error CAD9306: a header says nothing of a spec\n"
        "  got:      `--spec none.yaml`\n"
        "  hint:     leave `--spec` out: it is for the page\n"
    )


def test_a_report_in_the_place_of_its_plan(tmp_path: Path) -> None:
    plan = tmp_path / "toy.plan"
    write_plan(plan, example(), compress=compress)
    before = plan.read_bytes()
    done = cadencec(plan, "-o", plan)
    assert done.exit_code == 2
    assert done.stderr == (
        "error CAD9305: the report would replace what it reads\n"
        f"  at:       {plan}\n"
        "  hint:     choose another name with `-o`\n"
    )
    assert plan.read_bytes() == before


def test_no_plan_a_damaged_one_and_no_folder(tmp_path: Path) -> None:
    assert "CAD9201" in cadencec(tmp_path / "none.plan", "-o", tmp_path / "a.html").stderr
    (tmp_path / "text.plan").write_text("no plan")
    assert "CAD5001" in cadencec(tmp_path / "text.plan", "-o", tmp_path / "a.html").stderr
    write_plan(tmp_path / "toy.plan", example(), compress=compress)
    assert "CAD9204" in cadencec(tmp_path / "toy.plan", "-o", tmp_path / "no" / "a.html").stderr
    data = bytearray((tmp_path / "toy.plan").read_bytes())
    data[900] ^= 1
    (tmp_path / "toy.plan").write_bytes(data)
    done = cadencec(tmp_path / "toy.plan", "-o", tmp_path / "a.html")
    assert (done.exit_code, "CAD50" in done.stderr) == (3, True)
    assert not (tmp_path / "a.html").exists()


@pytest.mark.parametrize("more", [(), ("--c-header",)])
def test_a_damaged_weight_is_noticed(tmp_path: Path, more: tuple[str, ...]) -> None:
    write_plan(tmp_path / "toy.plan", example(), compress=compress)
    data = (tmp_path / "toy.plan").read_bytes()
    (tmp_path / "toy.plan").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    done = cadencec(tmp_path / "toy.plan", *more, "-o", tmp_path / "a.out")
    assert done.exit_code == 3
    assert done.stderr.startswith(
        "error CAD5007: the digest of blob 1 does not match: the plan was altered or damaged\n"
    )
    assert not (tmp_path / "a.out").exists()


def test_a_report_to_stdout_is_refused(tmp_path: Path) -> None:
    write_plan(tmp_path / "toy.plan", example(), compress=compress)
    done = cadencec(tmp_path / "toy.plan", "-o", "-")
    assert done.exit_code == 2
    assert done.stderr == (
        "error CAD9206: nothing is written to stdout\n"
        "  expected: a file\n"
        "  got:      `-`\n"
        "  hint:     name a file; one of this name is `./-`\n"
    )


def test_torch_is_not_touched(tmp_path: Path) -> None:
    write_plan(tmp_path / "toy.plan", example(), compress=compress)
    code = (
        "import sys; from cadencec.report import Request, report_file\n"
        f"report_file(Request({str(tmp_path / 'toy.plan')!r}, {str(tmp_path / 'a.html')!r}))\n"
        "print(sorted({'torch', 'cuda', 'pydantic'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# Geometry and words.


def test_ticks_are_round_and_reach_the_top() -> None:
    assert ticks(0) == [0.0]
    assert ticks(10) == [0.0, 2.5, 5.0, 7.5, 10.0]
    for top in (1, 7, 33, 999, 123_456_789):
        found = ticks(top)
        assert found[0] == 0 and 3 <= len(found) <= 9 and found[-1] <= top < 2 * found[-1]


def test_areas_stand_on_one_another() -> None:
    moments = [Moment("start", "start", (0, 10)), Moment("frame", "1 s", (30, 10))]
    chart = state_chart(["a", "b"], moments, 40)
    (first, second) = (area.points.split() for area in chart.areas)
    assert set(first[:4]) == set(second[4:]), "the lower edge of the second is the upper edge of the first"
    assert [tick.text for tick in chart.x_ticks] == ["start", "1 s"]


def test_bars_and_strips_keep_proportion() -> None:
    chart = bars([("a", 10, "10"), ("b", 5, "5")], "bytes")
    assert chart.rects[1].width == pytest.approx(chart.rects[0].width / 2, rel=0.01)
    parts = strip([("a", 75), ("b", 25)])
    assert parts[0].width == pytest.approx(3 * parts[1].width, rel=0.01)
    assert parts[1].x == pytest.approx(parts[0].width, rel=0.01)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n", "matrix product"),
        ("cudnn_infer_ampere_scudnn_winograd_128x128", "convolution"),
        ("void at::native::vectorized_elementwise_kernel<4>", "element by element"),
        ("CatArrayBatchedCopy_contig", "copy and concatenation"),
        ("Memset", "fill"),
        ("aten::addmm", "matrix product"),
        ("aten::slice.Tensor", "view"),
        ("aten::tanh", "element by element"),
        ("triton_poi_0", "other"),
    ],
)
def test_families(name: str, expected: str) -> None:
    assert family(name) == expected


def test_coverage_is_counted(tmp_path: Path) -> None:
    write_plan(tmp_path / "toy.plan", example(), compress=compress)
    facts = report_facts(str(tmp_path / "toy.plan"), {})
    assert facts.covered == len(facts.timeline.transitions) > 0
    assert "their captures: 100 %" in page_text(facts)
    assert f"their captures: {100 / facts.covered:.1f}"[:-1] in page_text(replace(facts, covered=1))


def test_facts_of_a_session_that_ends(tmp_path: Path) -> None:
    write_plan(tmp_path / "toy.plan", example(), compress=compress)
    facts = report_facts(str(tmp_path / "toy.plan"), {})
    assert facts.round_at is None
    assert [moment.sizes for moment in facts.moments] == [(16,), (32,), (48,), (64,)]
    assert sum(key.launches for key in facts.keys) == sum(count for _, count in facts.families)
    assert replace(facts, moments=()).keys == facts.keys


# A browser.


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the path")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 1440])
@pytest.mark.parametrize("name", list(PLANS))
def test_a_browser_shows_it_without_errors_and_without_overflow(
    tmp_path: Path, name: str, width: int, scheme: str
) -> None:
    page = written(PLANS[name], tmp_path)
    # A window is never narrower than 500 px, a frame may be. The page has no script; these are the test's.
    probe = (
        "<script>parent.postMessage([document.documentElement.scrollWidth, innerWidth].join(' '), '*')</script></body>"
    )
    page.write_text(page.read_text().replace("</body>", probe))
    frame = tmp_path / "frame.html"
    frame.write_text(
        "<!doctype html><title>none</title><script>onmessage = told => { document.title = told.data }</script>"
        f'<iframe src="{page.as_uri()}" style="border: 0; width: {width}px; height: 900px"></iframe>'
    )
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0",
        f"--blink-settings=preferredColorScheme={int(scheme == 'light')}", "--window-size=1600,1000",
        "--virtual-time-budget=5000", "--dump-dom", frame.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    title = re.search("<title>([0-9]+) ([0-9]+)</title>", done.stdout)
    assert title is not None
    assert int(title[2]) in range(width - 20, width + 1)  # less a scroll bar
    assert int(title[1]) <= int(title[2]), "the page is wider than the frame"
    assert "CONSOLE" not in done.stderr
