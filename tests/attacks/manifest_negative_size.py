"""A section of the arena has less than no bytes."""

from patching import attack, manifest

MESSAGE = """\
CAD5108: a value of the manifest is not allowed
  expected: 0 to 9223372036854775807
  got:      `-1`
  at:       manifest.sections[2].size_bytes"""


def hostile() -> bytes:
    return manifest(b'"size_bytes":1024', b'"size_bytes":-1')


if __name__ == "__main__":
    attack(hostile)
