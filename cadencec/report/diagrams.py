"""Two diagrams as plain geometry: which stage reads and writes which region, and how a session moves."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import networkx as nx

from cadence_runtime.host.program import ABSENT
from cadencec.report.text import counted
from cadencec.timeline import Timeline
from cadencec.timeline.graph import dependencies

ROW, BOX, REGION_X, REGION_WIDTH, STAGE_X, STAGE_WIDTH = 34, 26, 8, 250, 460, 220
STATE_WIDTH, STATE_HEIGHT, COLUMN, LINE = 132, 44, 178, 62
MOST_STATES = 24
"""States that a diagram shows; of a longer timeline only the common path is drawn."""


@dataclass(frozen=True, slots=True)
class Box:
    """A node: where it is, two lines of text, and what it is (`region`, `stage`, `state`, `steady`)."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    text: str
    more: str
    title: str


@dataclass(frozen=True, slots=True)
class Link:
    """An edge as an SVG path, with the place of its label; `kind` is `read`, `write`, `tensor`, `push` or `steady`."""

    path: str
    kind: str
    title: str
    text: str = ""
    x: float = 0
    y: float = 0


@dataclass(frozen=True, slots=True)
class Diagram:
    """`folded` counts the states that are not drawn."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    links: tuple[Link, ...]
    folded: int = 0


def region_diagram(timeline: Timeline) -> Diagram:
    """Return regions on the left, stages on the right, and what flows between them."""
    program, graph = timeline.program, dependencies(timeline.program)
    rates = nx.get_node_attributes(graph, "rate_hz")
    boxes: list[Box] = []
    rows: dict[tuple[str, str], float] = {}
    for number, region in enumerate(program.regions):
        rate = rates.get(("region", region.name))
        kind = region.retention.kind + (f" {region.retention.cap}" if region.retention.cap is not None else "")
        more = kind + (f", {rate} Hz" if rate else "")
        y = rows["region", region.name] = float(number * ROW)
        boxes.append(Box(REGION_X, y, REGION_WIDTH, BOX, "region", region.name, more, f"region {region.name}: {more}"))
    gap = max(ROW, len(program.regions) * ROW / max(len(program.stages), 1))
    for number, stage in enumerate(program.stages):
        y = rows["stage", stage.name] = number * gap + (gap - ROW) / 2
        more = f"{stage.repeat[1]} times" if stage.repeat else ""
        boxes.append(Box(STAGE_X, y, STAGE_WIDTH, BOX, "stage", stage.name, more, f"stage {stage.name}"))
    links = tuple(_flows(graph, rows))
    height = max(box.y + box.height for box in boxes) + 8 if boxes else 8
    return Diagram(720, int(height), tuple(boxes), links)


def _flows(graph: "nx.MultiDiGraph[tuple[str, str]]", rows: dict[tuple[str, str], float]) -> Iterator[Link]:
    left, right, middle = REGION_X + REGION_WIDTH, STAGE_X, (REGION_X + REGION_WIDTH + STAGE_X) / 2
    for source, target, data in graph.edges(data=True):
        kind = data["kind"]
        if kind == "tensor":
            x, upper, lower = STAGE_X + STAGE_WIDTH, rows[source] + BOX / 2, rows[target] + BOX / 2
            path = f"M{x},{upper} C{x + 34},{upper} {x + 34},{lower} {x},{lower}"
            yield Link(path, kind, f"{source[1]} hands {data['tensor']} to {target[1]}")
            continue
        shift = 8 if kind == "read" else 18
        if kind == "read":
            a, b = (left, rows[source] + shift), (right, rows[target] + shift)
            title = f"{target[1]} reads {source[1]}"
        else:
            a, b = (right, rows[source] + shift), (left, rows[target] + shift)
            title = f"{source[1]} writes {target[1]}"
        yield Link(f"M{a[0]},{a[1]} C{middle},{a[1]} {middle},{b[1]} {b[0]},{b[1]}", kind, title)


def timeline_diagram(timeline: Timeline) -> Diagram:
    """Return configurations at rest from left to right by how many pushes they are away; of a long timeline the common
    path. The steady cycle is marked."""
    cycle = timeline.cycle
    common = (*cycle.entry, *cycle.transitions) if cycle else ()
    steady = set(cycle.transitions) if cycle else set()
    shown = list(timeline.rest)
    if len(shown) > MOST_STATES:
        way = [timeline.transitions[i] for i in common]
        ends = dict.fromkeys([timeline.rest[0], *(t.source for t in way), *(t.target for t in way)])
        shown = (list(ends) if way else shown)[:MOST_STATES]
    moves = _moves(timeline, set(shown), set(common))
    place = _places(timeline.rest[0], shown, moves)
    in_cycle = {timeline.transitions[i].source for i in steady}
    boxes = [_state(timeline, index, place[index], index in in_cycle) for index in shown]
    links = [_push(timeline, ends, numbers, place, steady) for ends, numbers in moves.items()]
    width = max(box.x + box.width for box in boxes) + 12
    height = max([box.y + box.height for box in boxes] + [link.y for link in links]) + 30
    return Diagram(max(int(width), 360), int(height), tuple(boxes), tuple(links), len(timeline.rest) - len(shown))


Moves = dict[tuple[int, int], list[int]]
Places = dict[int, tuple[float, float]]


def _moves(timeline: Timeline, shown: set[int], common: set[int]) -> Moves:
    """Return transitions by their ends; a reset to the start only where it is on the common path."""
    found: Moves = {}
    resets = {i for i, event in enumerate(timeline.program.events) if event.reset}
    for number, taken in enumerate(timeline.transitions):
        if taken.source in shown and taken.target in shown and (taken.event not in resets or number in common):
            found.setdefault((taken.source, taken.target), []).append(number)
    return found


def _places(start: int, shown: Sequence[int], moves: Moves) -> Places:
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(shown)
    graph.add_edges_from(moves)
    depth = nx.single_source_shortest_path_length(graph, start)
    rows: dict[int, int] = {}
    place = {}
    for index in shown:
        column = depth.get(index, len(shown))
        row = rows[column] = rows.get(column, -1) + 1
        place[index] = (8.0 + column * COLUMN, 34.0 + row * LINE)
    return place


def _state(timeline: Timeline, index: int, at: tuple[float, float], steady: bool) -> Box:
    configuration = timeline.configurations[index]
    program = timeline.program
    lengths = [
        f"{region.name} {'absent' if length == ABSENT else length}"
        for region, length in zip(program.regions, configuration.lengths, strict=True)
        if region.clock
    ]
    counters = [f"{c.name} {value}" for c, value in zip(program.counters, configuration.counters, strict=True)]
    words = [*counters, *lengths]
    text, more = f"state {timeline.rest.index(index)}", ", ".join(words)
    title = f"{text}: {more or 'no counters'}"
    return Box(*at, STATE_WIDTH, STATE_HEIGHT, "steady" if steady else "state", text, shortened(more, 20), title)


def shortened(text: str, length: int) -> str:
    """Return a text, cut where it is too long for its place."""
    return text if len(text) <= length else text[: length - 1] + "…"


def _push(timeline: Timeline, ends: tuple[int, int], numbers: list[int], place: Places, steady: set[int]) -> Link:
    events = list(dict.fromkeys(timeline.program.events[timeline.transitions[i].event].name for i in numbers))
    source, target = map(timeline.rest.index, ends)
    text = ", ".join(events)
    title = f"{text}: {counted(len(numbers), 'way')} from state {source} to state {target}"
    kind = "steady" if steady.intersection(numbers) else "push"
    (x, y), (to_x, to_y) = place[ends[0]], place[ends[1]]
    short = shortened(text, 16)
    if ends[0] == ends[1]:
        middle = x + STATE_WIDTH / 2
        path = f"M{middle - 20},{y} C{middle - 26},{y - 30} {middle + 26},{y - 30} {middle + 20},{y}"
        return Link(path, kind, title, short, middle, y - 25)
    if to_x > x:
        a, b = (x + STATE_WIDTH, y + STATE_HEIGHT / 2), (to_x, to_y + STATE_HEIGHT / 2)
        bend = (a[0] + b[0]) / 2
        path = f"M{a[0]},{a[1]} C{bend},{a[1]} {bend},{b[1]} {b[0]},{b[1]}"
        return Link(path, kind, title, short, bend, (a[1] + b[1]) / 2 - 5)
    a, b = (x + STATE_WIDTH / 2, y + STATE_HEIGHT), (to_x + STATE_WIDTH / 2, to_y + STATE_HEIGHT)
    low = max(a[1], b[1]) + 26
    path = f"M{a[0]},{a[1]} C{a[0]},{low} {b[0]},{low} {b[0]},{b[1]}"
    return Link(path, kind, title, short, (a[0] + b[0]) / 2, low)
