"""Two results that live together share bytes."""

from patching import STEP, attack, capture, golden

MESSAGE = """\
CAD5404: two things share bytes of the arena
  expected: bytes of their own
  got:      storages 5 and 6, both alive at op 1
  at:       capture 1
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler"""

SCRATCH = golden("cpu").captures[STEP].scratch


def hostile() -> bytes:
    return capture(scratch=((5, 0), (6, 0), *SCRATCH[2:]))


if __name__ == "__main__":
    attack(hostile)
