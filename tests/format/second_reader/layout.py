"""The page's rule 3: where things lie in the arena."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from . import rules
from .refused import need

Data = dict[str, Any]
Place = tuple[int, int]
"""The half-open range of bytes that something takes."""


def check(plan: Data) -> None:
    sections = {section["name"]: section for section in plan["sections"]}
    names = ["weights", "constants", "state", "io", "scratch"]
    allowed = [[*names, "library"], [*names, "rows", "library"]] if plan["target"] == "cuda" else [names]
    need([section["name"] for section in plan["sections"]] in allowed, "the sections of an arena, in order")
    at = 0
    for section in plan["sections"]:
        need(section["offset"] % 256 == 0 and section["offset"] >= at, "sections follow one another")
        at = section["offset"] + section["size_bytes"]
    need(at <= 1 << 46, "an arena has at most 2^46 bytes")
    apart([(each["offset"], weight_bytes(each)) for each in plan["weights"]], sections["weights"])
    apart([(each["offset"], each["size_bytes"]) for each in plan["constants"]], sections["constants"])
    apart([(each["slot_offset"], each["slot_bytes"]) for each in plan["leaves"]], sections["state"])
    for form in filter(rules.is_tensor, plan["forms"]):
        need(rules.span(form) <= plan["leaves"][form["slot"]]["slot_bytes"], "slots hold every form")
    apart(list(ends(plan)), sections["io"])
    snapshots = plan["cuda"]["snapshots"] if plan["cuda"] else []
    taken = sorted((each["offset"], each["offset"] + each["size_bytes"]) for each in snapshots if each["size_bytes"])
    need(all(one[1] <= other[0] for one, other in pairwise(taken)), "snapshots share no byte")
    for capture in plan["captures"]:
        check_capture(plan, capture, sections)


def weight_bytes(weight: Data) -> int:
    size = rules.ITEM[weight["dtype"]]
    for each in weight["sizes"]:
        size *= each
    return size


def apart(places: list[Place], section: Data) -> None:
    """Check (offset, size) pairs: aligned, inside, no byte shared."""
    for offset, size in places:
        need(offset % 256 == 0, "everything starts on 256 bytes")
        need(offset + size <= section["size_bytes"], "everything lies inside its section")
    taken = sorted((offset, offset + size) for offset, size in places if size)
    need(all(a[1] <= b[0] for a, b in pairwise(taken)), "no byte is shared")


def ends(plan: Data) -> Iterator[Place]:
    """Yield (offset, size) of each input and output; captures of one stage have theirs in common."""
    places: dict[tuple[Any, ...], int] = {}
    for capture in plan["captures"]:
        tape = plan["tapes"][capture["tape"]]
        sides = (capture["key"]["inputs"], capture["input_offsets"]), (capture["outputs"], capture["output_offsets"])
        for side, (forms, offsets) in zip(("inputs", "outputs"), sides, strict=True):
            for form, offset, binding in zip(forms, offsets, tape[side], strict=True):
                name = tape["stage"], side, binding["name"], offset
                size = rules.span(form) if rules.is_tensor(form) else 0
                places[name] = max(places.get(name, 0), size)
    for name, size in places.items():
        yield name[-1], size


def check_capture(plan: Data, capture: Data, sections: dict[str, Data]) -> None:
    tape = plan["tapes"][capture["tape"]]
    check_reach(plan, capture, tape)
    check_scratch(capture["scratch"], tape, sections["scratch"])


def check_reach(plan: Data, capture: Data, tape: Data) -> None:
    """Check that what a tape touches lies within what is there."""
    room: dict[tuple[str, str], int] = {}
    room |= {("weight", each["name"]): weight_bytes(each) for each in plan["weights"]}
    room |= {("constant", each["sha256"]): each["size_bytes"] for each in plan["constants"]}
    for leaf, form in capture["key"]["state"]:
        slot = plan["forms"][form].get("slot")
        if slot is not None:
            room["leaf", plan["leaves"][leaf]["path"]] = plan["leaves"][slot]["slot_bytes"]
    for form, binding in zip(capture["key"]["inputs"], tape["inputs"], strict=True):
        room["input", binding["name"]] = rules.span(form) if rules.is_tensor(form) else 0
    for number, storage in enumerate(tape["storages"]):
        if storage["kind"] != "scratch":
            name = storage["kind"], storage["name"]
            need(name in room, "storages exist")
            need(reach(tape, number) <= room[name], "what a tape touches lies within it")


def reach(tape: Data, storage: int) -> int:
    """Return how many bytes of a storage the views of a tape touch."""
    values = [binding["value"] for part in ("inputs", "state_in", "outputs", "state_out") for binding in tape[part]]
    values += [value for op in tape["ops"] for value in rules.of_op(op)]
    views = [value for value in values if rules.is_tensor(value) and value["storage"] == storage]
    return max(map(rules.span, views), default=0)


def check_scratch(scratch: list[list[int]], tape: Data, section: Data) -> None:
    rules.ascending([storage for storage, _ in scratch], "scratch storages")
    for storage, offset in scratch:
        need(storage < len(tape["storages"]), "a storage that is there")
        need(tape["storages"][storage]["kind"] == "scratch", "only scratch is placed")
        apart([(offset, tape["storages"][storage]["size_bytes"])], section)
    lives = {storage: life(tape, storage) for storage, _ in scratch}
    for number, (storage, offset) in enumerate(scratch):
        for other, at in scratch[:number]:
            together = lives[storage][0] <= lives[other][1] and lives[other][0] <= lives[storage][1]
            if together:
                mine, its = tape["storages"][storage]["size_bytes"], tape["storages"][other]["size_bytes"]
                apart([(offset, mine), (at, its)], section)


def life(tape: Data, storage: int) -> tuple[int, int]:
    """Return the first and the last op that uses a storage; what goes out lives behind the last op."""
    uses = [number for number, op in enumerate(tape["ops"]) if storage in op["reads"] + op["writes"]]
    results = [binding["value"] for part in ("outputs", "state_out") for binding in tape[part]]
    if any(rules.is_tensor(value) and value["storage"] == storage for value in results):
        uses.append(len(tape["ops"]))
    return (min(uses), max(uses)) if uses else (len(tape["ops"]) + 1, -1)
