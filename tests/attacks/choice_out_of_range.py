"""A row for a choice that its event does not offer, whose hash is that of one that it does."""

from dataclasses import replace

from patching import attack, golden, plan

from cadence_runtime.format.plan import Transition
from cadence_runtime.host.expression import parse
from cadence_runtime.host.program import Choice, Event

MESSAGE = """\
CAD5304: event `never` n=2305843009213693951 at node 0 stands in the transition table
  expected: none: it cannot happen there
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler"""


def hostile() -> bytes:
    found = golden("cpu")
    never = Event("never", when=parse("1 == 2"), choices=(Choice("n", 0, 2),))
    row = Transition(0, len(found.program.events), (2**61 - 1,), (), 0)
    events = (*found.program.events, never)
    return plan(program=replace(found.program, events=events), transitions=(*found.transitions, row))


if __name__ == "__main__":
    attack(hostile)
