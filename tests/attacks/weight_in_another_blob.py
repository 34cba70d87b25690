"""A weight is said to lie in the blob of another."""

from patching import attack, item

MESSAGE = """\
CAD5503: a blob has another size
  expected: 64 bytes
  got:      1024 bytes in blob 1
  at:       weight `o.bias`"""


def hostile() -> bytes:
    return item("weights", 0, blob=1)


if __name__ == "__main__":
    attack(hostile)
