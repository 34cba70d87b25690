"""A name that moves the cursor when it is printed."""

from patching import attack, manifest

MESSAGE = """\
CAD5108: a value of the manifest is not allowed
  expected: printable text
  got:      `?[2J`
  at:       manifest.provenance.model"""


def hostile() -> bytes:
    return manifest(b'"growing-kv-cat"', b'"\\u001b[2J"')


if __name__ == "__main__":
    attack(hostile)
