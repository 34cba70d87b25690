"""A device variable is given an address behind the arena."""

from patching import attack, cuda

from cadence_runtime.format.cuda import DeviceGlobal

MESSAGE = """\
CAD5702: a pointer's target lies outside of the arena
  expected: within 7936 bytes
  got:      bytes 1099511627776 to 1099511627776
  at:       device variable `table`"""


def hostile() -> bytes:
    return cuda(globals=(DeviceGlobal(0, "table", bytes(8), ((0, 2**40),)),))


if __name__ == "__main__":
    attack(hostile)
