"""The same values are written with a space."""

from patching import attack, manifest

MESSAGE = """\
CAD5104: the manifest is not in canonical form
  expected: sorted keys, no spaces, the shortest escapes
  got:      the same values written otherwise
  at:       manifest, byte 5257"""


def hostile() -> bytes:
    return manifest(b'"init":0', b'"init": 0')


if __name__ == "__main__":
    attack(hostile)
