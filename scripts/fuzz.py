"""Feeds random inputs to what reads from outside, for as long as it is told: `python scripts/fuzz.py [TARGET ...]`.

    plan         mutated plans for the CPU and for CUDA through the reader: only our errors, within a second and
                 256 MiB each; needs no torch
    spec         mutated clock specs through the loader, likewise
    atheris      both, guided by coverage, where atheris is installed; the corpus is kept in `.cache/fuzz`
    hypothesis   expressions against a reference evaluator, the search of the timeline against a naive one,
                 and random streaming modules, compiled and replayed, by fresh seeds

An input that escapes is saved in `.cache/fuzz`, and told with what runs it again. `--count N` feeds so many instead of
a time, which makes a run repeatable: the n-th input of a seed is the same everywhere.
"""

import argparse
import importlib
import importlib.util
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, ModuleType
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "runtime_stub")]  # what stands here, and not what is installed
FOUND = ROOT / ".cache" / "fuzz"
TARGETS = ("plan", "spec", "atheris", "hypothesis")
MODULES = {"plan": "tests.fuzz.plans", "spec": "tests.fuzz.specs"}
BATCH, LIMIT_S, LIMIT_BYTES = 500, 1.0, 256 << 20
TESTS = (
    "tests/host/test_expression.py::test_values_are_those_of_the_reference",
    "tests/timeline/test_search.py::test_search_agrees_with_a_naive_one",
)


@dataclass(slots=True)
class Tally:
    """How inputs ended, by code, and those that escaped: (number, what was raised)."""

    codes: Counter[str] = field(default_factory=Counter)
    escapes: list[tuple[int, str]] = field(default_factory=list)


class TooSlowError(Exception):
    """An input took longer than the limit."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; all by default")
    parser.add_argument("--seconds", type=float, default=300, help="for all targets together (300)")
    parser.add_argument("--count", type=int, help="so many inputs for plan and spec, instead of a time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--replay", type=int, metavar="N", help="run input N of the seed again, in this process")
    given = parser.parse_args()
    targets = given.targets or list(TARGETS)
    if unknown := set(targets) - set(TARGETS):
        parser.error(f"no such target: {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    if given.replay is not None:
        return replay(targets[0], given.seed, given.replay)
    share = given.seconds / len(targets)
    return max(_run(target, share, given) for target in targets)


def _run(target: str, seconds: float, given: argparse.Namespace) -> int:
    if target == "atheris":
        return guided(seconds)
    if target == "hypothesis":
        return hypotheses(seconds, given.seed)
    return mutations(target, seconds, given)


def replay(target: str, seed: int, number: int) -> int:
    """Run one input again."""
    module = importlib.import_module(MODULES[target])
    print(module.check(module.mutated(seed, number)))
    return 0


def mutations(target: str, seconds: float, given: argparse.Namespace) -> int:
    """Feed mutated inputs in a pool of processes; return 1 where one escaped."""
    tally, began, told = Tally(), time.monotonic(), 0.0
    numbers = range(0, given.count or 1 << 60, BATCH)
    context = multiprocessing.get_context("spawn")
    with context.Pool(given.workers, initializer=_prepare, initargs=(target,)) as pool:
        jobs = ((target, given.seed, lower, min(lower + BATCH, given.count or 1 << 60)) for lower in numbers)
        for codes, escapes in pool.imap_unordered(_batch, jobs):
            tally.codes.update(codes)
            tally.escapes += escapes
            now = time.monotonic() - began
            if now - told > 5:
                told = now
                print(f"{target}: {tally.codes.total():,} inputs, {len(tally.escapes)} escaped", file=sys.stderr)
            if tally.escapes or (given.count is None and now > seconds):
                pool.terminate()
                break
    return _told(target, given.seed, tally, time.monotonic() - began)


def _told(target: str, seed: int, tally: Tally, seconds: float) -> int:
    count, accepted = tally.codes.total(), tally.codes.pop("accepted", 0)
    refused = ", ".join(f"{code} {number:,}" for code, number in tally.codes.most_common(8))
    print(
        f"{target}: {count:,} inputs of seed {seed} in {seconds:,.0f} s, {accepted:,} accepted, "
        f"{len(tally.codes)} codes, {len(tally.escapes)} escaped"
    )
    print(f"  refused most by {refused}")
    for number, what in tally.escapes[:3]:
        FOUND.mkdir(parents=True, exist_ok=True)
        path = FOUND / f"{target}-{seed}-{number}"
        path.write_bytes(importlib.import_module(MODULES[target]).mutated(seed, number))
        print(f"  ESCAPED: {path}\n  again: python scripts/fuzz.py {target} --seed {seed} --replay {number}\n{what}")
    return int(bool(tally.escapes))


_module: ModuleType


def _prepare(target: str) -> None:
    """Make a worker ready: everything imported, memory and time limited from here on."""
    global _module  # noqa: PLW0603 - one a worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _module = importlib.import_module(MODULES[target])
    _module.check(_module.mutated(0, 0))
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + LIMIT_BYTES, -1))
    signal.signal(signal.SIGALRM, _late)


def _late(number: int, frame: FrameType | None) -> NoReturn:
    raise TooSlowError(f"longer than {LIMIT_S} s")


def _batch(job: tuple[str, int, int, int]) -> tuple[Counter[str], list[tuple[int, str]]]:
    _, seed, lower, upper = job
    codes: Counter[str] = Counter()
    for number in range(lower, upper):
        data = _module.mutated(seed, number)
        signal.setitimer(signal.ITIMER_REAL, 10 * LIMIT_S)  # of a busy machine; processor time is what is limited
        began = time.process_time()
        try:
            codes[_module.check(data)] += 1
            if time.process_time() - began > LIMIT_S:
                raise TooSlowError(f"{time.process_time() - began:.2f} s")
        except BaseException:
            return codes, [(number, traceback.format_exc(limit=-6))]
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    return codes, []


def guided(seconds: float) -> int:
    """Let atheris look for inputs, for half of the time each; return 1 where one escaped."""
    if importlib.util.find_spec("atheris") is None:
        print("atheris: skipped, since it is not installed: pip install atheris")
        return 0
    code = 0
    for target in MODULES:
        corpus = FOUND / f"corpus-{target}"
        corpus.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, str(ROOT / "scripts" / "fuzz_guided.py"), target, str(corpus)]
        command += [
            f"-max_total_time={int(seconds / len(MODULES))}",
            "-max_len=16384",
            "-timeout=10",
            "-rss_limit_mb=2048",
        ]
        command += [f"-artifact_prefix={FOUND}/{target}-guided-", "-print_final_stats=1", "-verbosity=0"]
        done = subprocess.run(command, cwd=ROOT, check=False)
        print(f"atheris {target}: {'no escape' if done.returncode == 0 else 'an input escaped, see above'}")
        code = max(code, int(done.returncode != 0))
    return code


def hypotheses(seconds: float, seed: int) -> int:
    """Run the differential tests and random modules by fresh seeds; return 1 where one fails."""
    began, rounds = time.monotonic(), 0
    while time.monotonic() - began < seconds or not rounds:
        rounds += 1
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            f"--hypothesis-seed={seed + rounds}",
        ]
        done = subprocess.run([*command, *TESTS], cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            print(done.stdout)
            return 1
        modules(seed + rounds)
    print(f"hypothesis: {rounds} rounds of {len(TESTS)} differential tests and 20 random modules, nothing differs")
    return 0


def modules(seed: int) -> None:
    """Compile and replay random streaming modules of a seed."""
    import hypothesis

    from tests.fuzz_modules.recipe import recipes, trapped
    from tests.fuzz_modules.test_random_modules import hunt, replays, replays_or_is_refused

    hypothesis.core.global_force_seed = seed
    hunt(recipes, replays, 16)
    hunt(trapped, replays_or_is_refused, 4)


if __name__ == "__main__":
    sys.exit(main())
