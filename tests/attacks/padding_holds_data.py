"""Bytes hide between two sections."""

from patching import attack, unchanged

from cadence_runtime.format.file import read_table
from cadence_runtime.format.source import MemorySource

MESSAGE = """\
CAD5010: the bytes between two parts of the plan are not zero
  expected: zeros
  got:      other bytes
  at:       bytes 8964 to 9024"""


def hidden() -> bytes:
    data = bytearray(unchanged())
    data[read_table(MemorySource(bytes(data)))["manifest"].upper] = 1
    return bytes(data)


def hostile() -> bytes:
    return hidden()


if __name__ == "__main__":
    attack(hostile)
