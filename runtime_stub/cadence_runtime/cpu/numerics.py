"""The numeric switches that a plan was compiled under, as far as they bear on the CPU.

They are the process's, not a plan's, and bits depend on them. So an open plan *holds* them: they are set when the first
plan opens, a second plan that needs other values is refused, and the last one to close puts back what was there.
"""

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import torch

from cadence_runtime.errors import IncompatibleError, raise_all

Pairs = Iterable[tuple[str, str]]

BOOLEANS = frozenset(["true", "false"])
COUNTS = frozenset(map(str, range(1, 1025)))
PRECISIONS = frozenset(["highest", "high", "medium"])
FORMATS = frozenset(["none", "ieee", "tf32", "bf16"])


class Switch(NamedTuple):
    """How a switch is read, how it is written from text, and the texts that it takes."""

    read: Callable[[], object]
    write: Callable[[str], object]
    allowed: frozenset[str] = BOOLEANS


def is_true(text: str) -> bool:
    """Return a boolean switch's text as a bool."""
    return text == "true"


def flushes_denormals() -> bool:
    """Return whether the calling thread takes denormal numbers for zero; torch has no getter."""
    return bool(torch.tensor(1e-310, dtype=torch.float64, device="cpu").mul(1.0).item() == 0.0)


def fp32_precision(backend: str, op: str) -> Switch:
    """Return the switch that says how a library may round float32 operands."""
    read, write = torch._C._get_fp32_precision_getter, torch._C._set_fp32_precision_setter
    return Switch(partial(read, backend, op), partial(write, backend, op), FORMATS)


def matmul_precision() -> str:
    """Return the one word for all libraries, or `mixed` where they were set apart: torch raises then."""
    try:
        return str(torch.get_float32_matmul_precision())
    except RuntimeError:
        return "mixed"


def _set_matmul_precision(text: str) -> None:
    """Set it for the CPU: what CUDA does in the same process is none of a CPU plan's business."""
    cuda = fp32_precision("cuda", "matmul")
    kept = str(cuda.read())
    torch.set_float32_matmul_precision(text)
    cuda.write(kept)


SWITCHES: dict[str, Switch] = {
    "threads": Switch(torch.get_num_threads, lambda text: torch.set_num_threads(int(text)), COUNTS),
    "flush_denormal": Switch(flushes_denormals, lambda text: torch.set_flush_denormal(is_true(text))),
    "deterministic_algorithms": Switch(
        torch.are_deterministic_algorithms_enabled,
        lambda text: torch.use_deterministic_algorithms(is_true(text)),
    ),
    "float32_matmul_precision": Switch(matmul_precision, _set_matmul_precision, PRECISIONS),
    "mkldnn.matmul.fp32_precision": fp32_precision("mkldnn", "matmul"),  # behind the one above, which sets it too
    "mkldnn.conv.fp32_precision": fp32_precision("mkldnn", "conv"),
    "mkldnn.enabled": Switch(torch._C._get_mkldnn_enabled, lambda text: torch._C._set_mkldnn_enabled(is_true(text))),
}
"""In the order in which they are set."""


Table = Mapping[str, Switch]


def read(table: Table = SWITCHES) -> dict[str, str]:
    """Return switches as text, by name."""
    return {name: text_of(switch.read()) for name, switch in table.items()}


def write(values: Mapping[str, str], table: Table = SWITCHES) -> None:
    """Set those switches of the table that have another value now: to set one can move others."""
    for name, switch in table.items():
        if name in values and text_of(switch.read()) != values[name]:
            switch.write(values[name])


def text_of(value: object) -> str:
    """Return a switch's value as a plan records it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@contextmanager
def applied(wanted: Pairs, table: Table = SWITCHES) -> Iterator[None]:
    """Run with switches set, those that the table has, and put everything in the table back."""
    before = read(table)
    try:
        write(dict(wanted), table)
        yield
    finally:
        write(before, table)


def unknown_values(wanted: Pairs) -> Iterator[IncompatibleError]:
    """Yield CAD6007 for each switch with a value that it cannot have."""
    for name, text in wanted:
        if name in SWITCHES and text not in SWITCHES[name].allowed:
            yield IncompatibleError(
                "CAD6007",
                f"the plan wants a value of the numeric switch `{name}` that it does not take",
                expected=_one_of(SWITCHES[name].allowed),
                got=text,
            )


def _one_of(allowed: frozenset[str]) -> str:
    return "a count from 1 to 1024" if allowed is COUNTS else ", ".join(sorted(allowed))


class Hold:
    """The switches that one open plan depends on, until it is released."""

    def __init__(self, values: Mapping[str, str], before: Mapping[str, str]) -> None:
        self.values, self.before = values, before

    def release(self) -> None:
        """Let go; the last one puts back what was there before the first."""
        with _lock:
            if self in _open:
                _open.remove(self)
                if not _open:
                    write(self.before)

    def on_this_thread(self) -> None:
        """Set what torch keeps for each thread: one that has run torch before does not notice a new count."""
        threads = int(self.values["threads"])
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        torch.set_flush_denormal(is_true(self.values["flush_denormal"]))


def hold(wanted: Pairs) -> Hold:
    """Set the process's switches as a plan needs them. Raises IncompatibleError CAD6006 for each that another open plan
    needs otherwise; then nothing has changed."""
    with _lock:
        now = read()
        values = {**now, **{name: text for name, text in wanted if name in SWITCHES}}
        for other in _open:
            raise_all(_conflicts(values, other.values))
            held = Hold(values, other.before)
            break
        else:
            held = Hold(values, now)
        write(values)
        _open.add(held)
        return held


_lock = threading.Lock()
_open: "weakref.WeakSet[Hold]" = weakref.WeakSet()


def _conflicts(wanted: Mapping[str, str], held: Mapping[str, str]) -> Iterator[IncompatibleError]:
    for name, text in wanted.items():
        if held[name] != text:
            yield IncompatibleError(
                "CAD6006",
                f"another plan that is open here needs another `{name}`",
                expected=held[name],
                got=text,
                hint="close the other plan first, or load this one in a process of its own",
            )
