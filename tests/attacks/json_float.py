"""A number is a float."""

from patching import attack, manifest

MESSAGE = """\
CAD5105: a number of the manifest is no integer
  expected: integers only
  got:      `0.0`
  at:       manifest"""


def hostile() -> bytes:
    return manifest(b'"init":0', b'"init":0.0')


if __name__ == "__main__":
    attack(hostile)
