"""Sessions begin with a reset, which reads a state that is not there yet."""

from patching import attack, plan

MESSAGE = """\
CAD5302: the init capture is not one
  expected: stage `init`, reading no leaf
  got:      reset
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler"""


def hostile() -> bytes:
    return plan(init=2)


if __name__ == "__main__":
    attack(hostile)
