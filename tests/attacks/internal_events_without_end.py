"""An internal event that is always enabled."""

from patching import attack, golden, program

from cadence_runtime.host.program import Event

MESSAGE = """\
CAD5307: event `frame` at node 0 contradicts itself
  got:      more than 10000 internal events follow
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler"""


def hostile() -> bytes:
    return program(events=(*golden("cpu").program.events, Event("spin", internal=True)))


if __name__ == "__main__":
    attack(hostile)
