"""One bit of the manifest is not what its digest says."""

from patching import attack, unchanged

MESSAGE = """\
CAD5007: the digest of section `manifest` does not match: the plan was altered or damaged
  expected: sha256 ee4b397964bad6ea...
  got:      sha256 b7fd7f04e5a4f792..."""


def hostile() -> bytes:
    return unchanged()[:700] + bytes([unchanged()[700] ^ 1]) + unchanged()[701:]


if __name__ == "__main__":
    attack(hostile)
