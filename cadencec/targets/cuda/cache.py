"""Captures on disk, by all that they depend on: a stopped compile goes on, a second one gives the same bytes.

    FOLDER/captures/KEY        a recording: sha256 of KEY and what follows, then two zstd frames of JSON
    FOLDER/objects/DIGEST      a kernel image, or bytes of a library: one zstd frame, named by the sha256 of its content

Every file is written whole or not at all. What does not read back as it was written, under the key that it was written
for, is told and made anew. Two captures of one tape need not have the same bytes: parameter structs have padding that
nobody writes. The first one is kept.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import cadence_runtime
import cadencec
from cadence_runtime.errors import TargetError
from cadence_runtime.format.replace import replace_file
from cadence_runtime.zstd import compress, decompress
from cadencec.targets.cuda.entry import Summary, from_json, objects_of, summary_from_json, to_json
from cadencec.targets.cuda.recording import CudaRecording

VERSION = 3
DIGEST_BYTES = 32
SIZE_BYTES = 8
COMPILER, RUNTIME = (Path(package.__path__[0]) for package in (cadencec, cadence_runtime))
SOURCES = (COMPILER / "targets", COMPILER / "trace", RUNTIME / "cuda", RUNTIME / "format")
"""The code that a capture goes through."""
Warn = Callable[[str], None]
T = TypeVar("T")


def key_of(parts: Mapping[str, Any]) -> str:
    """Return the key of a capture from what it depends on: JSON values and frozen dataclasses."""
    whole = {**parts, "version": VERSION, "code": code_digest()}
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"), default=asdict)
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def code_digest() -> str:
    """Return a digest of the code that makes captures: what they are may change with it."""
    found = hashlib.sha256()
    for path in (path for folder in SOURCES for path in sorted(folder.rglob("*.py"))):
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


class CaptureCache:
    """A folder of captures; `warn` is told of what is damaged."""

    def __init__(self, folder: Path, warn: Warn) -> None:
        self.folder, self._warn = folder, warn
        self._whole: set[str] = set()
        for name in ("captures", "objects"):
            (folder / name).mkdir(parents=True, exist_ok=True)

    def find(self, key: str) -> Summary | None:
        """Return what to know of a capture before the end, or None where there is none, or none that is whole with all
        its objects."""
        return self._read(key, self._summary)

    def get(self, key: str) -> CudaRecording | None:
        """Return a capture, or None where there is none, or none that is whole with all its objects."""
        return self._read(key, self._recording)

    def _summary(self, first: bytes, rest: bytes) -> Summary:
        return summary_from_json(self._first(first))

    def _recording(self, first: bytes, rest: bytes) -> CudaRecording:
        return from_json(self._first(first), json.loads(_decoded(rest)), self.object)

    def _first(self, encoded: bytes) -> Mapping[str, Any]:
        """Return the first part of a capture whose objects are all whole."""
        entry: Mapping[str, Any] = json.loads(_decoded(encoded))
        for digest in objects_of(entry):
            if digest not in self._whole:
                self.object(digest)
        return entry

    def _read(self, key: str, take: Callable[[bytes, bytes], T]) -> T | None:
        path = self.folder / "captures" / key
        try:
            stored = path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            return take(*_opened(key, stored))
        except Exception as error:  # whatever is in the file, it is only a copy of what can be made again
            self._warn(f"capture {key[:12]} of {self.folder} is damaged ({error}): made anew")
            return None

    def put(self, key: str, recording: CudaRecording, images: Mapping[str, bytes]) -> None:
        """Keep a capture and the images that it needs, the objects first: an entry never names what is not there."""
        for digest in sorted(set(recording.images.values())):
            self._put_object(images[digest])
        for buffer in recording.outside:
            self._put_object(buffer.content)
        texts = [json.dumps(part, sort_keys=True, separators=(",", ":")) for part in to_json(recording)]
        replace_file(self.folder / "captures" / key, [_closed(key, [text.encode() for text in texts])])

    def taken(self, key: str) -> CudaRecording:
        """Return a capture that was put. Raises TargetError CAD4118 where it is gone."""
        found = self.get(key)
        if found is None:
            raise TargetError(
                "CAD4118",
                "a capture left the cache while the plan was compiled",
                expected=f"capture {key[:12]}",
                got="nothing",
                at=str(self.folder),
                hint="compile again; leave the folder alone meanwhile, or use `--no-cache`",
            )
        return found

    def object(self, digest: str) -> bytes:
        """Return an image or bytes of a library. Raises ValueError where they are not what their name says."""
        content = _decoded((self.folder / "objects" / digest).read_bytes())
        if hashlib.sha256(content).hexdigest() != digest:
            raise ValueError(f"object {digest[:12]} is not what its name says")
        self._whole.add(digest)
        return content

    def _put_object(self, content: bytes) -> None:
        digest = hashlib.sha256(content).hexdigest()
        if digest not in self._whole:
            replace_file(self.folder / "objects" / digest, _encoded(content))
            self._whole.add(digest)


def _closed(key: str, contents: Sequence[bytes]) -> bytes:
    """Return the digest of parts, and the parts, each behind its length."""
    parts = [b"".join(_encoded(content)) for content in contents]
    body = b"".join(len(part).to_bytes(SIZE_BYTES, "little") + part for part in parts)
    return hashlib.sha256(key.encode() + body).digest() + body


def _opened(key: str, stored: bytes) -> Sequence[bytes]:
    """Return the parts, still encoded. Raises ValueError where they are not what was stored under the key."""
    digest, body = stored[:DIGEST_BYTES], stored[DIGEST_BYTES:]
    if hashlib.sha256(key.encode() + body).digest() != digest:
        raise ValueError("its digest differs")
    parts = []
    while body:
        upper = SIZE_BYTES + int.from_bytes(body[:SIZE_BYTES], "little")
        parts.append(body[SIZE_BYTES:upper])
        body = body[upper:]
    return parts


def _encoded(content: bytes) -> Sequence[bytes]:
    return [len(content).to_bytes(SIZE_BYTES, "little"), compress(content)]


def _decoded(stored: bytes) -> bytes:
    return decompress(stored[SIZE_BYTES:], int.from_bytes(stored[:SIZE_BYTES], "little"))
