"""Two snapshots of the same bytes of the arena: a few bytes for each time that they are written."""

from patching import attack, cuda

from cadence_runtime.format.cuda import Snapshot

MESSAGE = """\
CAD5404: two things share bytes of the arena
  expected: bytes from 256, behind `one`
  got:      bytes from 128
  at:       snapshot `other`
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler"""


def hostile() -> bytes:
    return cuda(snapshots=(Snapshot("one", 0, 256, None), Snapshot("other", 128, 256, None)))


if __name__ == "__main__":
    attack(hostile)
