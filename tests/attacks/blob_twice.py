"""The same content stands twice."""

from patching import attack, golden, plan

MESSAGE = """\
CAD5015: a blob stands twice in the plan
  expected: each once
  got:      a70b971a58cbe06cca8a84c4b1db17d3a97be6010ae72160819220bc49bbb484
  at:       blob 5"""


def hostile() -> bytes:
    return plan(blobs=(*golden("cpu").blobs, golden("cpu").blobs[0]))


if __name__ == "__main__":
    attack(hostile)
