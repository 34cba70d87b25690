"""A key of the schema is missing."""

from patching import attack, manifest

MESSAGE = """\
CAD5106: a missing key in the manifest
  expected: `captures`, `constants`, `fidelity`, `forms`, `init`, `leaves`, `program`, `provenance`, `sections`, `target`, `weights`, `weights_file`
  got:      no `init`
  at:       manifest"""  # noqa: E501


def hostile() -> bytes:
    return manifest(b'"init":0,', b"")


if __name__ == "__main__":
    attack(hostile)
