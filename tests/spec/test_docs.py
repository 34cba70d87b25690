"""Every block and table of `docs/spec.md` is run: models step, sessions go through the tables, errors read as shown."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from cadence_runtime.errors import CadenceError
from cadence_runtime.host.expression import parse
from cadence_runtime.host.program import ABSENT, Configuration, Program, Step
from cadence_runtime.host.step import push, start
from cadencec.spec import Spec, json_schema, parse_spec
from cadencec.spec import schema as documents
from cadencec.spec.schema import NUMERICS

PAGE = (Path(__file__).parents[2] / "docs/spec.md").read_text()
LESSONS = PAGE.split("# Reference")[0].split("\n## ")[1:]
BLOCKS = re.findall(r"^```(\w+)(?: (\w+))?\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
LIVE = next(body for _, _, body in BLOCKS if "name: live" in body)


def block(lesson: str, language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", lesson, re.MULTILINE | re.DOTALL)
    return str(found)


def table(text: str, first: str) -> list[dict[str, str]]:
    """Return the rows of the table whose first column is called `first`."""
    lines = text[text.index(f"| {first} |") :].split("\n\n", maxsplit=1)[0].splitlines()
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(head, row, strict=True)) for row in rows]


def pushes(lesson: str, program: Program) -> Iterator[tuple[dict[str, str], tuple[Step, ...], Configuration]]:
    """Go through a table of pushes."""
    now = start(program)
    for row in table(lesson, "push"):
        steps: tuple[Step, ...] = ()
        if row["push"]:
            event, *choices = row["push"].split()
            picked = {name: int(value) for name, value in (choice.split("=") for choice in choices)}
            steps = push(program, now, event, picked)
            now = steps[-1].after
        yield row, steps, now


def spec_of(lesson: str) -> Spec:
    return parse_spec(block(lesson, "yaml"), "lesson.yaml")


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.split("\n")[0])
def test_a_session_goes_as_its_table_says(lesson: str) -> None:
    program = spec_of(lesson).program
    for row, steps, now in pushes(lesson, program):
        values = dict(zip((counter.name for counter in program.counters), now.counters, strict=True))
        values |= dict(zip((region.name for region in program.regions), now.lengths, strict=True))
        shown = {name: int(text) for name, text in row.items() if name not in {"push", "runs"}}
        assert shown == values
        runs = [f"{run.stage}({', '.join(map(str, run.args))})" for step in steps for run in step.runs]
        assert row["runs"] == " ".join(runs)


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.split("\n")[0])
def test_a_model_has_the_shapes_that_its_spec_declares(lesson: str) -> None:
    spec, names = spec_of(lesson), {}
    exec(block(lesson, "python"), names)  # noqa: S102
    model = names["build"](**dict(spec.model.options))
    state = model.init_state()
    for _, steps, now in pushes(lesson, spec.program):
        with torch.no_grad():
            for step in steps:
                state = run(model, state, spec.program, step)
        assert shapes(state) == expected(spec.program, now)


def run(model: Any, state: Any, program: Program, step: Step) -> Any:
    """Run the stages of one step for real, on zeros."""
    passed: dict[str, torch.Tensor] = {}
    event = next(event for event in program.events if event.name == step.event)
    for stage_run in step.runs:
        stage = next(stage for stage in program.stages if stage.name == stage_run.stage)
        inputs = [
            passed[item.name] if sizes is None else torch.zeros(sizes, dtype=getattr(torch, item.dtype))
            for item, sizes in zip(stage.inputs, stage_run.inputs, strict=True)
        ]
        args = dict(zip(stage.args, stage_run.args, strict=True))
        function = model.stages[stage.name] if hasattr(model, "stages") else model.step
        changed, outputs = function(state, *inputs, **args)
        state = {**state, **changed}
        passed |= dict(zip(stage.outputs, [outputs], strict=True))
    return model.init_state() if event.reset else state


def shapes(state: Any) -> dict[str, tuple[int, ...] | None]:
    return {name: None if leaf is None else tuple(leaf.shape) for name, leaf in state.items()}


def expected(program: Program, now: Configuration) -> dict[str, tuple[int, ...] | None]:
    found: dict[str, tuple[int, ...] | None] = {}
    for region, length in zip(program.regions, now.lengths, strict=True):
        dims = tuple(length if dim is None else dim for dim in region.shape)
        found |= dict.fromkeys(region.leaves, None if length == ABSENT else dims)
    return found


def spliced(fragment: str) -> str:
    """Return the last lesson's spec with the sections of a fragment in place of its own."""
    return yaml.safe_dump(yaml.safe_load(LIVE) | yaml.safe_load(fragment), sort_keys=False)


@pytest.mark.parametrize("fragment", [body for kind, mark, body in BLOCKS if (kind, mark) == ("yaml", "fragment")])
def test_a_fragment_fits_a_spec(fragment: str) -> None:
    sections = yaml.safe_load(fragment)
    text = spliced(fragment)
    if "stages" in sections:
        text = yaml.safe_dump({k: v for k, v in yaml.safe_load(text).items() if k not in {"queues", "counters"}})
    elif "params" in sections:
        text = spliced(fragment.replace("{P: 300}", "{P: 300, look: 2, hop: 4}").replace("buf: 0", "buf: 2"))
    assert parse_spec(text, "live.yaml").program.events


def test_the_refused_spec_is_refused_in_the_words_of_the_page() -> None:
    at = next(index for index, (_, mark, _) in enumerate(BLOCKS) if mark == "refused")
    fragment, message = BLOCKS[at][2], BLOCKS[at + 1][2]
    sections = [line.split(":")[0] for line in fragment.splitlines() if not line.startswith(" ")]
    rest = {key: value for key, value in yaml.safe_load(LIVE).items() if key not in sections}
    with pytest.raises(CadenceError) as caught:
        parse_spec(fragment + yaml.safe_dump(rest), "live.yaml")
    assert str(caught.value) + "\n" == message


def test_every_yaml_block_is_one_of_these() -> None:
    marks = [mark for kind, mark, _ in BLOCKS if kind == "yaml"]
    assert sorted(marks) == ["", "", "", "fragment", "fragment", "refused"]
    assert len(LESSONS) == 3


@pytest.mark.parametrize("row", table(PAGE, "expression"), ids=lambda row: row["expression"])
def test_expressions(row: dict[str, str]) -> None:
    value = row["value at buf = 5, n = 0"]
    assert parse(row["expression"].strip("`")).evaluate({"buf": 5, "n": 0}) == int(value)


def test_every_key_is_in_its_table() -> None:
    section = {
        "## Top level": documents.Document,
        "### `model`": documents.ModelDoc,
        "### `counters`": documents.CounterDoc,
        "### `queues`": documents.QueueDoc,
        "### `regions`": documents.RegionDoc,
        "### `stages`": documents.StageDoc,
        "### `events`": documents.EventDoc,
    }
    for title, model in section.items():
        text = PAGE[PAGE.index(f"\n{title}\n") :]
        keys = [key for row in table(text, "key") for key in re.findall(r"`(\w+)`", row["key"])]
        assert sorted(keys) == sorted(model.model_fields), title
    assert [row["switch"].strip("`") for row in table(PAGE, "switch")] == sorted(NUMERICS)


def test_the_json_schema_knows_every_key() -> None:
    schema = json_schema()
    assert set(schema["properties"]) == set(documents.Document.model_fields)
    assert schema["additionalProperties"] is False
    assert set(schema["$defs"]["RegionDoc"]["properties"]) == set(documents.RegionDoc.model_fields)
