"""The C header of a plan: it compiles as C99, C11 and C++, and says what the plan says."""

import shutil
import subprocess
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from cadence_runtime.format.reader import read_plan
from cadence_runtime.format.writer import write_plan
from cadence_runtime.zstd import compress, decompress
from cadencec.cli.app import app
from cadencec.report.header import KEYWORDS, c_names, render
from tests.format.plans import cuda_example, example

CC, CXX = shutil.which("cc"), shutil.which("c++")
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic"]

PROGRAM = """
#include "toy.h"
#include <stdio.h>

int main(void)
{
    const char *events[] = TOY_EVENT_NAMES;
    struct toy_region regions[] = TOY_REGIONS;
    struct toy_input_x x;
    struct toy_output_y y;
    x.data[0] = y.data[0] = 0;
    printf("%s %s %d %llu %llu %u %u\\n", events[TOY_EVENT_STEP], regions[TOY_REGION_KV].name, (int)TOY_EVENT_COUNT,
           (unsigned long long)regions[0].size_bytes, (unsigned long long)TOY_STATE_BYTES, (unsigned)sizeof x,
           (unsigned)sizeof y);
    return x.data[0] == y.data[0] ? 0 : 1;
}
"""


@pytest.mark.parametrize("standard", ["c99", "c11", "c++17"])
def test_a_program_compiles_and_reads_the_plans_figures(tmp_path: Path, standard: str) -> None:
    compiler = CXX if standard.startswith("c++") else CC
    if compiler is None:
        pytest.skip(f"no compiler for {standard} on the path")
    plan = example()
    (tmp_path / "toy.h").write_text(render(plan))
    source = tmp_path / ("main.cpp" if standard.startswith("c++") else "main.c")
    source.write_text(PROGRAM)
    binary = tmp_path / "main"
    subprocess.run([compiler, f"-std={standard}", *STRICT, str(source), "-o", str(binary)], check=True)
    done = subprocess.run([str(binary)], capture_output=True, text=True, check=True)
    event, region, count, size, state, x, y = done.stdout.split()
    external = [event.name for event in plan.program.events if not event.internal]
    assert (event, region, int(count)) == ("step", "kv", len(external))
    assert int(size) == sum(leaf.slot_bytes for leaf in plan.leaves)
    assert int(state) == next(section.size_bytes for section in plan.sections if section.name == "state")
    assert (int(x), int(y)) == (16, 16)


def test_odd_names_stay_names(tmp_path: Path) -> None:
    compiler = CC
    if compiler is None:
        pytest.skip("no C compiler on the path")
    plan = example(name='for "loops" */ \\ and ??/ more')
    (tmp_path / "main.c").write_text(render(plan) + "\nint main(void) { return 0; }\n")
    subprocess.run([compiler, "-std=c99", *STRICT, str(tmp_path / "main.c"), "-o", str(tmp_path / "main")], check=True)


@given(st.lists(st.text(min_size=1, max_size=12), max_size=12))
def test_names_are_identifiers_and_no_two_are_one(names: list[str]) -> None:
    found = c_names(names)
    assert len(found) == len(set(found)) == len(names)
    assert all(name.isidentifier() and name.isascii() and name not in KEYWORDS for name in found)
    assert len({name.upper() for name in found}) == len(found)


def test_names_are_kept_where_they_can_be() -> None:
    assert c_names(["token", "hift.mel", "toMel", "2nd", "for", "hift-mel"]) == [
        "token", "hift_mel", "to_mel", "n_2nd", "n_for", "hift_mel_2",
    ]  # fmt: skip


def test_the_verb_writes_it(tmp_path: Path) -> None:
    write_plan(tmp_path / "toy.plan", cuda_example(), compress=compress)
    done = CliRunner().invoke(app, ["report", str(tmp_path / "toy.plan"), "--c-header", "-o", str(tmp_path / "toy.h")])
    assert done.exit_code == 0, done.stderr
    assert (tmp_path / "toy.h").read_text() == render(cuda_example())
    assert done.stdout == f"{tmp_path / 'toy.h'}: {(tmp_path / 'toy.h').stat().st_size:,} bytes\n"
    assert render(cuda_example()) == render(replace(cuda_example()))


def test_a_region_spans_all_its_slots() -> None:
    (golden,) = (Path(__file__).resolve().parents[2] / "plans").glob("*.cpu.*.plan")
    plan = read_plan(golden, decompress=decompress)
    upper = max(leaf.slot_offset + leaf.slot_bytes for leaf in plan.leaves)
    assert f'{{"{plan.program.regions[0].name}", 0ULL, {upper}ULL}}' in render(plan)


def test_names_that_the_header_has_itself_are_changed() -> None:
    assert c_names(["count", "names", "n_count"]) == ["n_count", "n_names", "n_count_2"]


def test_a_cadence_that_is_no_whole_number_of_microseconds() -> None:
    plan = example()
    text = render(replace(plan, program=replace(plan.program, cadence_s=Fraction(1, 3))))
    assert "#define TOY_CADENCE_S (1.0 / 3.0)\n" in text and "_CADENCE_US" not in text
    text = render(replace(plan, program=replace(plan.program, cadence_s=Fraction(1, 25))))
    assert "#define TOY_CADENCE_S (1.0 / 25.0)\n#define TOY_CADENCE_US 40000\n" in text
