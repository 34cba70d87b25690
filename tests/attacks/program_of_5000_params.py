"""More names than a program may have: checks go through them again and again."""

from patching import attack, program

MESSAGE = """\
CAD5108: a value of the manifest is not allowed
  expected: a list of at most 4096
  got:      `a list of 5000`
  at:       manifest.program.params"""


def hostile() -> bytes:
    return program(params=tuple((f"p{number}", 0) for number in range(5000)))


if __name__ == "__main__":
    attack(hostile)
