"""Work on many items in a few threads, where most of it waits outside of Python: for a file, a digest, the driver."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def side_by_side(work: Callable[[Item], Result], items: Sequence[Item], threads: int) -> list[Result]:
    """Return what `work` makes of each item, in order. Items are begun in order, by the caller's thread and others, up
    to `threads` in all, or fewer where the system gives no more.

    Where items fail, the first of them in the order of the items is raised, whatever came first in time; by then
    nothing runs any more.
    """
    results: dict[int, Result] = {}
    errors: dict[int, BaseException] = {}
    numbers = iter(range(len(items)))

    def run() -> None:
        for number in numbers:
            try:
                results[number] = work(items[number])
            except BaseException as error:
                errors[number] = error
            if errors:
                return

    others: list[Thread] = []
    with suppress(RuntimeError):  # the system has no thread to give
        for _ in range(min(threads, len(items)) - 1):
            other = Thread(target=run)
            other.start()
            others.append(other)
    run()
    for other in others:
        other.join()
    if errors:
        raise errors[min(errors)]
    return [results[number] for number in range(len(items))]
