"""Nodes and transitions: rows of 64-bit words, since there may be hundreds of thousands of them.

    nodes         count, then a row each: one word a counter, one a region length, elapsed as numerator and
                  denominator, one form index a leaf
    transitions   count, then a row each: source, event, target, number of captures, its choices, its captures

How many counters, regions, leaves and choices there are follows from the manifest.
"""

from collections.abc import Iterator
from fractions import Fraction
from math import gcd

from cadence_runtime.errors import PlanError
from cadence_runtime.format.manifest import Manifest
from cadence_runtime.format.plan import Node, Plan, Transition
from cadence_runtime.format.words import Words, pack
from cadence_runtime.host.program import ABSENT, Configuration

NODES, TRANSITIONS = "nodes", "transitions"


def encode_nodes(plan: Plan) -> bytes:
    """Return section `nodes`."""
    return pack([len(plan.nodes), *(word for node in plan.nodes for word in _node_words(node))])


def _node_words(node: Node) -> tuple[int, ...]:
    here = node.configuration
    return (*here.counters, *here.lengths, here.elapsed.numerator, here.elapsed.denominator, *node.forms)


def decode_nodes(data: bytes, manifest: Manifest) -> tuple[Node, ...]:
    """Read section `nodes`. Raises PlanError CAD5201 to CAD5203."""
    words = Words(NODES, data)
    counters, regions, leaves = len(manifest.program.counters), len(manifest.program.regions), len(manifest.leaves)
    count = words.count("a number of nodes", counters + regions + leaves + 2)
    nodes = []
    for _ in range(count):
        held = words.many(counters, "a counter", lower=-(2**63))
        lengths = words.many(regions, "a length", lower=ABSENT)
        elapsed = _elapsed(words)
        forms = words.indices(leaves, len(manifest.forms), "a form")
        nodes.append(Node(Configuration(held, lengths, elapsed), forms))
    words.finish()
    return tuple(nodes)


def _elapsed(words: Words) -> Fraction:
    numerator, denominator = words.many(2, "the elapsed part of the horizon")
    if denominator < 1 or gcd(numerator, denominator) != 1:
        raise PlanError(
            "CAD5203",
            "the elapsed part of a horizon is not in lowest terms",
            expected="a fraction of 0 or more in lowest terms",
            got=f"{numerator}/{denominator}",
            at=f"section `{NODES}`, word {words.position - 2}",
        )
    return Fraction(numerator, denominator)


def encode_transitions(plan: Plan) -> bytes:
    """Return section `transitions`."""
    return pack([len(plan.transitions), *(word for row in plan.transitions for word in _transition_words(row))])


def _transition_words(row: Transition) -> Iterator[int]:
    yield from (row.source, row.event, row.target, len(row.captures))
    yield from row.choices
    yield from row.captures


def decode_transitions(data: bytes, manifest: Manifest, node_count: int) -> tuple[Transition, ...]:
    """Read section `transitions`. Raises PlanError CAD5201 or CAD5202."""
    words = Words(TRANSITIONS, data)
    events, captures = manifest.program.events, len(manifest.captures)
    rows = []
    for _ in range(words.count("a number of transitions", 4)):
        source = words.take(0, node_count, "a node")
        event = words.take(0, len(events), "an event")
        target = words.take(0, node_count, "a node")
        runs = words.count("a number of captures")
        choices = words.many(len(events[event].choices), "a choice", lower=-(2**63))
        rows.append(Transition(source, event, choices, words.indices(runs, captures, "a capture"), target))
    words.finish()
    return tuple(rows)
