"""An op reads a result that no op makes."""

from patching import STEP, attack, golden, tape

MESSAGE = """\
CAD5602: a tape of stage `step` reads what none of its ops has made yet
  expected: an op that makes it, before it is read
  got:      none for storage 10"""

OPS = golden("cpu").tapes[STEP].ops


def hostile() -> bytes:
    return tape(ops=(*OPS[:5], *OPS[6:]))


if __name__ == "__main__":
    attack(hostile)
