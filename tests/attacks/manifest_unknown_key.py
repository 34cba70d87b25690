"""A key that the schema does not have."""

from patching import attack, manifest

MESSAGE = """\
CAD5106: an unknown key in the manifest
  expected: `captures`, `constants`, `fidelity`, `forms`, `init`, `leaves`, `program`, `provenance`, `sections`, `target`, `weights`, `weights_file`
  got:      `inits`
  at:       manifest"""  # noqa: E501


def hostile() -> bytes:
    return manifest(b'"init":0', b'"init":0,"inits":0')


if __name__ == "__main__":
    attack(hostile)
