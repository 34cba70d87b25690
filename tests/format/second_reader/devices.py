"""The page's rule 4: what a graph may do."""

from itertools import pairwise
from typing import Any

from . import cubins, rules
from .refused import need

Data = dict[str, Any]


def check(plan: Data) -> None:
    part = plan["cuda"]
    check_launches(plan, part)
    end = max(section["offset"] + section["size_bytes"] for section in plan["sections"])
    images: list[cubins.Sections] = []
    for image in part["images"]:
        need(image["library"].isprintable(), "names are printable")
        rules.blob(plan, image["blob"], None, image["sha256"])
        images.append(cubins.sections(plan["blobs"][image["blob"]]))
    for variable in part["globals"]:
        check_variable(variable, part, end)
    for kernel in part["kernels"]:
        check_kernel(kernel, images)
    for snapshot in part["snapshots"]:
        check_snapshot(snapshot, plan, end)
    for graph in part["graphs"]:
        check_graph(graph, part, end)


def check_launches(plan: Data, part: Data) -> None:
    rows = part["launches"] or [{"graph": n, "before": [], "after": []} for n in range(len(part["graphs"]))]
    need(len(rows) == len(plan["captures"]), "each capture has its launch")
    need({row["graph"] for row in rows} == set(range(len(part["graphs"]))), "graphs that are launched")
    inside = {s["name"]: range(s["offset"], s["offset"] + s["size_bytes"] + 1) for s in plan["sections"]}
    spots = [inside[name] for name in ("weights", "constants", "state")], [inside.get("rows", range(0))]
    for row in rows:
        check_moves(row["before"], spots[1], spots[0])
        check_moves(row["after"], spots[0][2:], spots[1])


def check_moves(moves: list[Data], into: list[range], out_of: list[range]) -> None:
    taken: list[tuple[int, int]] = []
    for move in moves:
        size = move["size_bytes"]
        need(size > 0, "a move of something")
        for start, allowed in ((move["destination"], into), (move["source"], out_of)):
            need(any(start in spot and start + size in spot for spot in allowed), "a move between its sections")
        taken.append((move["destination"], move["destination"] + size))
    need(all(one[1] <= other[0] for one, other in pairwise(sorted(taken))), "moves write bytes of their own")


def check_variable(variable: Data, part: Data, end: int) -> None:
    need(variable["image"] < len(part["images"]), "an image that is there")
    need(variable["name"].isprintable(), "names are printable")
    places = [place for place, _ in variable["pointers"]]
    need(all(place + 8 <= len(variable["data"]) for place in places), "pointers lie in their variable")
    need(all(a + 8 <= b for a, b in pairwise(places)), "pointers are sorted and share no byte")
    need(all(offset <= end for _, offset in variable["pointers"]), "pointers lie in the arena")


def check_kernel(kernel: Data, images: list[cubins.Sections]) -> None:
    need(kernel["image"] < len(images), "an image that is there")
    image = images[kernel["image"]]
    need(kernel["name"].isprintable(), "names are printable")
    params = list(zip(kernel["param_offsets"], kernel["param_sizes"], strict=True))
    need(all(a[0] + a[1] <= b[0] for a, b in pairwise(params)), "parameters are sorted and share no byte")
    need(all(offset + size <= 32764 for offset, size in params), "at most 32764 bytes of parameters")
    need(f".text.{kernel['name']}" in image, "code of a kernel")
    need(cubins.parameters(image, kernel["name"]) in ([], params), "parameters as the image has them")
    rules.ascending([attribute for attribute, _ in kernel["attributes"]], "attributes")
    need({attribute for attribute, _ in kernel["attributes"]} <= {8, 9, 11, 12, 13, 14, 15}, "attributes of functions")
    need(all(-(1 << 31) <= value < 1 << 31 for _, value in kernel["attributes"]), "attributes of 32 bits")


def check_snapshot(snapshot: Data, plan: Data, end: int) -> None:
    need(snapshot["name"].isprintable(), "names are printable")
    need(snapshot["offset"] + snapshot["size_bytes"] <= end, "snapshots lie in the arena")
    if snapshot["blob"] is not None:
        need(snapshot["blob"] < len(plan["blobs"]), "a blob that is there")
        need(len(plan["blobs"][snapshot["blob"]]) == snapshot["size_bytes"], "a blob of this size")


def check_graph(graph: Data, part: Data, end: int) -> None:
    need(all(name.isprintable() for name in graph["ops"]), "names are printable")
    if graph["philox"]:
        need(graph["philox"][0] + 16 <= end, "generator words lie in the arena")
    relocations: list[dict[int, int]] = [{} for _ in graph["nodes"]]
    rules.ascending([(each["node"], each["word"]) for each in graph["relocations"]], "relocations")
    for each in graph["relocations"]:
        need(each["node"] < len(graph["nodes"]), "a node that is there")
        relocations[each["node"]][each["word"]] = each["offset"]
    rules.ascending([(edge["before"], edge["after"], edge["data"]) for edge in graph["edges"]], "edges")
    pairs = [(edge["before"], edge["after"]) for edge in graph["edges"]]
    need(all(before < after < len(graph["nodes"]) for before, after in pairs), "edges lead forward")
    need(len(set(pairs)) == len(pairs), "edges stand once")
    for node, words in zip(graph["nodes"], relocations, strict=True):
        need(node["op"] < len(graph["ops"]), "an op that is there")
        if "kernel" in node:
            check_launch(node, words, part, end)
        else:
            check_box(node, words, end)


def check_launch(node: Data, words: dict[int, int], part: Data, end: int) -> None:
    need(node["kernel"] < len(part["kernels"]), "a kernel that is there")
    kernel = part["kernels"][node["kernel"]]
    sizes = [a + b for a, b in zip(kernel["param_offsets"], kernel["param_sizes"], strict=True)]
    need(len(node["params"]) == max(sizes, default=0), "parameters of the kernel's size")
    need(all(word + 8 <= len(node["params"]) for word in words), "relocations lie in the parameters")
    need(all(a + 8 <= b for a, b in pairwise(sorted(words))), "relocations share no byte")
    need(all(offset <= end for offset in words.values()), "pointers lie in the arena")
    need(all(1 <= each < 1 << 31 for each in node["grid"][:1]), "a grid that a device takes")
    need(all(1 <= each <= 65535 for each in node["grid"][1:]), "a grid that a device takes")
    x, y, z = node["block"]
    need(min(x, y, z) > 0 and x <= 1024 and y <= 1024 and z <= 64 and x * y * z <= 1024, "a block that a device takes")
    need(node["shared_bytes"] <= 1 << 20, "shared memory that a device has")
    need(all(len(data) == 64 for _, data in node["attributes"]), "attributes have 64 bytes")
    rules.ascending([attribute for attribute, _ in node["attributes"]], "attributes")
    given = {attribute for attribute, data in node["attributes"] if any(data)}
    need(given <= {2, 3, 4, 5, 6, 8, 9, 10, 11, 14}, "attributes without addresses and handles")


def check_box(node: Data, words: dict[int, int], end: int) -> None:
    if "value" in node:
        need(list(words) == [0], "a fill has one address")
        need(node["element_bytes"] in (1, 2, 4), "elements of 1, 2 or 4 bytes")
        need(node["value"] < 1 << (8 * node["element_bytes"]), "a value of an element")
        width = node["width"] * node["element_bytes"]
        inside(words[0], width, node["height"], node["pitch"], 1, 1, end)
    else:
        need(list(words) == [0, 8], "a copy has two addresses")
        for word, side in ((0, "destination"), (8, "source")):
            pitch, rows = node[f"{side}_pitch"], node[f"{side}_height"]
            inside(words[word], node["width"], node["height"], pitch, node["depth"], rows, end)


def inside(at: int, width: int, height: int, pitch: int, depth: int, rows: int, end: int) -> None:
    """Check the last byte of a box of bytes, rows and slices."""
    if 0 in (width, height, depth):
        width = height = depth = 0
    need(at <= end, "fills and copies lie in the arena")
    need(
        width == 0 or at + ((depth - 1) * rows + height - 1) * pitch + width <= end, "fills and copies lie in the arena"
    )
