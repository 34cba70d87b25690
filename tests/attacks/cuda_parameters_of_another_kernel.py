"""A kernel is said to take other parameters than its image says."""

from patching import attack, cuda_item

MESSAGE = """\
CAD5703: a kernel takes other parameters than its image says
  expected: `((0, 152),)`
  got:      `((0, 76), (76, 76))`
  at:       kernel `_ZN8internal5gemvx6kernelIiiffffLb1ELb1ELb1ELb0ELi6ELb0E1...`"""


def hostile() -> bytes:
    return cuda_item("kernels", 0, param_sizes=(76, 76), param_offsets=(0, 76))


if __name__ == "__main__":
    attack(hostile)
