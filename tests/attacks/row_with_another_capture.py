"""A row runs a capture that was made for a longer state."""

from patching import attack, item

MESSAGE = """\
CAD5306: capture 3 of event `frame` at node 0 is another stage's or key's
  expected: leaf `k` as float32[1, 2, 0, 8] strides [16, 8, 8, 1]
  got:      made for float32[1, 2, 1, 8] strides [16, 8, 8, 1]
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler"""


def hostile() -> bytes:
    return item("transitions", 0, captures=(3,))


if __name__ == "__main__":
    attack(hostile)
