"""A table goes on behind its last row."""

from patching import attack, section

MESSAGE = """\
CAD5201: section `nodes` has the wrong length
  expected: the end
  got:      1 more word
  at:       section `nodes`, word 36"""


def hostile() -> bytes:
    return section("nodes", lambda data: data + bytes(8))


if __name__ == "__main__":
    attack(hostile)
