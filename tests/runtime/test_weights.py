"""Tensors of a weights file, whole and in pieces, with and without trust."""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cadence_runtime import weights as module
from cadence_runtime.errors import IncompatibleError
from cadence_runtime.threads import side_by_side
from cadence_runtime.weights import WeightsFile

CONTENT = {"empty": b"", "short": b"abc", "one piece": bytes(range(8)), "long": bytes(range(8, 29))}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WeightsFile]:
    """A weights file, read in pieces of 8 bytes."""
    header, at = {}, 0
    for name, data in CONTENT.items():
        header[name] = {"dtype": "U8", "shape": [len(data)], "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    path = tmp_path / "w.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(CONTENT.values()))
    monkeypatch.setattr(module, "PIECE_BYTES", 8)
    with WeightsFile(str(path)) as opened:
        yield opened


def plan(**sha256: str) -> Any:
    """The weights of a plan, with right digests but for those given."""
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in CONTENT.items()} | sha256
    rows = (SimpleNamespace(name=name, sha256=digest, dtype="uint8", sizes=(1,)) for name, digest in digests.items())
    return SimpleNamespace(weights=tuple(rows))


def test_pieces_are_the_tensor(file: WeightsFile) -> None:
    for name, data in CONTENT.items():
        pieces = [bytes(piece) for piece in file.pieces(name)]
        assert b"".join(pieces) == bytes(file.tensor(name)) == data
        assert all(len(piece) == 8 for piece in pieces[:-1])


def test_threads_read_side_by_side(file: WeightsFile) -> None:
    names = list(CONTENT) * 20
    found = side_by_side(lambda name: b"".join(map(bytes, file.pieces(name))), names, 4)
    assert found == [CONTENT[name] for name in names]


def test_without_trust_every_byte_is_compared(file: WeightsFile) -> None:
    file.compare_with(plan(long="ab" * 32, empty="cd" * 32))
    assert bytes(file.tensor("one piece")) == CONTENT["one piece"]
    for name in ("long", "empty"):
        for read in (file.tensor, lambda name: list(file.pieces(name))):
            with pytest.raises(IncompatibleError, match=f"CAD6004: weight `{name}` is not the one"):
                read(name)


def test_a_file_that_is_cut_while_it_is_read_is_told(file: WeightsFile) -> None:
    pieces = file.pieces("long")
    next(pieces)
    Path(file.path or "").write_bytes(b"")
    with pytest.raises(IncompatibleError) as caught:
        next(pieces)
    assert (caught.value.code, caught.value.got) == ("CAD6003", "it was cut short while it was read")


def test_what_stands_in_the_place_of_a_weights_file_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("gone")
    found = {}
    for path in (tmp_path / "pipe", tmp_path / "link", tmp_path, tmp_path / "none", Path("/dev/zero")):
        with WeightsFile(str(path)) as file:
            assert file.fault is not None and file.fault.code == "CAD6003"
            found[path.name] = file.fault.got
    assert found == {
        "pipe": "a pipe, which is no regular file",
        "link": "a link that leads nowhere",
        tmp_path.name: "a folder, which is no regular file",
        "none": "no such file or directory",
        "zero": "a device, which is no regular file",
    }
