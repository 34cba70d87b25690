"""A slot ends behind the state."""

from patching import attack, item

MESSAGE = """\
CAD5403: something lies outside of its section of the arena
  expected: within 1024 bytes
  got:      bytes 768 to 1152
  at:       arena section `state`, `v`
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler"""


def hostile() -> bytes:
    return item("leaves", 1, slot_offset=768)


if __name__ == "__main__":
    attack(hostile)
