"""Small timelines of executables: nodes, pushes between them and the graphs that they run."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from cadence_runtime.cuda.compatibility import NODE_BYTES
from cadence_runtime.cuda.needs import Needs
from cadence_runtime.format.cuda import CudaPart, Graph, KernelNode, Launch
from cadence_runtime.format.plan import Transition

NODE = KernelNode(0, (1, 1, 1), (32, 1, 1), 0, bytes(8), ())


@dataclass(frozen=True, slots=True)
class Push:
    """A push from one node to another, and the captures that it runs; `n` is its choice."""

    source: int
    target: int
    captures: tuple[int, ...]
    n: int = 0


def timeline(sizes: list[int], pushes: list[Push], launches: tuple[int, ...] = ()) -> tuple[Any, CudaPart]:
    """Return what `Needs` looks at. `sizes` are the nodes of each graph; capture 0 opens a session, and captures run
    the graphs of `launches`, or each its own."""
    graphs = tuple(Graph((NODE,) * size, (), (), (), ()) for size in sizes)
    part = CudaPart(0, (9, 0), 13000, (), (), (), graphs, (), tuple(map(Launch, launches)))
    event = SimpleNamespace(name="speak", choices=(SimpleNamespace(name="n"),))
    plan = SimpleNamespace(
        captures=(None,) * len(launches or sizes),
        transitions=tuple(Transition(each.source, 0, (each.n,), each.captures, each.target) for each in pushes),
        program=SimpleNamespace(events=(event,)),
        init=0,
    )
    return plan, part


def needs_of(sizes: list[int], pushes: list[Push], launches: tuple[int, ...] = ()) -> Needs:
    return Needs(*timeline(sizes, pushes, launches))


def nodes(count: int) -> int:
    """Return the bytes of executables with so many nodes."""
    return count * NODE_BYTES
