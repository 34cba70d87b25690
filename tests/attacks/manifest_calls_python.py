"""An expression that calls a function."""

from patching import attack, manifest

MESSAGE = """\
CAD5109: an expression of the plan cannot be read
  expected: an expression
  got:      unexpected `(` in an expression
  at:       manifest.program.events[0].advance"""


def hostile() -> bytes:
    return manifest(b'"advance":["frame","1"]', b'"advance":["frame","exit(1)"]')


if __name__ == "__main__":
    attack(hostile)
