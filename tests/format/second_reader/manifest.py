"""The manifest, by the page's schema."""

import json
import re
from fractions import Fraction
from typing import Any

from .expressions import parse
from .refused import need, refuse
from .tapes import DTYPES

SCHEMA = """
manifest     captures=[capture] constants=[constant] fidelity=fidelity forms=[form] init=count leaves=[leaf]
             program=program provenance=provenance sections=[section] target=cpu|cuda weights=[weight]
             weights_file=string?
program      cadence_s=fraction? clocks=[part:clock] counters=[part:counter] events=[part:event] horizon=horizon?
             params=[part:(string,int)] queues=[part:queue] regions=[part:region] stages=[part:stage]
clock        name=string rate_hz=fraction
counter      leaf=string name=string start=int
queue        axis=count counter=string dtype=dtype name=string start=[rows:int]
region       axis=count? clock=string? dtype=dtype layout=kept|contiguous leaves=[part:string] name=string
             retention=retention shape=[dims:count?] start=index
retention    cap=count? kind=fixed|grow|window|ring
stage        args=[part:string] indexed=[part:string] inputs=[part:stage_input] name=string outputs=[part:string]
             reads=[part:string] repeat=(string,count)? writes=[part:string]
stage_input  dtype=dtype_or_none literals=[part:scalar] lower=int? name=string upper=int?
event        advance=(string,expression)? choices=[part:choice] effects=[part:(string,expression)]
             inputs=[part:event_input] internal=bool lets=[part:(string,expression)] name=string
             outputs=[part:string] reset=bool restart=[part:string] run=[part:string] when=expression?
choice       lower=int name=string upper=int
event_input  literal=scalar? name=string shape=[dims:expression]
horizon      limit=fraction unit=events|seconds
leaf         owner=string path=string slot_bytes=count slot_offset=count
tensor_form  dtype=dtype offset=count sizes=[dims:count] slot=index strides=[dims:count]
literal      kind=none|bool|int|float|str text=string
capture      input_offsets=[count] key=key output_offsets=[count] outputs=[form] scratch=[(count,count)] tape=count
             writes=[(count,count)]
key          args=[int] inputs=[form] stage=string state=[(count,count)]
section      lower_bound=count method=string name=weights|constants|state|io|scratch|rows|library offset=count
             size_bytes=count
weight       blob=count? dtype=dtype name=string offset=count sha256=digest sizes=[dims:count]
constant     blob=count offset=count sha256=digest size_bytes=count
fidelity     constant_outputs=[string] outputs_compared=count tapes=count values_per_tape=count walk_events=count
provenance   compiler=string entry=string environment=[(string,string)] model=string numerics=[(string,string)]
             random_weights=bool spec_sha256=digest
"""
OBJECTS = {
    line.split()[0]: dict(field.split("=") for field in line.split()[1:])
    for line in re.sub(r"\n +", " ", SCHEMA).strip().splitlines()
}


def decode(data: bytes) -> dict[str, Any]:
    try:
        document = json.loads(data.decode(), object_pairs_hook=unique, parse_float=refuse, parse_constant=refuse)
        again = json.dumps(document, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()
    except (ValueError, RecursionError) as error:
        refuse(f"JSON: {error}")
    need(again == data, "the one canonical form")
    need(depth(document) <= 16, "at most 16 levels")
    return dict(take("manifest", document))


def longest(kind: str) -> int:
    """Return how long a list may be: the dims of a tensor, the rows of a queue, a part of the program, any other."""
    return {"dims": 64, "rows": 1 << 20, "part": 4096}.get(kind[1:-1].partition(":")[0], 1 << 63)


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    need(len(dict(pairs)) == len(pairs), "a key twice")
    return dict(pairs)


def depth(value: Any) -> int:
    if isinstance(value, dict | list):
        return 1 + max(map(depth, value.values() if isinstance(value, dict) else value), default=0)
    return 0


def take(kind: str, value: Any) -> Any:
    """Return a value of the schema as plain data."""
    if kind.endswith("?"):
        return None if value is None else take(kind[:-1], value)
    if kind.startswith("["):
        need(type(value) is list and len(value) <= longest(kind), "a list, not too long")
        return [take(kind[1:-1].partition(":")[2] or kind[1:-1], each) for each in value]
    if kind.startswith("("):
        kinds = kind[1:-1].split(",")
        need(type(value) is list and len(value) == len(kinds), "a list of fixed length")
        return [take(each, item) for each, item in zip(kinds, value, strict=True)]
    if kind in OBJECTS:
        fields = OBJECTS[kind]
        need(type(value) is dict and set(value) == set(fields), f"exactly the keys of {kind}")
        return {name: take(each, value[name]) for name, each in fields.items()}
    return form(value) if kind == "form" else scalar(kind, value)


def form(value: Any) -> Any:
    need(type(value) is dict and len(value) == 1, "one kind of form")
    ((kind, inner),) = value.items()
    need(kind in ("tensor", "literal"), "a tensor or a literal")
    return take("tensor_form" if kind == "tensor" else "literal", inner)


def scalar(kind: str, value: Any) -> Any:
    if kind == "scalar" and type(value) is bool:
        return value
    if kind in ("int", "count", "index") or (kind == "scalar" and type(value) is int):
        lowest = {"count": 0, "index": -1}.get(kind, -(1 << 63) + 1)
        need(type(value) is int and lowest <= value < 1 << 63, f"an integer from {lowest}")
        return value
    if kind == "bool":
        need(type(value) is bool, "a bool")
        return value
    return text(kind, value)


def text(kind: str, value: Any) -> str:
    need(type(value) is str and len(value) <= 4096 and value.isprintable(), "printable text")
    words = {"dtype": DTYPES, "dtype_or_none": ["", *DTYPES]}
    if kind == "fraction":
        need(re.fullmatch(r"(0|[1-9][0-9]*)(/[1-9][0-9]*)?", value, re.A) is not None, "a fraction")
        need(str(Fraction(value)) == value, "lowest terms")
    elif kind == "expression":
        parse(value)
    elif kind == "digest":
        need(re.fullmatch("[0-9a-f]{64}", value) is not None, "a digest")
    elif kind not in ("string", "scalar"):
        need(value in (words.get(kind) or kind.split("|")), f"one of {kind}")
    return str(value)
