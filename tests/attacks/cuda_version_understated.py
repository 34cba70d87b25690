"""A plan with launches says that a reader of 1.0 can read it."""

from dataclasses import replace

from patching import attack, golden, parts, sealed

from cadence_runtime.format.cuda import Launch

MESSAGE = """\
CAD5005: the plan states another version than it is of
  expected: format 1.1, the oldest that can read it
  got:      format 1.0
  hint:     compile the plan again"""


def hostile() -> bytes:
    made = golden("cuda")
    launches = (Launch(1), Launch(0), *map(Launch, range(2, len(made.captures))))
    return sealed(parts(replace(made, cuda=replace(made.cuda, launches=launches))))


if __name__ == "__main__":
    attack(hostile)
