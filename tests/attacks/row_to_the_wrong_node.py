"""A row leads to a node with other lengths."""

from patching import attack, item

MESSAGE = """\
CAD5305: event `frame` at node 0 leads to the wrong node
  expected: kv 1, 1 used
  got:      kv 2, 2 used
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler"""


def hostile() -> bytes:
    return item("transitions", 0, target=2)


if __name__ == "__main__":
    attack(hostile)
