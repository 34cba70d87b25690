"""A process of its own for one side, and the questions that it is asked. See `child` for its answers."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cadence_runtime.errors import DeviceError
from cadencec.bench.side import Side
from cadencec.bench.wire import from_line, raise_told, to_line

LAST_WORDS = 300
"""Letters of what a process wrote to stderr that are shown when it ends before it was told to."""


class Process:
    """The process of a side, from its start to its end."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self._words = Path(side.folder, f"{time.monotonic_ns()}.stderr")
        paths = os.pathsep.join(path for path in sys.path if path)
        with open(self._words, "wb") as words:
            self._child = subprocess.Popen(  # noqa: S603 - this interpreter, on this package
                [sys.executable, "-P", "-m", "cadencec.bench.child", side.to_json(), repr(time.time())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=words,
                text=True,
                env={**os.environ, "PYTHONPATH": paths},
            )

    def ask(self, request: str) -> dict[str, Any]:
        """Return the answer to a request. Raises the error that it is, or DeviceError CAD8030 where the process ends
        instead."""
        assert self._child.stdin is not None and self._child.stdout is not None  # noqa: S101 - they are pipes
        try:
            print(to_line({"do": request}), file=self._child.stdin, flush=True)
            line = self._child.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise self._ended(request)
        answer = from_line(line)
        raise_told(answer)
        return answer

    def close(self) -> None:
        """Let the process end; one that does not is stopped."""
        assert self._child.stdin is not None and self._child.stdout is not None  # noqa: S101 - they are pipes
        with suppress(BrokenPipeError):
            self._child.stdin.close()
        try:
            self._child.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._child.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._child.kill()
        self.close()

    def _ended(self, request: str) -> DeviceError:
        code = self._child.wait()
        how = f"exit code {code}" if code >= 0 else f"{signal.Signals(-code).name}"
        words = self._words.read_text(errors="replace").strip().rpartition("\n")[2][-LAST_WORDS:]
        return DeviceError(
            "CAD8030",
            f"the process of `{self.side.name}` ended before it was told to",
            expected=f"an answer to `{request}`",
            got=f"{how}; its last words: {words}" if words else how,
            hint="free memory of the device and the host, or find out what the model does on its own",
        )
