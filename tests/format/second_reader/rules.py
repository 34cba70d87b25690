"""The page's rules 1 and 2: what the parts say of one another, and what a tape may say. Calls 3 and 4."""

import hashlib
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from . import devices, layout
from .refused import need
from .tapes import DTYPES

Data = dict[str, Any]
ITEM = dict(zip(DTYPES, (1, 1, 1, 2, 2, 4, 4, 8, 8, 1, 1, 2, 2, 4, 8, 4, 8, 16), strict=True))
INT = "0|-?[1-9][0-9]{0,18}"
HEX = "[0-9a-f]{16}"
LITERALS = {
    "none": "",
    "bool": "true|false",
    "int": INT,
    "float": HEX,
    "complex": f"{HEX},{HEX}",
    "str": "(?s:.*)",
    "dtype": "|".join(DTYPES),
    "device": "target|cpu",
    "layout": "strided",
    "memory_format": "contiguous_format|preserve_format|channels_last|channels_last_3d",
    "generator": "",
}


def check(plan: Data) -> None:
    references(plan)
    for tape in plan["tapes"]:
        check_tape(tape)
    layout.check(plan)
    if plan["cuda"]:
        devices.check(plan)


def span(view: Data) -> int:
    """Return how many bytes from the start of its storage a view or form reaches."""
    if 0 in view["sizes"]:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(view["sizes"], view["strides"], strict=True))
    return int((view["offset"] + last + 1) * ITEM[view["dtype"]])


def shaped(value: Data) -> None:
    """Check that sizes and strides are those of a tensor."""
    need(len(value["sizes"]) == len(value["strides"]) <= 64, "as many strides as sizes, at most 64")
    elements = 1
    for size in value["sizes"]:
        elements *= size or 1
    need(elements < 1 << 63, "fewer than 2^63 elements")


def is_tensor(form: Data) -> bool:
    return "dtype" in form


def unique(names: list[Any], what: str) -> None:
    need(len(set(names)) == len(names), f"{what} have unique names")


def ascending(values: list[Any], what: str) -> None:
    need(all(a < b for a, b in pairwise(values)), f"{what} are sorted, each once")


# References.


def references(plan: Data) -> None:
    need((plan["cuda"] is not None) == (plan["target"] == "cuda"), "a CUDA part for cuda alone")
    unique([leaf["path"] for leaf in plan["leaves"]], "leaves")
    unique([weight["name"] for weight in plan["weights"]], "weights")
    unique([constant["sha256"] for constant in plan["constants"]], "constants")
    if plan["cuda"]:
        unique([image["sha256"] for image in plan["cuda"]["images"]], "images")
        unique([(variable["image"], variable["name"]) for variable in plan["cuda"]["globals"]], "device variables")
    ascending([name for name, _ in plan["provenance"]["environment"]], "environment")
    ascending([name for name, _ in plan["provenance"]["numerics"]], "numerics")
    for weight in plan["weights"]:
        size = ITEM[weight["dtype"]]
        for each in weight["sizes"]:
            size *= each
        if weight["blob"] is None:
            need(bool(plan["weights_file"]) and plan["weights_file"] not in ("..", "."), "a weights file has a name")
            need("/" not in plan["weights_file"] and "\\" not in plan["weights_file"], "a name, not a path")
        else:
            blob(plan, weight["blob"], size, weight["sha256"])
    for constant in plan["constants"]:
        blob(plan, constant["blob"], constant["size_bytes"], constant["sha256"])
    for form in plan["forms"]:
        check_form(form, range(len(plan["leaves"])))
    for capture in plan["captures"]:
        check_capture(plan, capture)


def blob(plan: Data, number: int, size: int | None, sha256: str) -> None:
    need(number < len(plan["blobs"]), "a blob that is there")
    data = plan["blobs"][number]
    need(size in (None, len(data)) and hashlib.sha256(data).hexdigest() == sha256, "a blob with this size and digest")


def check_form(form: Data, slots: range) -> None:
    if is_tensor(form):
        shaped(form)
        need(form["slot"] in slots if slots else form["slot"] == -1, "leaves lie in slots, others do not")
    else:
        check_literal(form)


def check_capture(plan: Data, capture: Data) -> None:
    key = capture["key"]
    need(capture["tape"] < len(plan["tapes"]), "a tape that is there")
    tape = plan["tapes"][capture["tape"]]
    need(key["stage"] == tape["stage"], "the stage of its tape")
    for form in key["inputs"] + capture["outputs"]:
        check_form(form, range(0))
    for forms, offsets, bindings in (
        (key["inputs"], capture["input_offsets"], tape["inputs"]),
        (capture["outputs"], capture["output_offsets"], tape["outputs"]),
    ):
        need(len(forms) == len(offsets) == len(bindings), "as many inputs and outputs as its tape")
    for form, binding in zip(key["inputs"], tape["inputs"], strict=True):
        fits(form, binding["value"], comes_in=True)
    for form, binding in zip(capture["outputs"], tape["outputs"], strict=True):
        fits(form, binding["value"], comes_in=False)
    check_state(plan, key["state"], tape["state_in"], comes_in=True)
    check_state(plan, capture["writes"], tape["state_out"], comes_in=False)


def check_state(plan: Data, pairs: list[list[int]], bindings: list[Data], *, comes_in: bool) -> None:
    ascending([leaf for leaf, _ in pairs], "leaves of a capture")
    values = {binding["name"]: binding["value"] for binding in bindings}
    need(len(values) == len(bindings) == len(pairs), "the leaves of its tape")
    for leaf, form in pairs:
        need(leaf < len(plan["leaves"]) and form < len(plan["forms"]), "leaves and forms that are there")
        path = plan["leaves"][leaf]["path"]
        need(path in values, "the leaves of its tape")
        fits(plan["forms"][form], values[path], comes_in=comes_in)


def fits(form: Data, value: Data, *, comes_in: bool) -> None:
    names = ("dtype", "sizes", "strides", "offset") if comes_in else ("dtype", "sizes")
    need(is_tensor(form) == is_tensor(value), "a literal for a literal")
    if is_tensor(form):
        need(all(form[name] == value[name] for name in names), "the form of its tape")
    else:
        need(form == value, "the literal of its tape")


# Tapes.


def operands(value: Any) -> Iterator[Data]:
    """Yield the views and literals of a value."""
    if isinstance(value, dict):
        yield value
    else:
        for each in value:
            yield from operands(each)


def of_op(op: Data) -> list[Data]:
    return [*operands(op["args"]), *operands([each for _, each in op["kwargs"]]), *operands(op["outs"])]


def check_tape(tape: Data) -> None:
    storages = tape["storages"]
    names = [tape["stage"], *(storage["name"] for storage in storages)]
    for part in ("inputs", "state_in", "outputs", "state_out"):
        own = [binding["name"] for binding in tape[part]]
        unique(own, part)
        names += own
        for binding in tape[part]:
            check_operand(binding["value"], storages)
    need(all(name.isprintable() for name in names), "names are printable")
    for op in tape["ops"]:
        check_op(op, storages)
    need(tape["draws"] == any(op["draws"] for op in tape["ops"]), "a tape draws when an op does")
    unique([(each["kind"], each["name"]) for each in storages if each["kind"] != "scratch"], "storages")
    bound(tape, "inputs", "input")
    bound(tape, "state_in", "leaf")


def bound(tape: Data, part: str, kind: str) -> None:
    """Check that names are bound to storages of that kind, and that each such storage has the name of one of them."""
    values = {binding["name"]: binding["value"] for binding in tape[part] if is_tensor(binding["value"])}
    for value in values.values():
        need(tape["storages"][value["storage"]]["kind"] == kind, f"{part} are bound to {kind} storages")
    for storage in tape["storages"]:
        need(storage["kind"] != kind or storage["name"] in values, f"a {kind} storage has the name of one of them")


def check_operand(value: Data, storages: list[Data]) -> None:
    if not is_tensor(value):
        return check_literal(value)
    shaped(value)
    need(value["storage"] < len(storages), "a storage that is there")
    need(span(value) <= storages[value["storage"]]["size_bytes"], "views lie inside their storages")
    return None


def check_literal(value: Data) -> None:
    need(re.fullmatch(LITERALS[value["kind"]], value["text"]) is not None, "the text of its kind")
    need(value["text"].isprintable() or value["kind"] == "str", "printable text")


def check_op(op: Data, storages: list[Data]) -> None:
    pattern = r"[a-z_]+::[a-zA-Z0-9_]+(\.[a-zA-Z0-9_]+)?"
    need(re.fullmatch(pattern, op["name"]) is not None, "the name of an op")
    need(op["source"].isprintable(), "source lines are printable")
    names = [name for name, _ in op["kwargs"]]
    ascending(names, "kwargs")
    need(all(re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]*", name) for name in names), "names of kwargs")
    used = set(op["reads"] + op["writes"])
    for part in ("reads", "writes"):
        ascending(op[part], part)
    need(all(number < len(storages) for number in used), "storages that are there")
    for value in of_op(op):
        check_operand(value, storages)
        need(not used or not is_tensor(value) or value["storage"] in used, "every storage is read or written")
    made = [value["storage"] for value in operands(op["outs"]) if is_tensor(value)] if used else []
    kinds = [storages[number]["kind"] for number in [*op["writes"], *made]]
    need("weight" not in kinds and "constant" not in kinds, "weights and constants are never written")
