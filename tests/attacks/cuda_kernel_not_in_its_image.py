"""A kernel that its image does not have."""

from patching import attack, cuda_item

MESSAGE = """\
CAD5703: a kernel is not in its image
  expected: section `.text.another`
  got:      none
  at:       kernel `another`"""


def hostile() -> bytes:
    return cuda_item("kernels", 0, name="another")


if __name__ == "__main__":
    attack(hostile)
