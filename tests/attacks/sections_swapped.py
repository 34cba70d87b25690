"""The first two sections stand under one another's names."""

from patching import attack, header

MESSAGE = """\
CAD5008: the sections of the plan are not those of its format
  expected: section `manifest`
  got:      'nodes'
  at:       section table, entry 0"""


def hostile() -> bytes:
    return header(
        lambda data: data.__setitem__(slice(64, 224), data[144:160] + data[80:144] + data[64:80] + data[160:224])
    )


if __name__ == "__main__":
    attack(hostile)
