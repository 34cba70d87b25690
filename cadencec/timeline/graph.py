"""The region dependency graph: who reads and writes what, at which rate, and what a changed region reaches.

Stages and regions are nodes; an edge is a read, a write, or a tensor that one stage hands to a later one of its event:

    conformer.att ──read 50 Hz──> encode ──write 50 Hz──> conformer.att
                                  encode ──tensor mu────> denoise
"""

import networkx as nx

from cadence_runtime.host.program import Program

Node = tuple[str, str]
"""A kind (`stage` or `region`) and a name."""


def dependencies(program: Program) -> "nx.MultiDiGraph[Node]":
    """Return stages and regions with their reads, writes and rates, and the tensors that stages hand on."""
    graph: nx.MultiDiGraph[Node] = nx.MultiDiGraph()
    rates = {clock.name: clock.rate_hz for clock in program.clocks}
    for region in program.regions:
        rate = rates[region.clock] if region.clock else None
        graph.add_node(("region", region.name), rate_hz=rate, retention=region.retention.kind)
    for stage in program.stages:
        node = ("stage", stage.name)
        graph.add_node(node)
        for name in stage.reads:
            graph.add_edge(("region", name), node, kind="read", rate_hz=graph.nodes["region", name]["rate_hz"])
        for name in stage.writes:
            graph.add_edge(node, ("region", name), kind="write", rate_hz=graph.nodes["region", name]["rate_hz"])
    for source, target, tensor in handed_on(program):
        graph.add_edge(("stage", source), ("stage", target), kind="tensor", tensor=tensor)
    return graph


def affected_by(program: Program, region: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the stages and the other regions that a change of one region reaches, in the order of the program."""
    reached = nx.descendants(dependencies(program), ("region", region))
    return (
        tuple(stage.name for stage in program.stages if ("stage", stage.name) in reached),
        tuple(r.name for r in program.regions if ("region", r.name) in reached and r.name != region),
    )


def handed_on(program: Program) -> tuple[tuple[str, str, str], ...]:
    """Return (stage, later stage of the same event, tensor), each once."""
    stages = {stage.name: stage for stage in program.stages}
    found: dict[tuple[str, str, str], None] = {}
    for event in program.events:
        made: dict[str, str] = {}
        for name in event.run:
            for item in stages[name].inputs:
                if item.name in made:
                    found[made[item.name], name, item.name] = None
            made.update(dict.fromkeys(stages[name].outputs, name))
    return tuple(found)
