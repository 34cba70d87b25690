"""A weight is planned as scratch, to be written over."""

from patching import STEP, attack, capture, golden

MESSAGE = """\
CAD5407: what is planned is no scratch
  expected: scratch storages of the tape, sorted, each once
  got:      `[3, 5, 6, 7, 8, 9, 11, 14]`
  at:       capture 1
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler"""

SCRATCH = golden("cpu").captures[STEP].scratch


def hostile() -> bytes:
    return capture(scratch=((3, 0), *SCRATCH))


if __name__ == "__main__":
    attack(hostile)
