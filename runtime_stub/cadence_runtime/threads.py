"""Work on many items in a few threads, where most of it waits outside of Python: for a file, a digest, the driver."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Condition, Thread
from types import TracebackType
from typing import Generic, Self, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def side_by_side(work: Callable[[Item], Result], items: Sequence[Item], threads: int) -> list[Result]:
    """Return what `work` makes of each item, in order. Items are begun in order, by the caller's thread and others, up
    to `threads` in all, or fewer where the system gives no more.

    Where items fail, the first of them in the order of the items is raised, whatever came first in time; by then
    nothing runs any more.
    """
    with Begun(work, items, min(threads, len(items)) - 1) as begun:
        return begun.results()


class Begun(Generic[Item, Result]):
    """Work on items that other threads have begun, in order, while the caller does something else.

    Used as a context manager: once the block is left, nothing runs any more, and what was not begun never is.
    """

    def __init__(self, work: Callable[[Item], Result], items: Sequence[Item], others: int) -> None:
        """`others` is how many threads work besides the caller's, if the system gives as many."""
        self._work, self._items = work, items
        self._left = list(reversed(range(len(items))))  # the next item stands last
        self._results: dict[int, Result] = {}
        self._errors: dict[int, BaseException] = {}
        self._change = Condition()
        self._threads: list[Thread] = []
        with suppress(RuntimeError):  # the system has no thread to give
            for _ in range(others):
                thread = Thread(target=self._run)
                thread.start()
                self._threads.append(thread)

    def __len__(self) -> int:
        return len(self._items)

    def result(self, number: int) -> Result:
        """Return what became of one item, begun by the caller where nobody has. Raises as `results` does."""
        with self._change:
            own = number in self._left
            if own:
                self._left.remove(number)
        if own:
            self._do(number)
        with self._change:
            self._change.wait_for(lambda: number in self._results or self._errors)
        return self._results[number] if not self._errors else self.results()[number]

    def results(self) -> list[Result]:
        """Take part in the work, and return what became of each item, in order. Raises the error of the first item that
        fails, in the order of the items, whatever came first in time."""
        self._run()
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise self._errors[min(self._errors)]
        return [self._results[number] for number in range(len(self._items))]

    def _run(self) -> None:
        while (number := self._next()) is not None:
            self._do(number)

    def _next(self) -> int | None:
        """Return the next item to begin: behind a failure, only those that stand before it."""
        with self._change:
            if not self._left or (self._errors and self._left[-1] > min(self._errors)):
                return None
            return self._left.pop()

    def _do(self, number: int) -> None:
        try:
            result = self._work(self._items[number])
        except BaseException as error:
            with self._change:
                self._errors[number] = error
                self._change.notify_all()
        else:
            with self._change:
                self._results[number] = result
                self._change.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._change:
            self._left.clear()
        for thread in self._threads:
            thread.join()
