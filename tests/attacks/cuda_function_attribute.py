"""A kernel sets an attribute that cannot be set."""

from patching import attack, cuda_item

MESSAGE = """\
CAD5706: the attributes of a kernel make no sense
  expected: some of [8, 9, 11, 12, 13, 14, 15], sorted
  got:      `[0]`
  at:       kernel `_ZN8internal5gemvx6kernelIiiffffLb1ELb1ELb1ELb0ELi6ELb0E1...`"""


def hostile() -> bytes:
    return cuda_item("kernels", 0, attributes=((0, 1),))


if __name__ == "__main__":
    attack(hostile)
