"""Bytes that a load writes lie behind the arena."""

from patching import attack, cuda_item

MESSAGE = """\
CAD5702: a snapshot lies outside of the arena
  expected: within 7936 bytes
  got:      bytes 7680 to 1099511635456
  at:       snapshot `library.0`"""


def hostile() -> bytes:
    return cuda_item("snapshots", 0, size_bytes=2**40)


if __name__ == "__main__":
    attack(hostile)
