"""An output is written over its input."""

from patching import attack, capture

MESSAGE = """\
CAD5404: two things share bytes of the arena
  expected: bytes from 64, behind `input x of step`
  got:      bytes from 0
  at:       arena section `io`, `output y of step`
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler"""


def hostile() -> bytes:
    return capture(output_offsets=(0,))


if __name__ == "__main__":
    attack(hostile)
