"""A push may happen, and no row says what it does."""

from patching import attack, golden, plan

MESSAGE = """\
CAD5303: node 0 has no row for event `frame`
  expected: kv 1, 1 used
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler"""


def hostile() -> bytes:
    return plan(transitions=golden("cpu").transitions[1:])


if __name__ == "__main__":
    attack(hostile)
