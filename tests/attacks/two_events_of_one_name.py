"""Who looks an event up by name may find either."""

from patching import attack, event

MESSAGE = """\
CAD5307: the list of events does not fit the rest of its program
  expected: each name once
  got:      `frame`
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler"""


def hostile() -> bytes:
    return event(1, name="frame")


if __name__ == "__main__":
    attack(hostile)
