"""The document of a clock spec, as pydantic models: which keys there are, and what each may hold.

The models say nothing about names that must exist or numbers that must agree; `cadencec.spec.program` does. Their
descriptions and examples are the JSON Schema for editors and the hints of messages.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Annotated, Any
from typing import Literal as OneOf

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    PlainValidator,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from cadence_runtime.errors import SpecError
from cadence_runtime.format.tape import ITEM_BYTES
from cadence_runtime.host.expression import Expression
from cadence_runtime.host.program import Horizon
from cadencec.spec import values

VERSION = 1
LAYOUTS = ("kept", "contiguous")
START_ABSENT = "absent"
NUMERICS: dict[str, tuple[bool | int | str, ...]] = {
    "allow_tf32": (True, False),
    "cudnn_benchmark": (True, False),
    "cudnn_deterministic": (True, False),
    "deterministic_algorithms": (True, False),
    "float32_matmul_precision": ("highest", "high", "medium"),
    "flush_denormal": (True, False),
    "threads": (),
}
"""Numeric switches and the values that each may have; `threads` is any count above 0."""


def _carried(error: SpecError) -> PydanticCustomError:
    """Return what takes an error of ours through pydantic's report."""
    return PydanticCustomError("spec", "spec", {"error": error})


def _call(reader: Callable[[Any], Any], value: Any) -> Any:
    try:
        return reader(value)
    except SpecError as error:
        raise _carried(error) from None


def _read(reader: Callable[[Any], Any]) -> PlainValidator:
    return PlainValidator(partial(_call, reader))


@dataclass(frozen=True, slots=True)
class _Through:
    """Reads a value by `read`, which may hand parts of it to the validator of `inner`; so they keep their place."""

    inner: Any
    read: Callable[[Any, ValidatorFunctionWrapHandler], Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(self.read, handler.generate_schema(self.inner))


def _scalar(kind: str, **more: Any) -> WithJsonSchema:
    return WithJsonSchema({"type": kind, **more})


def _read_start(value: Any) -> str | Expression:
    return START_ABSENT if value == START_ABSENT else values.read_expression(value)


def _read_retain(value: Any, read_cap: ValidatorFunctionWrapHandler) -> values.Retain:
    kind, cap = _call(values.read_retain, value)
    return values.Retain(kind, None if cap is None else read_cap(value)[kind])


def _read_layout(value: Any) -> str:
    return values.read_choice(value, LAYOUTS, "layout")


def _read_version(value: Any) -> int:
    if type(value) is not int or value != VERSION:
        hint = "this release reads version 1"
        raise SpecError("CAD1208", "unknown version of the spec", expected="`1`", got=values.shown(value), hint=hint)
    return value


_INTEGER_OR_TEXT = WithJsonSchema({"type": ["integer", "string"]})
_LITERAL = WithJsonSchema({"type": ["boolean", "integer", "string"]})
_NAME = _scalar("string", pattern="^[A-Za-z_][A-Za-z0-9_]*$")

Expr = Annotated[Expression, _read(values.read_expression), PlainSerializer(str), _INTEGER_OR_TEXT]
Name = Annotated[str, _read(values.read_name), _NAME]
RegionName = Annotated[str, _read(values.read_dotted), _scalar("string")]
LeafPath = Annotated[str, _read(values.read_leaf), _scalar("string")]
FileName = Annotated[str, _read(values.read_file_name), _scalar("string")]
Entry = Annotated[str, _read(values.read_entry), _scalar("string")]
Text = Annotated[str, _read(values.read_text), _scalar("string")]
Sha256 = Annotated[str, _read(values.read_sha256), _scalar("string", pattern="^[0-9a-f]{64}$")]
Bool = Annotated[bool, _read(values.read_bool), _scalar("boolean")]
Whole = Annotated[int, _read(values.read_whole), _scalar("integer")]
Dtype = Annotated[str, _read(values.read_dtype), _scalar("string", enum=sorted(ITEM_BYTES))]
LiteralValue = Annotated[Any, _read(values.read_literal), _LITERAL]
OptionValue = Annotated[
    Any, _read(values.read_option), WithJsonSchema({"type": ["boolean", "integer", "number", "string", "null"]})
]
Rate = Annotated[Fraction, _read(values.read_rate), PlainSerializer(str), _scalar("string", examples=["25 Hz"])]
Time = Annotated[Fraction, _read(values.read_time), PlainSerializer(str), _scalar("string", examples=["32 ms"])]
SpanText = Annotated[
    values.Span, _read(values.read_span), PlainSerializer(lambda span: f"{span.first}..{span.last}"), _INTEGER_OR_TEXT
]
HorizonText = Annotated[
    Horizon, _read(values.read_horizon), PlainSerializer(lambda horizon: f"{horizon.limit} {horizon.unit}"),
    _scalar("string", examples=["60 s", "6 events"]),
]  # fmt: skip
Ref = Annotated[
    values.Reference,
    _read(values.read_reference),
    PlainSerializer(lambda ref: f"{ref.region}[{ref.index}]" if ref.index else ref.region),
    _scalar("string"),
]
RetainValue = Annotated[
    values.Retain,
    _Through(dict[str, Expr], _read_retain),
    PlainSerializer(lambda retain: [retain.kind, retain.cap and retain.cap.text]),
    WithJsonSchema({
        "anyOf": [
            {"enum": ["fixed", "grow"]},
            *(
                {"type": "object", "properties": {kind: {"type": ["integer", "string"]}}, "required": [kind],
                 "additionalProperties": False}
                for kind in ("window", "ring", "fixed")
            ),
        ]
    }),
]  # fmt: skip
Start = Annotated[Any, _read(_read_start), PlainSerializer(str), _INTEGER_OR_TEXT]
Layout = Annotated[OneOf["kept", "contiguous"], _read(_read_layout), _scalar("string", enum=list(LAYOUTS))]
Version = Annotated[int, _read(_read_version), WithJsonSchema({"const": VERSION})]


@dataclass(frozen=True, slots=True)
class _Or:
    """Also accepts a shorter form, which `expand` turns into the full one; `short` is its JSON Schema."""

    expand: Callable[[Any], Any]
    short: Callable[[JsonSchemaValue], JsonSchemaValue]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self.expand, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        full = handler(schema)
        return {"anyOf": [full, self.short(full)]}


def _as_mapping(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    table: dict[str, Any] = {}
    for item in value:
        pair = {item: None} if isinstance(item, str) else item
        if not isinstance(pair, dict) or len(pair) != 1:
            expected = "a name, or a name with its description, such as `{x: [1, 80]}`"
            raise _carried(values.wrong("not a list of named items", expected, item))
        if table.keys() & pair.keys():
            raise _carried(SpecError("CAD1105", f"duplicate name `{next(iter(pair))}`", expected="each name once"))
        table |= pair
    return table


def _as_list(value: Any) -> Any:
    if isinstance(value, dict):
        return [value]
    if not isinstance(value, list):
        raise _carried(values.wrong("not a weights file", "a mapping with the key `file`, or a list of such", value))
    return value


_LIST_OR_MAPPING = _Or(_as_mapping, lambda full: {"type": "array", "items": {"anyOf": [{"type": "string"}, full]}})
_MAY_BE_EMPTY = _Or(lambda value: {} if value is None else value, lambda full: {"type": "null"})
_ONE_OR_LIST = _Or(_as_list, lambda full: full["items"])
_START_ALONE = _Or(
    lambda value: value if isinstance(value, dict) else {"start": value}, lambda full: {"type": ["integer", "string"]}
)


class Closed(BaseModel):
    """A mapping with exactly the keys that are declared here."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class WeightsDoc(Closed):
    """A file of the release's weights."""

    file: Text = Field(
        description="safetensors file, index of some, or file of `torch.save`, relative to the spec",
        examples=["flow.safetensors"],
    )
    sha256: Sha256 | None = Field(None, description="digest that the file must have")
    prefix: Text = Field("", description="comes before each name in the file", examples=["flow."])


class ModelDoc(Closed):
    """Which model this is, and how it is built."""

    name: FileName = Field(description="names the plan's file", examples=["mimi-decoder"])
    entry: Entry = Field(description="function that builds the model", examples=["./model.py:build"])
    options: dict[Name, OptionValue] = Field({}, description="keyword arguments of the entry")
    weights: Annotated[list[WeightsDoc], _ONE_OR_LIST] | None = Field(
        None, description="weights file, a list of some, or null for the model's own initial values"
    )


class CounterDoc(Closed):
    """An integer that the host keeps."""

    start: Expr = Field(description="value at the start and after a reset", examples=[0])
    leaf: LeafPath | None = Field(None, description="path of the Python int in the model's state that it stands for")


class QueueDoc(Closed):
    """Rows of an input that the host holds back."""

    counter: Name = Field(description="counter that always equals the number of rows", examples=["buf"])
    axis: Whole = Field(description="dim along which rows are held", examples=[1])
    dtype: Dtype | None = Field(None, description="dtype of the rows; that of the stage input by default")
    start: list[Whole] = Field([], description="rows after a reset")


class RegionDoc(Closed):
    """One piece of streaming state."""

    leaves: list[LeafPath] | None = Field(None, description="paths into the model's state; its name by default")
    dtype: Dtype = Field("float32", description="dtype of every leaf")
    shape: list[Expr] = Field(description="dims of every leaf; `t` is the length", examples=["[1, 8, t, 64]"])
    axis: Whole | None = Field(None, description="position of `t`, checked")
    clock: Name | None = Field(None, description="clock whose ticks are the length")
    start: Start | None = Field(None, description="length at the start, or `absent` where the state holds None")
    retain: RetainValue = Field(values.Retain("fixed"), description="what happens to the length as the clock advances")
    layout: Layout = Field("kept", description="`contiguous` normalises strides, if the bits agree")
    stock_bytes: Expr | None = Field(None, description="bytes that the released code allocates for it, for `explain`")


class StageInputDoc(Closed):
    """A named input of a stage: a tensor, or a literal with its choices."""

    dtype: Dtype | None = Field(None, description="float32 by default")
    range: list[Expr] | None = Field(None, description="lowest and highest value, for checks on random values")
    choices: list[LiteralValue] | None = Field(None, description="values of an input that is no tensor")


class StageDoc(Closed):
    """A function of named tensors."""

    reads: list[Ref] | None = Field(None, description="regions read; all by default where there is one stage")
    writes: list[Ref] | None = Field(None, description="regions written; likewise")
    args: list[Name] = Field([], description="counters and lets whose values the stage depends on")
    inputs: Annotated[dict[Name, Annotated[StageInputDoc, _MAY_BE_EMPTY]], _LIST_OR_MAPPING] = Field(
        {}, description="inputs in the order of the function"
    )
    outputs: list[Name] = Field([], description="outputs in flattening order")
    repeat: dict[Name, Expr] | None = Field(None, description="index and count: the stage runs once per value")


def _read_event_input(value: Any, read_shape: ValidatorFunctionWrapHandler) -> Any:
    if isinstance(value, list):
        return tuple(read_shape(value))
    if isinstance(value, dict) or value is None:
        raise _carried(values.wrong("not a shape or a literal", "a shape such as `[1, n]`, or a literal", value))
    return _call(values.read_literal, value)


EventInputValue = Annotated[
    Any,
    _Through(list[Expr], _read_event_input),
    PlainSerializer(lambda value: [str(dim) for dim in value] if isinstance(value, tuple) else value),
    WithJsonSchema({
        "anyOf": [
            {"type": "array", "items": {"type": ["integer", "string"]}}, {"type": ["boolean", "integer", "string"]},
        ]
    }),
]  # fmt: skip


class EventDoc(Closed):
    """Something that happens to a session."""

    internal: Bool = Field(False, description="follows by itself whenever its guard holds")
    when: Expr | None = Field(None, description="guard")
    choose: dict[Name, SpanText] = Field({}, description="numbers that the caller picks, such as `n: 0..25`")
    let: dict[Name, Expr] = Field({}, description="values used by the lines that follow, in written order")
    inputs: Annotated[dict[Name, EventInputValue], _LIST_OR_MAPPING] = Field(
        {}, description="shapes or literals, such as `x: [1, 80]`"
    )
    advance: dict[Name, Expr] = Field({}, description="ticks of one clock; the others follow by their rates")
    run: list[Name] = Field([], description="stages, in order")
    do: dict[Name, Expr] = Field({}, description="new values of counters, all computed from the old ones")
    restart: list[RegionName] = Field([], description="regions that a stage returns at their start length")
    reset: Bool = Field(False, description="return every region, counter and queue to its start")
    outputs: list[Name] | None = Field(
        None, description="outputs for the caller; by default those no later stage takes"
    )


class Document(Closed):
    """A clock spec: how every piece of streaming state advances, and how long it is kept."""

    cadence_spec: Version = Field(description="version of the language", examples=[1])
    model: ModelDoc = Field(
        description="which model this is, and how it is built", examples=["{name: codec, entry: ./codec.py:build}"]
    )
    numerics: dict[Name, OptionValue] = Field({}, description="numeric switches of stock and replay alike")
    cadence: Time | None = Field(None, description="real-time budget of one external event")
    clocks: dict[Name, Rate] = Field({}, description="rates")
    params: dict[Name, Expr] = Field({}, description="constants fixed at compile time")
    counters: dict[Name, Annotated[CounterDoc, _START_ALONE]] = Field(
        {}, description="integers that the host keeps, with their start values"
    )
    queues: dict[Name, QueueDoc] = Field({}, description="inputs whose rows the host holds back")
    regions: dict[RegionName, RegionDoc] = Field({}, description="the streaming state")
    stages: dict[Name, StageDoc] = Field(
        description="the functions that events run", examples=["{step: {inputs: {x: {}}, outputs: [y]}}"]
    )
    events: dict[Name, EventDoc] = Field(
        description="what happens to a session", examples=["{frame: {inputs: {x: [1, 80]}, run: [step]}}"]
    )
    horizon: HorizonText | None = Field(None, description="bound on a session between resets")


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a clock spec, for editors."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "cadencec clock spec"}
    closed: dict[str, Any] = _closed(Document.model_json_schema())
    return closed | head


def _closed(node: Any) -> Any:
    """Return a schema whose tables take no keys but names."""
    if isinstance(node, list):
        return [_closed(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {key: _closed(value) for key, value in node.items()} | (
        {"additionalProperties": False} if "patternProperties" in node else {}
    )
