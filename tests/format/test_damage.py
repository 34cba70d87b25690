"""Damage never gets through: a plan that is cut or altered anywhere raises a CadenceError, soon, in little memory.

Accidents first, which a digest finds; then changes whose digests are right, which only the rules can find.
"""

import random
import struct
import threading
import time
import tracemalloc
from dataclasses import replace

import pytest

from cadence_runtime.errors import CadenceError
from cadence_runtime.format.outline import read_outline
from cadence_runtime.format.reader import read_plan
from cadence_runtime.format.writer import encode_plan
from cadence_runtime.zstd import compress, decompress
from tests.format.forge import forged, join, sections
from tests.format.plans import cuda_example, example

PLAN = example(steps=1)
DATA = encode_plan(PLAN, compress=compress)
SECTIONS = [name for name in sections(PLAN) if name != "graphs"]


def is_refused(data: bytes) -> bool:
    """Whether reading raises a CadenceError; anything else that it raises fails the test."""
    try:
        read_plan(data, decompress=decompress)
    except CadenceError as error:
        assert error.code.startswith("CAD5"), error
        return True
    return False


def test_a_plan_that_ends_early_is_refused_wherever_it_ends():
    assert [end for end in range(len(DATA)) if not is_refused(DATA[:end])] == []


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_every_flipped_byte_is_noticed(flip):
    changed = (DATA[:i] + bytes([DATA[i] ^ flip]) + DATA[i + 1 :] for i in range(len(DATA)))
    assert [i for i, data in enumerate(changed) if not is_refused(data)] == []


def test_damage_costs_neither_time_nor_memory():
    tracemalloc.start()
    started = time.perf_counter()
    for end in range(0, len(DATA), 7):
        is_refused(DATA[:end] + b"\xff" * (len(DATA) - end))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20
    assert time.perf_counter() - started < 30


@pytest.mark.parametrize("name", SECTIONS)
def test_a_byte_changed_under_a_right_digest_raises_nothing_but_our_errors(name):
    parts = sections(PLAN)
    data, rng = parts[name], random.Random(name)  # noqa: S311
    for index in rng.sample(range(len(data)), min(400, len(data))):
        other = bytes([rng.randrange(256)])
        is_refused(join(parts | {name: data[:index] + other + data[index + 1 :]}))


@pytest.mark.parametrize("name", ["graphs", "tapes"])
def test_words_changed_under_a_right_digest_raise_nothing_but_our_errors(name):
    parts = sections(cuda_example())
    data, rng = parts[name], random.Random(name)  # noqa: S311
    values = [0, 1, 2, 7, 255, 2**31, 2**62, -1, -(2**63), 2**63 - 1]
    for _ in range(300):
        index, value = rng.randrange(len(data) // 8), rng.choice(values)
        changed = data[: 8 * index] + value.to_bytes(8, "little", signed=True) + data[8 * index + 8 :]
        is_refused(join(parts | {name: changed}))


BROKEN = replace(PLAN, sections=tuple(replace(section, offset=section.offset + 1) for section in PLAN.sections))
"""Its arena breaks a rule."""


def test_damage_of_a_blob_is_told_before_what_was_made_wrong():
    whole = forged(BROKEN)
    with pytest.raises(CadenceError, match=r"^CAD54"):
        read_plan(whole, decompress=None)
    with pytest.raises(CadenceError, match=r"^CAD5007: the digest of blob "):
        read_plan(whole[:-1] + bytes([whole[-1] ^ 1]), decompress=None)


@pytest.mark.parametrize("name", ["manifest", "nodes", "tapes", "graphs", "blobs"])
def test_no_thread_is_left_behind_a_refusal(name):
    parts, before = sections(cuda_example()), set(threading.enumerate())
    assert is_refused(join(parts | {name: parts[name][:-8]}))
    assert set(threading.enumerate()) == before


def test_a_length_that_no_length_can_be_is_refused_without_content_too(tmp_path):
    def longer(table: bytes) -> bytes:
        at = 32 + 16  # behind the digest: offset, stored size, size of the content, codec
        return table[:at] + struct.pack("<QI", 2**63, 1) + table[at + 12 :]

    path = tmp_path / "toy.plan"
    path.write_bytes(forged(PLAN, blob_table=longer))
    with pytest.raises(CadenceError, match=r"^CAD5013: blob 0 "):
        read_plan(path, decompress=decompress)
    faults = read_outline(path, decompress=decompress).faults
    assert [fault.code for fault in faults][:1] == ["CAD5013"]
