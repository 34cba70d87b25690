"""`true` stands for 1."""

from patching import attack, manifest

MESSAGE = """\
CAD5107: a value of the manifest has the wrong type
  expected: an integer
  got:      a bool
  at:       manifest.init"""


def hostile() -> bytes:
    return manifest(b'"init":0', b'"init":true')


if __name__ == "__main__":
    attack(hostile)
