"""The manifest says that it becomes 512 MiB long."""

from dataclasses import replace

from patching import attack, extent

MESSAGE = """\
CAD5018: the manifest is too long
  expected: at most 268435456 bytes
  got:      536870912 bytes"""


def hostile() -> bytes:
    return extent("manifest", lambda found: replace(found, codec=1, raw_bytes=2**29))


if __name__ == "__main__":
    attack(hostile)
