"""A string is not UTF-8."""

from patching import attack, manifest

MESSAGE = """\
CAD5101: the manifest is not JSON
  expected: JSON in UTF-8
  got:      bytes that are not UTF-8
  at:       manifest"""


def hostile() -> bytes:
    return manifest(b'"growing-kv-cat"', b'"\xff"')


if __name__ == "__main__":
    attack(hostile)
