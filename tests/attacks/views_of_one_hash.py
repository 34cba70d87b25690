"""Twenty thousand views whose hashes are the same, in one op; the last of them reaches behind its storage."""

from dataclasses import replace
from itertools import islice, product

from patching import STEP, attack, golden, op

from cadence_runtime.format.check_tape import views_of

MESSAGE = """\
CAD5209: a view reaches behind its storage
  expected: at most the 192 bytes of storage 3
  got:      4398046511296 bytes
  at:       tape 1 (stage `step`), op 0"""


def hostile() -> bytes:
    found = golden("cpu").tapes[STEP].ops[0]
    view = next(views_of(found.args))
    same = [number * (2**61 - 1) for number in range(4)]  # Python's hash of each of them is 0
    strides = islice(product(same, repeat=8), 20_000)
    views = [replace(view, sizes=(1,) * 8, strides=each) for each in strides]
    return op(0, args=(*found.args, tuple(views), replace(view, offset=2**40)))


if __name__ == "__main__":
    attack(hostile)
