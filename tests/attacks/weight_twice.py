"""Two weights have one name."""

from patching import attack, golden, plan

MESSAGE = """\
CAD5501: a weight stands twice in the plan
  expected: each once
  got:      `o.bias`"""


def hostile() -> bytes:
    return plan(weights=(*golden("cpu").weights, golden("cpu").weights[0]))


if __name__ == "__main__":
    attack(hostile)
