"""Ten kernels whose parameters are told by the same bytes of their image, all of it."""

import struct

from patching import attack, image

MESSAGE = """\
CAD5703: an image is no cubin
  expected: an ELF file of NVIDIA's
  got:      sections `.nv.info` that are longer together than the image
  at:       image 4"""


def hostile() -> bytes:
    def told(data: bytes) -> bytes:
        table = struct.unpack_from("<Q", data, 40)[0]
        count, names = struct.unpack_from("<HH", data, 60)
        at = len(data)
        start = struct.unpack_from("<Q", data, table + 64 * names + 24)[0]
        old = struct.unpack_from("<Q", data, table + 64 * names + 32)[0]
        texts = data[start : start + old] + b"".join(b".nv.info.k%d\0" % number for number in range(10))
        rows = bytearray(data[table : table + 64 * count])
        struct.pack_into("<QQ", rows, 64 * names + 24, at, len(texts))
        for number in range(10):
            rows += struct.pack("<IIQQQQIIQQ", old + 12 * number, 1, 0, 0, 0, at, 0, 0, 1, 0)
        data = bytearray(data)
        struct.pack_into("<Q", data, 40, at + len(texts))
        struct.pack_into("<H", data, 60, count + 10)
        return bytes(data) + texts + bytes(rows)

    return image(told)


if __name__ == "__main__":
    attack(hostile)
