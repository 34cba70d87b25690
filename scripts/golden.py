"""Writes today's plan of a small model beside the golden ones in `plans/`, never over one of them.

A golden plan is what a release once wrote: every later runtime of the same major format has to read it. The file's name
says model, target, format and day; the tests pin its digest.
"""

import datetime
import sys
from pathlib import Path

from cadence_runtime.format.file import MAJOR, MINOR
from cadencec.compile.job import Request, compile_file

ROOT = Path(__file__).parents[1]
SPEC = ROOT / "tests" / "cases" / "01_growing_kv_cat.yaml"


def main() -> int:
    day = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    path = ROOT / "plans" / f"growing-kv-cat.cpu.format-{MAJOR}.{MINOR}.{day}.plan"
    if path.exists():
        print(f"{path.relative_to(ROOT)} is there already, and is never written over", file=sys.stderr)
        return 1
    path.parent.mkdir(exist_ok=True)
    written = compile_file(Request(str(SPEC), str(path), embed_weights=True), lambda *_: None).written
    print(f"{path.relative_to(ROOT)}: {written.plan_bytes} bytes; pin its digest in tests/golden/test_golden.py")
    return 0


if __name__ == "__main__":
    sys.exit(main())
