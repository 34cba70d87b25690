"""A plan for CUDA without a CUDA part."""

from patching import attack, manifest

MESSAGE = """\
CAD5507: a plan for cuda with the wrong parts
  expected: a CUDA part for cuda only
  got:      none"""


def hostile() -> bytes:
    return manifest(b'"target":"cpu"', b'"target":"cuda"')


if __name__ == "__main__":
    attack(hostile)
