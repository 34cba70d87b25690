"""An image for another machine."""

from patching import attack, image

MESSAGE = """\
CAD5703: an image is no cubin
  expected: an ELF file of NVIDIA's
  got:      code for machine 62, ELF type 2
  at:       image 4"""


def hostile() -> bytes:
    return image(lambda data: data[:18] + b"\x3e\0" + data[20:])


if __name__ == "__main__":
    attack(hostile)
