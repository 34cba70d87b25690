"""A hundred thousand lists within one another."""

from patching import attack, section

MESSAGE = """\
CAD5103: the manifest is nested too deeply
  expected: at most 16 levels
  got:      100000 levels
  at:       manifest"""


def hostile() -> bytes:
    return section("manifest", lambda _: b"[" * 100_000 + b"]" * 100_000)


if __name__ == "__main__":
    attack(hostile)
