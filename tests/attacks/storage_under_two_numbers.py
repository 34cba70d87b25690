"""One leaf is two storages, so that nobody sees that they share bytes."""

from patching import attack, storage

MESSAGE = """\
CAD5214: two storages of a tape are one leaf
  expected: each once, since storages share no byte
  got:      `k`
  at:       tape 1 (stage `step`)"""


def hostile() -> bytes:
    return storage(2, name="k")


if __name__ == "__main__":
    attack(hostile)
