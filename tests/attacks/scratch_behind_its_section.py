"""A result lies behind the scratch."""

from patching import STEP, attack, capture, golden

MESSAGE = """\
CAD5403: something lies outside of its section of the arena
  expected: within 1536 bytes
  got:      bytes 1536 to 1600
  at:       arena section `scratch`, `capture 1, storage 14`
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler"""

SCRATCH = golden("cpu").captures[STEP].scratch


def hostile() -> bytes:
    return capture(scratch=(*SCRATCH[:-1], (SCRATCH[-1][0], 1536)))


if __name__ == "__main__":
    attack(hostile)
