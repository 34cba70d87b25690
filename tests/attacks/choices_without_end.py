"""An event that never happens offers 2^62 choices."""

from patching import attack, golden, program

from cadence_runtime.host.expression import parse
from cadence_runtime.host.program import Choice, Event

MESSAGE = """\
CAD5309: event `never` has 4611686018427387904 choices
  expected: at most 1000000
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler"""

NEVER = Event("never", when=parse("0"), choices=(Choice("n", 0, 2**62),))


def hostile() -> bytes:
    return program(events=(*golden("cpu").program.events, NEVER))


if __name__ == "__main__":
    attack(hostile)
