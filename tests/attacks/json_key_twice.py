"""A key stands twice in the manifest: which one counts?"""

from patching import attack, manifest

MESSAGE = """\
CAD5102: a key stands twice in one object
  expected: each key once
  got:      `init`
  at:       manifest"""


def hostile() -> bytes:
    return manifest(b'"init":0', b'"init":0,"init":1')


if __name__ == "__main__":
    attack(hostile)
