"""What is written is read again, and there is one way to write it."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cadence_runtime.format.manifest import decode_manifest, encode_manifest
from cadence_runtime.format.reader import read_plan, read_plan_file
from cadence_runtime.format.tape import ITEM_BYTES, Binding, Literal, Op, Operand, Storage, Tape, View
from cadence_runtime.format.tapes import LITERAL_KINDS, STORAGE_KINDS, decode_tapes, encode_tapes
from cadence_runtime.format.writer import encode_plan, write_plan
from cadence_runtime.zstd import compress, decompress
from tests.format.plans import cuda_example, example

ROOT = Path(__file__).parents[2]

EXAMPLES = st.builds(
    example,
    steps=st.integers(1, 5),
    width=st.integers(1, 70),
    dtype=st.sampled_from(sorted(ITEM_BYTES)),
    name=st.text(st.characters(exclude_categories=["C", "Z"]), max_size=30),
    embed=st.booleans(),
)


@given(EXAMPLES, st.booleans())
def test_a_plan_comes_back(plan, packed):
    data = encode_plan(plan, compress=compress if packed else None)
    assert read_plan(data, decompress=decompress) == plan
    assert encode_plan(read_plan(data, decompress=decompress), compress=compress if packed else None) == data


def test_a_cuda_plan_comes_back():
    data = encode_plan(cuda_example(), compress=compress)
    assert read_plan(data, decompress=decompress) == cuda_example()


def test_a_file_is_what_is_encoded(tmp_path):
    path = tmp_path / "toy.plan"
    size = write_plan(path, example(), compress=compress)
    assert path.read_bytes() == encode_plan(example(), compress=compress)
    file = read_plan_file(path, decompress=decompress)
    assert (file.plan, file.size_bytes) == (example(), size)
    assert file.extents[-1][1].upper == size


def test_only_what_gets_shorter_is_compressed():
    long = replace(example(), blobs=(*example().blobs, os.urandom(5000), bytes(range(100)) * 50))
    file = read_plan_file(encode_plan(long, compress=compress), decompress=decompress)
    extents = dict(file.extents)
    assert extents["manifest"].codec == extents["blob-table"].codec == extents["nodes"].codec == 0
    assert extents["tapes"].size_bytes < extents["tapes"].raw_bytes
    assert 5000 < extents["blobs"].size_bytes < 6000  # random bytes as they are, the others as a frame


# Tapes that mean nothing, but have every shape that a tape may have.

TEXT = st.text(max_size=12)
WORD = st.integers(0, 2**63 - 1)
VIEWS = st.lists(st.tuples(WORD, WORD), max_size=3).flatmap(
    lambda dims: st.builds(
        View,
        WORD,
        st.sampled_from(sorted(ITEM_BYTES)),
        st.just(tuple(size for size, _ in dims)),
        st.just(tuple(stride for _, stride in dims)),
        WORD,
        st.booleans(),
        st.booleans(),
    )
)
LITERALS = st.builds(Literal, st.sampled_from(LITERAL_KINDS), TEXT)
OPERANDS: st.SearchStrategy[Operand] = st.recursive(
    VIEWS | LITERALS, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=4
).filter(lambda operand: depth(operand) <= 3)
NUMBERS = st.lists(WORD, max_size=3).map(tuple)
OPS = st.builds(
    Op,
    TEXT,
    st.lists(OPERANDS, max_size=3).map(tuple),
    st.lists(st.tuples(TEXT, OPERANDS), max_size=2).map(tuple),
    st.lists(OPERANDS, max_size=2).map(tuple),
    NUMBERS,
    NUMBERS,
    TEXT,
    st.booleans(),
)
ROWS = st.lists(st.builds(Binding, TEXT, VIEWS | LITERALS), max_size=2).map(tuple)
STORAGES = st.lists(st.builds(Storage, st.sampled_from(STORAGE_KINDS), TEXT, WORD, st.booleans()), max_size=3)
TAPES = st.builds(
    Tape, TEXT, STORAGES.map(tuple), ROWS, ROWS, st.lists(OPS, max_size=3).map(tuple), ROWS, ROWS, st.booleans()
)


def depth(operand: Operand) -> int:
    return 1 + max(map(depth, operand), default=0) if isinstance(operand, tuple) else 0


@given(st.lists(TAPES, max_size=3, unique=True))
def test_tapes_come_back(tapes):
    assert decode_tapes(encode_tapes(tapes)) == tuple(tapes)


def test_what_tapes_share_stands_once():
    first, *_ = example().tapes[1:]
    one, two = encode_tapes([first]), encode_tapes([first, replace(first, draws=True)])
    assert len(two) - len(one) < len(one) / 5


@given(EXAMPLES)
def test_a_manifest_comes_back(plan):
    manifest = decode_manifest(encode_manifest(plan))
    assert manifest.plan(plan.tapes, plan.nodes, plan.transitions, plan.blobs, plan.cuda) == plan


# Byte for byte, wherever and however it is written.

WRITE = """
import sys
from cadence_runtime.format.writer import write_plan
from cadence_runtime.zstd import compress
from tests.format.plans import cuda_example, example
write_plan("toy.plan", cuda_example() if sys.argv[1] == "cuda" else example(), compress=compress)
"""


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_the_bytes_depend_on_neither_folder_nor_hash_seed(tmp_path, target):
    found = set()
    for seed, folder in (("0", "here"), ("1", "over there"), ("424242", "x" * 60)):
        (tmp_path / folder).mkdir()
        paths = os.pathsep.join((str(ROOT), str(ROOT / "runtime_stub")))
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": paths, "TZ": f"UTC+{seed[0]}"}
        subprocess.run([sys.executable, "-c", WRITE, target], cwd=tmp_path / folder, env=environment, check=True)
        found.add((tmp_path / folder / "toy.plan").read_bytes())
    assert len(found) == 1
