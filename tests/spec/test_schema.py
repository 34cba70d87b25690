"""The JSON Schema for editors accepts what the loader accepts, and refuses a misspelt key where it does."""

import re
from pathlib import Path
from typing import Any

import pytest

from cadencec.spec import json_schema
from cadencec.spec.source import compose, plain
from tests.spec.example import BASE, edited

ROOT = Path(__file__).parents[2]
SPECS = [*sorted((ROOT / "specs").glob("*.yaml")), *sorted((ROOT / "tests/cases").glob("*.yaml"))]
SCHEMA = json_schema()
TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """Validate the part of JSON Schema that pydantic writes for us."""
    if "$ref" in schema:
        return fits(value, SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")])
    if "anyOf" in schema and not any(fits(value, option) for option in schema["anyOf"]):
        return False
    if "const" in schema and value != schema["const"]:
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    kinds = schema.get("type", [])
    if kinds and not any(is_a(value, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds)):
        return False
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        return False
    if isinstance(value, list):
        return all(fits(item, schema.get("items", {})) for item in value)
    return not isinstance(value, dict) or members_fit(value, schema)


def is_a(value: Any, kind: str) -> bool:
    return isinstance(value, TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def members_fit(value: dict[str, Any], schema: dict[str, Any]) -> bool:
    properties, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    if set(schema.get("required", [])) - value.keys():
        return False
    for key, member in value.items():
        matching = (
            [properties[key]] if key in properties else [p for name, p in patterns.items() if re.search(name, key)]
        )
        extra = schema.get("additionalProperties", True)
        matching = matching or ([extra] if isinstance(extra, dict) else [])
        if not all(fits(member, part) for part in matching) or (not matching and extra is False):
            return False
    return True


def read(text: str) -> Any:
    return plain(compose(text, "a.yaml")[0])


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_the_specs_of_the_project_fit(path: Path) -> None:
    assert fits(read(path.read_text()), SCHEMA)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("retain: {window: P + 100}", "retian: {window: P + 100}"),
        ("retain: {window: P + 100}", "retain: {windw: P + 100}"),
        ("leaves: [k, v]", "leaves: k"),
        ("dtype: int64}\nregions", "dtype: int46}\nregions"),
        ("internal: true", "internal: yes"),
        ("cadence_spec: 1", "cadence_spec: 2"),
        ("choices: [false, true]", "choises: [false, true]"),
        ("params: {P: 4}", "params: {P-: 4}"),
    ],
)
def test_what_the_loader_refuses_does_not_fit(old: str, new: str) -> None:
    assert fits(read(BASE), SCHEMA)
    assert not fits(read(edited(old, new)), SCHEMA)


def test_every_key_says_what_it_is_for() -> None:
    for name, model in (SCHEMA["$defs"] | {"Document": SCHEMA}).items():
        for key, body in model["properties"].items():
            assert body.get("description"), f"{name}.{key}"
