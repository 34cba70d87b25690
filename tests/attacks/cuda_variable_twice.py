"""A device variable that is written twice: a few bytes for each time."""

from patching import attack, cuda

from cadence_runtime.format.cuda import DeviceGlobal

MESSAGE = """\
CAD5501: a device variable stands twice in the plan
  expected: each once
  got:      `0 table`"""


def hostile() -> bytes:
    return cuda(globals=(DeviceGlobal(0, "table", bytes(8), ()),) * 2)


if __name__ == "__main__":
    attack(hostile)
