"""A string of the CUDA part that nothing uses."""

from patching import attack, section

from cadence_runtime.format.words import pack, unpack

MESSAGE = """\
CAD5204: section `graphs` is not in its one form
  expected: strings and nodes once each, in the order of their first use
  got:      another order, or something twice"""


def grown(data: bytes) -> bytes:
    """Add a string behind the others."""
    words = unpack(data)
    at = 6
    for _ in range(words[5]):
        at += 1 + (words[at] + 7) // 8
    return pack([*words[:5], words[5] + 1, *words[6:at], 1, ord("a"), *words[at:]])


def hostile() -> bytes:
    return section("graphs", grown, "cuda")


if __name__ == "__main__":
    attack(hostile)
