"""An image whose own tables lie behind its end: the driver would read on."""

from patching import attack, image

MESSAGE = """\
CAD5703: an image is no cubin
  expected: an ELF file of NVIDIA's
  got:      the table of segments up to byte 1283864 of 1283863
  at:       image 4"""


def hostile() -> bytes:
    return image(lambda data: data[:-1])


if __name__ == "__main__":
    attack(hostile)
