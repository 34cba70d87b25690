"""An image with a section behind its end."""

import struct

from patching import attack, image

MESSAGE = """\
CAD5703: an image is no cubin
  expected: an ELF file of NVIDIA's
  got:      a section up to byte 9223372036854775872 of 1283864
  at:       image 4"""


def section_outside(data: bytes) -> bytes:
    """Let the second section of an image end behind the image."""
    (table,) = struct.unpack_from("<Q", data, 40)
    size_at = table + 64 + 32
    return data[:size_at] + (2**63).to_bytes(8, "little") + data[size_at + 8 :]


def hostile() -> bytes:
    return image(section_outside)


if __name__ == "__main__":
    attack(hostile)
