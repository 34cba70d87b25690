"""The second reader reads graphs by templates: a section built by hand, and each way to break the page's sentences."""

import struct
from typing import Any

import pytest

from tests.format.forge import join, sections
from tests.format.plans import cuda_example
from tests.format.second_reader import Refused, graphs, read

Parts = dict[str, Any]
VALUES = [bytes(64), bytes(range(64)), b"\xff" * 64, b"\x01" * 64]
STRINGS = [b"digest", b"lib", b"add", b"aten::add", b"aten::zero_"]
LAUNCH = [0, 2, 1, 1, 128, 1, 1, 0]
FILL, COPY = [16, 0, 4, 1], [16, 2, 3, 32, 4, 48, 5]
OFFSETS, GENERATOR = [256, 512, 768, 1024], [4096, 4]
MIXED: Parts = {
    "ops": [3, 4],
    "nodes": [[0, 0, 12, 0], [1, 1, 4, 0], [2, 1, 0, 0]],
    "relocations": [[0, 0], [1, 0], [2, 0], [2, 8]],
    "edges": [[0, 1, 0, 0, 0], [1, 2, 1, 0, 255]],
    "draws": 1,
    "first": [*LAUNCH, 0, 1, -7, 5, *FILL, *COPY, *OFFSETS, *GENERATOR],
    "places": [1, 9, 10, 28],
    "others": [[3, 2, -9, 4], [2, 1, 8, 6]],
}
BARE: Parts = {
    "ops": [4],
    "nodes": [[0, 0, 0, 1], [0, 0, 0, 2]],
    "relocations": [],
    "edges": [],
    "draws": 0,
    "first": [*LAUNCH, *LAUNCH, 3],
    "places": [],
    "others": [],
}
SECTION: Parts = {
    "form": 3,
    "head": [1 << 40, 9, 0, 13000],
    "strings": STRINGS,
    "images": [[0, 1, 7]],
    "globals": [],
    "kernels": [[0, 2, 2, 0, 8, 8, 4, 1, 8, -1]],
    "snapshots": [],
    "values": VALUES,
    "sets": [[4, 2], [], [9]],
    "templates": [MIXED, BARE],
    "graphs": [0, 1, 0, 0],
    "launches": [[0, 1, 64, 128, 8, 0], [1, 0, 0], [2, 0, 0], [3, 0, 1, 128, 64, 8]],
}


def words(data: bytes) -> list[int]:
    padded = data + bytes(-len(data) % 8)
    return list(struct.unpack(f"<{len(padded) // 8}q", padded))


def flat(rows: list[list[int]]) -> list[int]:
    return [len(rows), *(word for row in rows for word in row)]


def template(parts: Parts) -> list[int]:
    lists = [
        len(parts["ops"]),
        *parts["ops"],
        *flat(parts["nodes"]),
        *flat(parts["relocations"]),
        *flat(parts["edges"]),
    ]
    places = [len(parts["places"]), *parts["places"]]
    return [*lists, parts["draws"], *parts["first"], *places, *flat(parts["others"])]


def section(**changes: Any) -> bytes:
    """The section, some of its lists changed."""
    parts = SECTION | changes
    found = [parts["form"], *parts["head"], *flat([[len(each), *words(each)] for each in parts["strings"]])]
    for name in ("images", "globals", "kernels", "snapshots"):
        found += flat(parts[name])
    found += flat([words(value) for value in parts["values"]])
    found += flat([[len(each), *each] for each in parts["sets"]])
    found += flat([template(each) for each in parts["templates"]])
    found += [len(parts["graphs"]), *parts["graphs"], *flat(parts["launches"])]
    return struct.pack(f"<{len(found)}q", *found)


def mixed(**changes: Any) -> bytes:
    """The section, its first template changed."""
    return section(templates=[MIXED | changes, BARE])


def bare(**changes: Any) -> bytes:
    """The section, its second template changed."""
    return section(templates=[MIXED, BARE | changes])


def first(number: int, value: int) -> bytes:
    """The section, one number of its first graph changed."""
    return mixed(first=[*MIXED["first"][:number], value, *MIXED["first"][number + 1 :]])


def launch(attributes: list[Any], params: bytes = b"", **changes: Any) -> Parts:
    node = {"kernel": 0, "grid": [2, 1, 1], "block": [128, 1, 1], "shared_bytes": 0, "op": 0}
    return node | {"attributes": attributes, "params": params} | changes


def graph(nodes: list[Parts], step: int) -> Parts:
    """A graph of the first template."""
    fill = {"pitch": 16, "value": 0, "element_bytes": 4, "width": 4, "height": 1, "op": 1}
    copy = {"width": 16, "height": 2, "depth": 3, "destination_pitch": 32, "destination_height": 4, "op": 1}
    spots = zip(MIXED["relocations"], OFFSETS, strict=True)
    return {
        "nodes": [*nodes, fill, copy | {"source_pitch": 48, "source_height": 5}],
        "relocations": [{"node": node, "word": word, "offset": offset} for (node, word), offset in spots],
        "edges": [{"before": 0, "after": 1, "data": [0, 0, 0]}, {"before": 1, "after": 2, "data": [1, 0, 255]}],
        "ops": ["aten::add", "aten::zero_"],
        "philox": [4096, step],
    }


def test_a_section_in_full() -> None:
    """The list of graphs takes the rows of each template in their order."""
    params = [struct.pack("<qi", word, 5) for word in (-7, -9, 8)]
    bare_graph = {
        "nodes": [launch([]), launch([[9, VALUES[3]]])],
        "relocations": [],
        "edges": [],
        "ops": ["aten::zero_"],
        "philox": None,
    }
    assert graphs.decode(section()) == {
        "base": 1 << 40,
        "compute_capability": [9, 0],
        "driver": 13000,
        "images": [{"sha256": "digest", "library": "lib", "blob": 7}],
        "globals": [],
        "kernels": [
            {"image": 0, "name": "add", "param_offsets": [0, 8], "param_sizes": [8, 4], "attributes": [[8, -1]]}
        ],
        "graphs": [
            graph([launch([[4, VALUES[0]], [2, VALUES[1]]], params[0])], 4),
            bare_graph,
            graph([launch([[4, VALUES[0]], [2, VALUES[2]]], params[1], grid=[3, 1, 1])], 4),
            graph([launch([[4, VALUES[0]], [2, VALUES[1]]], params[2])], 6),
        ],
        "snapshots": [],
        "launches": [
            {"graph": 0, "before": [{"destination": 64, "source": 128, "size_bytes": 8}], "after": []},
            {"graph": 1, "before": [], "after": []},
            {"graph": 2, "before": [], "after": []},
            {"graph": 3, "before": [], "after": [{"destination": 128, "source": 64, "size_bytes": 8}]},
        ],
    }


def test_without_launches_their_count_is_0() -> None:
    found, launched = graphs.decode(section(launches=[])), graphs.decode(section())
    assert found is not None
    assert launched is not None
    assert found == launched | {"launches": []}


BIG: Parts = BARE | {"ops": [3], "nodes": [[0, 0, 1 << 17, 0]], "first": [*LAUNCH, *[0] * (1 << 14)]}
BROKEN: dict[str, tuple[bytes, str]] = {
    "another form": (section(form=4), "word 0"),
    "an early end": (section()[:-8], "ends early"),
    "a late end": (section() + bytes(8), "goes on"),
    "a string twice": (section(strings=[*STRINGS[:4], b"aten::add"]), "nothing twice"),
    "a string unused": (section(strings=[*STRINGS, b"more"]), "unused"),
    "a string out of order": (mixed(ops=[4, 3]), "order of first use"),
    "a long string": (section(strings=[*STRINGS[:4], b"x" * ((1 << 20) + 1)]), "2.20 bytes"),
    "an op that is no text": (section(strings=[*STRINGS[:4], b"\xff"]), "UTF-8"),
    "a value twice": (section(values=[*VALUES[:3], VALUES[1]]), "nothing twice"),
    "a value unused": (section(values=[*VALUES, b"\2" * 64]), "unused"),
    "a value that is not there": (section(values=VALUES[:3]), "order of first use"),
    "a value of a row before the first graph's": (first(9, 2), "order of first use"),
    "values of templates out of order": (bare(first=[*LAUNCH, *LAUNCH, 4]), "order of first use"),
    "a set twice": (section(sets=[[4, 2], [], [4, 2]]), "nothing twice"),
    "a set unused": (section(sets=[[4, 2], [], [9], [3]]), "unused"),
    "a set that is not there": (section(sets=[[4, 2], []]), "order of first use"),
    "a set out of order": (bare(nodes=[[0, 0, 0, 2], [0, 0, 0, 1]]), "order of first use"),
    "a negative attribute": (section(sets=[[4, 2], [], [-9]]), "is not from 0"),
    "a kind that is not there": (mixed(nodes=[[3, 0, 12, 0], *MIXED["nodes"][1:]]), "is not from 0 to 3"),
    "a copy with a size": (mixed(nodes=[*MIXED["nodes"][:2], [2, 1, 1, 0]]), "a copy has no size"),
    "a fill with a set": (mixed(nodes=[MIXED["nodes"][0], [1, 1, 4, 1], [2, 1, 0, 0]]), "only a launch has a set"),
    "a copy with a set": (mixed(nodes=[*MIXED["nodes"][:2], [2, 1, 0, 1]]), "only a launch has a set"),
    "a negative size": (mixed(nodes=[[0, 0, -1, 0], *MIXED["nodes"][1:]]), "is not from 0"),
    "a size beyond the section": (mixed(nodes=[[0, 0, 1 << 60, 0], *MIXED["nodes"][1:]]), "ends early"),
    "a port of 256": (mixed(edges=[[0, 1, 256, 0, 0]]), "is not from 0 to 256"),
    "a negative relocation": (mixed(relocations=[[0, -8], *MIXED["relocations"][1:]]), "is not from 0"),
    "graphs that draw twice": (mixed(draws=2), "is not from 0 to 2"),
    "a negative kernel": (first(0, -1), "is not from 0"),
    "a negative number of a fill": (first(12, -1), "is not from 0"),
    "a negative number of a copy": (first(22, -1), "is not from 0"),
    "a negative offset": (first(23, -1), "is not from 0"),
    "a negative step": (first(28, -1), "is not from 0"),
    "a negative number of a row": (mixed(others=[[-3, 2, -9, 4], [2, 1, 8, 6]]), "is not from 0"),
    "parameters without zeros": (first(11, 1 << 32), "zeros behind parameters"),
    "a row's without zeros": (mixed(places=[1, 9, 11, 28], others=[[3, 2, -1, 4], [2, 1, 5, 6]]), "zeros behind param"),
    "places that descend": (mixed(places=[1, 10, 9, 28]), "places ascend"),
    "a place twice": (mixed(places=[1, 9, 9, 28]), "places ascend"),
    "a place that is not there": (mixed(places=[1, 9, 10, 29]), "is not from 0 to 29"),
    "a place where all are alike": (mixed(others=[[2, 2, -9, 4], [2, 1, 8, 6]]), "graphs differ at each place"),
    "places without other graphs": (bare(places=[1]), "no places without other graphs"),
    "a template twice": (section(templates=[MIXED, BARE, BARE], graphs=[0, 1, 2, 0, 0]), "templates differ"),
    "a template unused": (section(graphs=[0, 0, 0]), "unused"),
    "templates out of order": (section(graphs=[1, 0, 0, 0]), "order of first use"),
    "a graph of no template": (section(graphs=[0, 1, 0, 2]), "order of first use"),
    "a graph without a row": (section(graphs=[0, 1, 0, 0, 0]), "as many graphs as rows"),
    "a row without a graph": (section(graphs=[0, 1, 0]), "as many graphs as rows"),
    "launches that say nothing": (section(launches=[[number, 0, 0] for number in range(4)]), "say something"),
    "a 2 without launches": (struct.pack("<18q", 2, *[0] * 10, 1, *[0] * 6) + bytes(8), "launches that are there"),
    "more than 2^29 words": (
        section(values=[], sets=[[]], templates=[BIG | {"others": [[]] * (1 << 15)}], graphs=[0] * ((1 << 15) + 1)),
        "at most 2.29 words",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_sections(what: str) -> None:
    data, message = BROKEN[what]
    with pytest.raises(Refused, match=message):
        graphs.decode(data)


def by_templates(part: Parts) -> bytes:
    """The graphs of `cuda_example` by templates: of one that does not draw, and of the others, which are all alike."""
    image, variable, kernel, snapshot = (part[name][0] for name in ("images", "globals", "kernels", "snapshots"))
    names = [image["sha256"], image["library"], variable["name"], kernel["name"], snapshot["name"]]
    strings = [name.encode() for name in [*names, *part["graphs"][0]["ops"]]]
    params = zip(kernel["param_offsets"], kernel["param_sizes"], strict=True)
    node, fill, copy = part["graphs"][0]["nodes"]
    numbers = [node["kernel"], *node["grid"], *node["block"], node["shared_bytes"], 0, *words(node["params"])]
    numbers += [fill[name] for name in ("pitch", "value", "width", "height")]
    numbers += [word for name, word in copy.items() if name != "op"]
    relocations = part["graphs"][0]["relocations"]
    quiet = {
        "ops": [6, 7, 8],
        "nodes": [[0, 0, len(node["params"]), 0], [1, 1, fill["element_bytes"], 0], [2, 2, 0, 0]],
        "relocations": [[each["node"], each["word"]] for each in relocations],
        "edges": [[edge["before"], edge["after"], *edge["data"]] for edge in part["graphs"][0]["edges"]],
        "draws": 0,
        "first": numbers + [each["offset"] for each in relocations],
        "places": [],
        "others": [],
    }
    alike = [[]] * (len(part["graphs"]) - 2)
    draws = quiet | {"draws": 1, "first": quiet["first"] + part["graphs"][1]["philox"], "others": alike}
    return section(
        head=[part["base"], *part["compute_capability"], part["driver"]],
        strings=[*strings[:3], variable["data"], *strings[3:]],
        images=[[0, 1, image["blob"]]],
        globals=[[variable["image"], 2, 3, *flat(variable["pointers"])]],
        kernels=[[kernel["image"], 4, *flat([list(pair) for pair in params]), *flat(kernel["attributes"])]],
        snapshots=[[5, snapshot["offset"], snapshot["size_bytes"], 0]],
        values=[node["attributes"][0][1]],
        sets=[[node["attributes"][0][0]]],
        templates=[quiet, draws],
        graphs=[0] + [1] * (len(alike) + 1),
        launches=[],
    )


def test_a_plan_by_templates_is_the_same_plan() -> None:
    parts = sections(cuda_example())
    plan = read(join(parts))
    assert read(join(parts | {"graphs": by_templates(plan["cuda"])}, 2)) == plan


@pytest.mark.parametrize("minor", [0, 1, 3])
def test_templates_are_of_version_2(minor: int) -> None:
    parts = sections(cuda_example())
    cuda = graphs.decode(parts["graphs"])
    assert cuda is not None
    with pytest.raises(Refused, match="version"):
        read(join(parts | {"graphs": by_templates(cuda)}, minor))


def test_version_2_is_of_templates() -> None:
    with pytest.raises(Refused, match="the oldest version"):
        read(join(sections(cuda_example()), 2))
