"""Names of sections that are one long name, each from a byte later."""

import struct

from patching import attack, image

MESSAGE = """\
CAD5703: an image is no cubin
  expected: an ELF file of NVIDIA's
  got:      a section whose name overlaps others
  at:       image 4"""


def hostile() -> bytes:
    def named(data: bytes) -> bytes:
        table = struct.unpack_from("<Q", data, 40)[0]
        count, names = struct.unpack_from("<HH", data, 60)
        start, old = struct.unpack_from("<QQ", data, table + 64 * names + 24)
        texts = data[start : start + old] + b"n" * len(data) + b"\0"
        rows = bytearray(data[table : table + 64 * count])
        struct.pack_into("<QQ", rows, 64 * names + 24, len(data), len(texts))
        for number in range(10):
            rows += struct.pack("<IIQQQQIIQQ", old + number, 1, 0, 0, 0, 1, 0, 0, 1, 0)
        made = bytearray(data)
        struct.pack_into("<Q", made, 40, len(data) + len(texts))
        struct.pack_into("<H", made, 60, count + 10)
        return bytes(made) + texts + bytes(rows)

    return image(named)


if __name__ == "__main__":
    attack(hostile)
