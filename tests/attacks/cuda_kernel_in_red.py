"""A kernel's name colours the terminal."""

from patching import attack, cuda_item

MESSAGE = """\
CAD5707: a name of the CUDA part is not printable
  expected: printable text
  got:      `?[31mred`"""


def hostile() -> bytes:
    return cuda_item("snapshots", 0, name="\x1b[31mred")


if __name__ == "__main__":
    attack(hostile)
