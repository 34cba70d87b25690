"""A launch begins with a copy of state over the weights."""

from patching import attack, cuda, golden

from cadence_runtime.format.cuda import Launch, Move

MESSAGE = """\
CAD5708: the target of a move lies elsewhere
  expected: bytes of `rows`
  got:      bytes 0 to 256
  at:       launch 0, before"""


def hostile() -> bytes:
    state = next(section for section in golden("cuda").sections if section.name == "state")
    plain = tuple(map(Launch, range(len(golden("cuda").captures))))
    return cuda(launches=(Launch(0, (Move(0, state.offset, 256),)), *plain[1:]))


if __name__ == "__main__":
    attack(hostile)
