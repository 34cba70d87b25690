"""The specs that come with the project, and those of the hazard cases, read as they were meant."""

import importlib.util
import itertools
import time
from collections import defaultdict
from pathlib import Path
from types import ModuleType

import pytest

from cadence_runtime.errors import CadenceError
from cadence_runtime.host.program import Configuration, StageRun
from cadence_runtime.host.step import enabled, push, start
from cadencec.spec import Spec, load_spec, parse_spec

ROOT = Path(__file__).parents[2]
SPECS = sorted((ROOT / "specs").glob("*.yaml"))
CASES = sorted((ROOT / "tests/cases").glob("*.yaml"))
RESTS_KEYS = {
    "minicpm_o45": (56, {"encode": 1122, "denoise": 993, "vocode": 52}),
    "step_audio2": (3, {"encode": 84, "denoise": 81, "vocode": 56}),
    "step_audio2_steady": (3, {"encode": 3, "denoise": 3, "vocode": 2}),
    "mimi": (1, {"step": 1}),
    "qwen3_omni_code2wav": (4, {"step": 40}),
    "pocket_tts": (376, {"step": 375}),
    "silero_vad": (1, {"step": 1}),
    "01_growing_kv_cat": (7, {"step": 6}),
    "02_sliding_window_boundary": (4, {"step": 4}),
    "13_streaming_stft_istft": (1, {"step": 2}),
    "15_rng_noise_excitation": (1, {"step": 2}),
    "21_none_then_empty_then_full": (2, {"step": 2}),
    "25_first_middle_last_chunk": (2, {"step": 5}),
    "27_two_sessions_interleaved": (9, {"step": 8}),
}
"""Configurations at rest, and keys of each stage; the cases that are not listed have one of each."""


def walk(spec: Spec) -> tuple[set[Configuration], list[StageRun]]:
    """Return every configuration at rest, and the distinct runs of stages (one for each index that is repeated)."""
    program, first = spec.program, start(spec.program)
    events = {event.name: event for event in program.events}
    seen, todo, runs = {first}, [first], {}
    while todo:
        configuration = todo.pop()
        for name in enabled(program, configuration):
            ranges = [range(choice.lower, choice.upper) for choice in events[name].choices]
            for picked in itertools.product(*ranges):
                choices = dict(zip((choice.name for choice in events[name].choices), picked, strict=True))
                if is_past_horizon(spec, configuration, name):
                    continue
                steps = push(program, configuration, name, choices)
                runs |= {run: None for step in steps for run in step.runs if not run.index}
                if steps[-1].after not in seen:
                    seen.add(steps[-1].after)
                    todo.append(steps[-1].after)
    return seen, list(runs)


def is_past_horizon(spec: Spec, configuration: Configuration, name: str) -> bool:
    program = spec.program
    event = next(event for event in program.events if event.name == name)
    if program.horizon is None or (event.reset and not event.run):
        return False
    if program.horizon.unit == "events":
        return configuration.elapsed >= program.horizon.limit
    rate = next(clock.rate_hz for clock in program.clocks if event.advance and clock.name == event.advance[0])
    return configuration.elapsed + 1 / rate > program.horizon.limit


@pytest.mark.parametrize("path", [*SPECS, *CASES], ids=lambda path: path.stem)
def test_configurations_and_keys(path: Path) -> None:
    if path.stem == "cosyvoice2":
        spec = load_spec(path, {"horizon": "12 s"})
        assert {event.name for event in spec.program.events if event.internal} == {"chunk", "last"}
        return
    seen, runs = walk(load_spec(path))
    keys: dict[str, int] = defaultdict(int)
    for run in runs:
        keys[run.stage] += 1
    assert (len(seen), dict(keys)) == RESTS_KEYS.get(path.stem, (1, {"step": 1}))


def test_the_live_rule_of_minicpm() -> None:
    """At P = 300: 993 distinct (length, ticks), 23 of them at the prompt's length, 1,122 with the last flag."""
    _, runs = walk(load_spec(ROOT / "specs/minicpm_o45.yaml"))
    denoise = {(run.lengths[0], run.args[0]) for run in runs if run.stage == "denoise"}
    assert len(denoise) == 993
    assert sum(length == 300 for length, _ in denoise) == 23
    assert {(300, 50), (350, 50), (400, 50)} <= denoise
    encode = {(run.lengths[0], run.args) for run in runs if run.stage == "encode"}
    assert len(encode) == 1122


@pytest.mark.parametrize("prompt", ["200", "300", "852", "1200"])
def test_minicpm_has_as_many_keys_at_every_prompt_length(prompt: str) -> None:
    _, runs = walk(load_spec(ROOT / "specs/minicpm_o45.yaml", {"P": prompt}))
    assert len({(run.lengths[0], run.args[0]) for run in runs if run.stage == "denoise"}) == 993


def case(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_case_has_a_spec_that_names_its_regions_and_its_model(path: Path) -> None:
    program, meta = load_spec(path).program, case(path.with_suffix(".py")).META
    if meta["expect"] == "replay":
        assert set(meta["names"]) <= {region.name for region in program.regions}
    if meta["resets"]:
        assert any(event.reset for event in program.events)
    entry, function = load_spec(path).model.entry.split(":")
    assert hasattr(case(path.parent / entry), function)


def test_a_wrong_sample_count_is_refused_by_its_region_and_both_numbers() -> None:
    path = ROOT / "tests/cases/11_mixed_rate_25_50_24k.yaml"
    text = path.read_text().replace("advance: {token: 5}", "advance: {token: 5, sample: 4805}")
    with pytest.raises(CadenceError) as caught:
        parse_spec(text, path.name)
    assert caught.value.code == "CAD1306"
    assert caught.value.hint == "`token: 5` is `sample: 4800` (regions `tail3`); the spec says 4805"


def test_every_case_has_a_spec() -> None:
    assert [path.stem for path in CASES] == sorted(path.stem for path in (ROOT / "tests/cases").glob("[0-9]*.py"))
    assert len(CASES) == 16


def test_specs_load_fast() -> None:
    begin = time.monotonic()
    for path in SPECS:
        load_spec(path)
    assert time.monotonic() - begin < 2 * len(SPECS)
