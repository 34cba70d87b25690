"""A pointer is written over the end of a device variable."""

from patching import attack, cuda

from cadence_runtime.format.cuda import DeviceGlobal

MESSAGE = """\
CAD5704: a pointer lies outside of its variable
  expected: 8 bytes within 8
  got:      from byte 1
  at:       device variable `table`"""


def hostile() -> bytes:
    return cuda(globals=(DeviceGlobal(0, "table", bytes(8), ((1, 0),)),))


if __name__ == "__main__":
    attack(hostile)
