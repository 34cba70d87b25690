"""A number has five thousand digits."""

from patching import attack, manifest

MESSAGE = """\
CAD5105: a number of the manifest is out of range
  expected: integers of 63 bits and a sign
  got:      `999999999999999999999999`
  at:       manifest"""


def hostile() -> bytes:
    return manifest(b'"init":0', b'"init":' + b"9" * 5000)


if __name__ == "__main__":
    attack(hostile)
