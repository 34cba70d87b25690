"""A row goes past the horizon."""

from dataclasses import replace

from patching import attack, golden, plan

MESSAGE = """\
CAD5304: event `frame` at node 6 stands in the transition table
  expected: none: it is not enabled
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler"""


def hostile() -> bytes:
    return plan(transitions=(*golden("cpu").transitions, replace(golden("cpu").transitions[0], source=6, target=0)))


if __name__ == "__main__":
    attack(hostile)
