"""docs/format.md says what is so: its bytes are those of the small plan, its schema and lists those of the reader."""

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from cadence_runtime.format import file, plan
from cadence_runtime.format.manifest import Manifest
from cadence_runtime.format.tape import ITEM_BYTES, Literal
from cadence_runtime.format.tapes import LITERAL_KINDS, STORAGE_KINDS
from cadence_runtime.format.writer import encode_plan
from cadence_runtime.host import program
from tests.format.plans import example

PAGE = (Path(__file__).parents[2] / "docs" / "format.md").read_text()
ROW = re.compile(r"^([0-9a-f]{8})  ((?:[0-9a-f]{2} {1,2}){15}[0-9a-f]{2})", re.M)


def test_the_hex_dump_is_that_of_the_small_plan():
    data = encode_plan(example(steps=1))
    rows = ROW.findall(PAGE)
    assert len(rows) > 20
    for offset, row in rows:
        at = int(offset, 16)
        assert data[at : at + 16].hex(" ") == row.replace("  ", " "), offset
    assert f"{len(data)} bytes, all raw" in PAGE


def schema() -> Iterator[tuple[str, set[str]]]:
    """The objects of the page's schema, by name, with their keys."""
    block = next(block for block in re.findall(r"```\n(.*?)```", PAGE, re.S) if block.startswith("manifest "))
    for line in re.sub(r"\n +", " ", block).splitlines():
        name, _, rest = line.partition(" ")
        if not rest.strip().startswith("{"):
            yield name, set(re.findall(r"[a-z_0-9]+", re.sub(r"\[[^\]]*\]|\([^)]*\)", "", rest)))


def test_the_schema_is_that_of_the_reader():
    types = {
        "manifest": Manifest,
        "tensor_form": plan.TensorForm,
        "literal": Literal,
        **{name.lower(): getattr(plan, name) for name in ("Leaf", "Capture", "Key", "Section", "Weight", "Constant")},
        **{name.lower(): getattr(plan, name) for name in ("Fidelity", "Provenance")},
        **{name.lower(): getattr(program, name) for name in ("Program", "Clock", "Counter", "Queue", "Region")},
        **{name.lower(): getattr(program, name) for name in ("Retention", "Stage", "Event", "Choice", "Horizon")},
        "stage_input": program.StageInput,
        "event_input": program.EventInput,
    }
    assert dict(schema()) == {name: {field.name for field in fields(kind)} for name, kind in types.items()}


def test_the_numbers_and_lists_are_those_of_the_reader():
    text = re.sub(r"\s+", " ", PAGE)
    assert f"first starts at {file.aligned(file.HEADER_BYTES + file.TABLE_BYTES)}" in text
    assert f"number of sections: {len(file.SECTIONS)}" in text
    assert ", ".join(f"`{name}`" for name in file.SECTIONS) in text
    assert f"kind ({' '.join(STORAGE_KINDS)})" in PAGE
    assert f"kind ({' '.join(LITERAL_KINDS)})" in PAGE
    assert f"dtypes in this one: {' '.join(ITEM_BYTES)}." in text
