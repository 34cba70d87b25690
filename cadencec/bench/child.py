"""The process of one side: it answers its parent's requests, a line of JSON each, until there are no more.

    {"do": "begin"}             builds the loop                        {"device": ..., "variants": [...], ...}
    {"do": "first"}             pushes to the first output             {"first_output_s": from the start of the process}
    {"do": "session"}           runs a whole session                   {"open_s": ..., "times_s": [...], "digest": ...}
    {"do": "save"}              the same; writes down what came out
    {"do": "memory"}            tells what was taken                   {"device_bytes": ..., ...}

What a model prints goes to stderr. A failure with a code is an answer; any other one ends the process.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TextIO

from cadence_runtime.errors import CadenceError
from cadencec.bench.measure import Loop, first_output, run_session
from cadencec.bench.rows import read_rows, write_rows
from cadencec.bench.side import REPLAY, Side
from cadencec.bench.wire import from_line, to_line, told

FIRST, TALK = "first.rows", "talk.rows"
"""Files of a side's folder: the pushes up to the first output, and those of the whole session."""


class Answers:
    """What one side answers. `started_s` is when its process was started, on the clock of the system."""

    def __init__(self, side: Side, started_s: float) -> None:
        self._side, self._started_s = side, started_s
        self._loop: Loop | None = None
        self._pushes: list[Any] | None = None
        self._ends: list[Callable[[], None]] = []

    def to(self, request: str) -> dict[str, Any]:
        """Return the answer to a request."""
        match request:
            case "begin":
                return self.loop.facts()
            case "first":
                return self._first()
            case "memory":
                return dict(self.loop.memory())
            case _:
                return self._session(save=request == "save")

    def end(self) -> None:
        """Give back what the loop has taken."""
        for each in self._ends:
            each()

    @property
    def loop(self) -> Loop:
        """The loop, built when it is first asked for."""
        if self._loop is None:
            self._loop = self._built()
        return self._loop

    def _built(self) -> Loop:
        if self._side.kind == REPLAY:
            from cadencec.bench.replay import ReplayLoop

            replay = ReplayLoop(self._side)
            self._ends.append(replay.end)
            return replay
        from cadencec.bench.released import stock_loop

        stock, end = stock_loop(self._side)
        self._ends.append(end)
        return stock

    def _first(self) -> dict[str, Any]:
        now_s = first_output(self.loop, self._rows(FIRST), self._side.seed, time.time)
        return {"first_output_s": now_s - self._started_s}

    def _session(self, *, save: bool) -> dict[str, Any]:
        if self._pushes is None:
            self._pushes = [self.loop.prepare(row) for row in self._rows(TALK)]
        ran = run_session(self.loop, self._pushes, self._side.seed)
        if save:
            write_rows(self._side.outputs, ran.rows())
        return {"open_s": ran.open_s, "times_s": ran.times_s, "digest": ran.digest}

    def _rows(self, name: str) -> list[Any]:
        return read_rows(Path(self._side.folder, name))


def serve(answers: Answers, requests: Iterable[str], out: TextIO) -> None:
    """Answer requests until there are no more, or one fails."""
    try:
        for line in requests:
            try:
                answer = answers.to(from_line(line)["do"])
            except CadenceError as error:
                print(to_line(told(error)), file=out, flush=True)
                return
            print(to_line(answer), file=out, flush=True)
    finally:
        answers.end()


def main() -> None:
    """Serve the side that the arguments describe, on the standard streams."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve(Answers(Side.from_json(sys.argv[1]), float(sys.argv[2])), sys.stdin, out)


if __name__ == "__main__":
    main()
