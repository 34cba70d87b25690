"""An event takes an input that nothing takes, of no known dtype."""

from patching import attack, event

from cadence_runtime.host.expression import parse
from cadence_runtime.host.program import EventInput

MESSAGE = """\
CAD5307: input `z` of event `turn` does not fit the rest of its program
  expected: a stage or queue that takes it
  got:      none
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler"""


def hostile() -> bytes:
    return event(1, inputs=(EventInput("z", (parse("1"),)),))


if __name__ == "__main__":
    attack(hostile)
