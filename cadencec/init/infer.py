"""From what was seen to what a clock spec says: the region of each leaf, its retention, and how far each kind of push
moves it.

    lengths 0 3 6 8 8 8    window 8, by 3 a push          lengths 0 1 2 3 ...         grow, by 1
    a leaf of 10 rows, of which 4 change at a time, going round                       ring 10, by 4
    a leaf of 18 columns that move up by 4                                            window 18, by 4
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from cadence_runtime.errors import SpecError, TraceError
from cadencec.init.observe import Leaf, Observations, Seen
from cadencec.spec.values import read_leaf

Retention = tuple[str, int | None]


@dataclass(frozen=True, slots=True)
class Region:
    """A region: `shape` has None at the length; `advance` is by how many rows each kind moves it (None where nothing
    moves), `restarts` the kinds that put it back to its start. `why` says in words what was seen, `question` what was
    not."""

    name: str
    leaves: tuple[str, ...]
    dtype: str
    shape: tuple[int | None, ...]
    start: int | None
    retention: Retention
    advance: tuple[int, ...] | None
    restarts: tuple[int, ...]
    why: str
    question: str = ""


@dataclass(frozen=True, slots=True)
class Inferred:
    """`clocks` are rates against the first one by name, `clock_of` the clock of each region that has one, `advance` by
    how many ticks of the first clock each kind moves it. `guards` are the kinds that may come after each kind (-1: the
    start), or None where every order ran."""

    regions: tuple[Region, ...]
    clocks: Mapping[str, Fraction]
    clock_of: Mapping[str, str]
    advance: tuple[int, ...]
    guards: Mapping[int, tuple[int, ...]] | None
    grows: tuple[str, ...]


def infer(found: Observations) -> Inferred:
    """Return what explains the observations. Raises TraceError CAD3416 for a nest that changes, CAD3417 for lengths
    that no retention explains, CAD3418 for regions whose rates no clock has, CAD3420 for leaves without a name."""
    _check_nest(found)
    _check_paths(found)
    single = [_region(path, found) for path in found.start if _forms(path, found) and not _is_int(path, found)]
    regions = _named(_joined(single))
    clocks, clock_of, advance = _clocks(regions, len(found.kinds))
    grows = tuple(region.name for region in regions if region.retention[0] == "grow")
    return Inferred(tuple(regions), clocks, clock_of, advance, _guards(found), grows)


def _is_int(path: str, found: Observations) -> bool:
    values = [found.start[path], *(one.after[path] for one in found.seen)]
    return any(isinstance(value, int) for value in values)


def _check_nest(found: Observations) -> None:
    for one in found.seen:
        if one.after.keys() != found.start.keys():
            strange = sorted(one.after.keys() ^ found.start.keys())
            raise TraceError(
                "CAD3416",
                "the state changes its structure",
                expected="the same leaves after each push: " + ", ".join(f"`{path}`" for path in found.start),
                got="leaves that come or go: " + ", ".join(f"`{path}`" for path in strange[:5]),
                hint="keep the nest, and set leaves that are not there yet to None",
            )


def _check_paths(found: Observations) -> None:
    for path in found.start:
        try:
            read_leaf(path)
        except SpecError as error:
            raise TraceError(
                "CAD3420",
                "a clock spec cannot name a leaf of the state",
                expected=error.expected,
                got=f"`{path}`",
                hint="give the state keys without blanks and brackets",
            ) from error


def _forms(path: str, found: Observations) -> list[tuple[str, tuple[int, ...]]]:
    values = [found.start[path], *(one.before[path] for one in found.seen), *(one.after[path] for one in found.seen)]
    return [value for value in values if isinstance(value, tuple)]


def _region(path: str, found: Observations) -> Region:
    forms = _forms(path, found)
    dtypes, sizes = {dtype for dtype, _ in forms}, {size for _, size in forms}
    if len(dtypes) > 1 or len({len(size) for size in sizes}) > 1:
        raise _unexplained(path, f"dtypes {sorted(dtypes)}, sizes {sorted(sizes)}", "keep one dtype and number of dims")
    varying = [axis for axis in range(len(forms[0][1])) if len({size[axis] for size in sizes}) > 1]
    if len(varying) > 1:
        raise _unexplained(path, f"axes {varying} change: {sorted(sizes)[:4]}", "let one axis grow, or split the leaf")
    base = Region(path, (path,), dtypes.pop(), forms[0][1], _start(path, found), ("fixed", None), None, (), "")
    return _varying(path, base, varying[0], found) if varying else _still(path, base, found)


def _start(path: str, found: Observations) -> int | None:
    return None if found.start[path] is None else 1


def _still(path: str, base: Region, found: Observations) -> Region:
    """A leaf of one size: a window or a ring if its rows moved so at every push that was looked at."""
    if base.start is None:
        return _absent(path, base, found)
    looked = [one for one in found.seen if path in one.rows]
    for axis, size in enumerate(base.shape):
        by = _steady_shift(path, axis, looked, len(found.kinds))
        if by is not None and size is not None:
            shape = (*base.shape[:axis], None, *base.shape[axis + 1 :])
            why = "full from the start: its rows move up, and new ones come in behind"
            return replace(base, shape=shape, start=size, retention=("window", size), advance=by, why=why)
        turn = _steady_turn(path, axis, size or 0, looked, len(found.kinds))
        if turn is not None:
            shape = (*base.shape[:axis], None, *base.shape[axis + 1 :])
            why = "its rows are written in turn, and over again"
            return replace(base, shape=shape, retention=("ring", size), advance=turn, why=why)
    return replace(base, why="of one size, written as a whole" if looked else "of one size, and never changed")


def _absent(path: str, base: Region, found: Observations) -> Region:
    """A leaf that is None at the start, and again behind some kinds of push."""
    restarts = []
    for kind in range(len(found.kinds)):
        gone = {one.after[path] is None for one in found.seen if one.kind == kind}
        if len(gone) > 1:
            raise _unexplained(path, "None after some pushes of a kind, a tensor after others", "declare it by hand")
        restarts += [kind] if gone == {True} else []
    return replace(base, restarts=tuple(restarts), why="absent until a push fills it, then of one size")


def _steady_shift(path: str, axis: int, looked: Sequence[Seen], kinds: int) -> tuple[int, ...] | None:
    """Return by how many rows each kind shifts the axis, if each always shifts it by as many and some kind does.

    Rows of a fresh session are often all alike, and then any shift fits: of several the one that fits most often
    counts, and it has to fit half of all pushes of the kind."""
    advance = []
    for kind in range(kinds):
        own = [one for one in looked if one.kind == kind]
        shifts = Counter(by for one in own for at, by in one.shifts[path] if at == axis)
        if not own or not shifts:
            advance.append(0)
            continue
        by, count = max(shifts.items(), key=lambda row: (row[1], row[0]))
        if 2 * count < len(own):
            return None
        advance.append(by)
    return tuple(advance) if any(advance) and len(looked) >= 3 else None


def _steady_turn(path: str, axis: int, size: int, looked: Sequence[Seen], kinds: int) -> tuple[int, ...] | None:
    """Return how many rows each kind writes, if the rows of successive pushes go round the axis."""
    advance: list[int | None] = [None] * kinds
    last: int | None = None
    for one in looked:
        rows = next((rows for at, rows in one.rows[path] if at == axis), None)
        if rows is None:
            return None
        first = next((row for row in rows if (row - 1) % size not in rows), None)
        if first is None or {(first + i) % size for i in range(len(rows))} != set(rows):
            return None
        if advance[one.kind] not in (None, len(rows)) or (last is not None and first not in (last, 0)):
            return None
        advance[one.kind], last = len(rows), (first + len(rows)) % size
    return tuple(count or 0 for count in advance) if size > 1 and len(looked) >= 3 else None


def _varying(path: str, base: Region, axis: int, found: Observations) -> Region:
    """A leaf whose length changes: grow or window, with the kinds that put it back."""
    start = found.start[path]
    first = start[1][axis] if isinstance(start, tuple) else None
    pairs = [(one.kind, _length(one.before[path], axis), _length(one.after[path], axis)) for one in found.seen]
    longest = max(after for _, _, after in pairs if after is not None)
    stays = any(before == after == longest for _, before, after in pairs)
    cap = longest if stays else None
    restarts, advance, guesses = [], [], []
    for kind in range(len(found.kinds)):
        own = [(before, after) for number, before, after in pairs if number == kind]
        by, is_guess = _advance(own, cap, longest, found.kinds[kind])
        guesses += [by or 0] if is_guess else []
        is_back = by is None and all(after == (first or 0) for _, after in own)
        if by is None and not is_back:
            shown = ", ".join(f"{before} -> {after}" for before, after in own[:6])
            raise _unexplained(path, f"lengths {shown} at one kind of push", "declare the region by hand")
        restarts += [kind] if is_back else []
        advance.append(by or 0)
    shape = (*base.shape[:axis], None, *base.shape[axis + 1 :])
    kind_ = ("grow", None) if cap is None else ("window", cap)
    why = (
        f"grew up to {cap} and stayed there" if cap is not None else f"grew by {_some(advance)} a push, up to {longest}"
    )
    question = "" if cap is not None else "is there no length at which it stops? then `retain: {window: ...}`"
    if guesses:
        question = f"full behind one push: how many rows does a push bring? here {_some(guesses)} (`advance`)"
    return replace(
        base, shape=shape, start=first, retention=kind_, advance=tuple(advance), restarts=tuple(restarts), why=why,
        question=question,
    )  # fmt: skip


def _some(advance: Sequence[int]) -> str:
    return " or ".join(map(str, sorted({by for by in advance if by})))


def _length(leaf: Leaf, axis: int) -> int | None:
    return leaf[1][axis] if isinstance(leaf, tuple) else None


def _advance(
    own: Sequence[tuple[int | None, int | None]], cap: int | None, longest: int, kind: Sequence[object]
) -> tuple[int | None, bool]:
    """Return by how many rows a kind of push moves a region, or None where no number explains what was seen; and
    whether that is one of several numbers that do."""
    known = [(before or 0, after) for before, after in own if after is not None]
    free = {after - before for before, after in known if cap is None or after < cap}
    least = max((after - before for before, after in known if after == cap), default=0)
    if len(free) > 1 or any(by < 0 for by in free):
        return None, False
    if free:
        by = free.pop()
        explains = all(after == (min(before + by, cap) if cap else before + by) for before, after in known)
        return (by if explains else None), False
    if all(before == after for before, after in known) and longest == 0:
        return 0, False
    # Never seen below the cap: as many rows as the push brings, if that is enough to fill it.
    brought = [size for form in kind if isinstance(form, tuple) for size in form[1] if size >= max(least, 1)]
    return min(brought, default=max(least, 1)), True


def _unexplained(path: str, got: str, hint: str) -> TraceError:
    return TraceError(
        "CAD3417",
        f"nothing in a clock spec explains the state leaf `{path}`",
        expected="one size, or one axis that grows, is kept to a length, or starts again",
        got=got,
        hint=hint,
    )


def _joined(regions: Sequence[Region]) -> list[Region]:
    """Join leaves that differ in the numbers of their paths only and do the same: the layers of one model."""
    groups: dict[tuple[object, ...], list[Region]] = {}
    for region in regions:
        stem = re.sub(r"(?<![A-Za-z_])\d+(?![A-Za-z_])", "#", region.name)
        key = (stem, region.dtype, region.shape, region.start, region.retention, region.advance, region.restarts)
        groups.setdefault(key if "#" in stem else (region.name,), []).append(region)
    return [replace(own[0], name=own[0].name, leaves=tuple(region.name for region in own)) for own in groups.values()]


RESERVED = frozenset(["t", "and", "or", "not", "min", "max", "init", "reset"])


def _named(regions: Sequence[Region]) -> list[Region]:
    """Give regions names that a spec may have, no two alike."""
    taken: set[str] = set()
    named = []
    for region in regions:
        path = region.name if len(region.leaves) == 1 else re.sub(r"\.?(?<![A-Za-z_])\d+(?![A-Za-z_])", "", region.name)
        name = re.sub(r"[^A-Za-z0-9_.]", "_", path).strip(".") or "state"
        name = re.sub(r"(^|\.)(?=\d)", r"\1_", name)
        name = f"{name}_" if name in RESERVED else name
        each, number = name, 2
        while each in taken:
            each, number = f"{name}_{number}", number + 1
        taken.add(each)
        named.append(replace(region, name=each))
    return named


def _clocks(regions: Sequence[Region], kinds: int) -> tuple[dict[str, Fraction], dict[str, str], tuple[int, ...]]:
    """Return one clock for each rate: regions whose advances stand in one ratio at every kind share a base."""
    moving = [region for region in regions if region.advance is not None and any(region.advance)]
    still = [region for region in regions if region.advance is not None and not any(region.advance)]
    if not moving:
        return ({"tick": Fraction(1)} if still else {}), {region.name: "tick" for region in still}, (0,) * kinds
    base = min(moving, key=lambda region: (max(region.advance or ()), region.name)).advance or ()
    clocks, clock_of = {"tick": Fraction(1)}, {region.name: "tick" for region in still}
    for region in moving:
        advance = region.advance or ()
        ratios = {Fraction(own, by) for own, by in zip(advance, base, strict=True) if by}
        if len(ratios) != 1 or any(own and not by for own, by in zip(advance, base, strict=True)):
            raise TraceError(
                "CAD3418",
                "no clocks have the rates at which regions move",
                expected="regions that move in one ratio at every kind of push",
                got=f"`{region.name}` by {list(advance)} rows, another by {list(base)}, at kinds 1 to {kinds}",
                hint="split the stage, so that each part moves with its own event",
            )
        ratio = ratios.pop()
        name = next((name for name, rate in clocks.items() if rate == ratio), f"tick_{len(clocks) + 1}")
        clocks[name], clock_of[region.name] = ratio, name
    return clocks, clock_of, tuple(base)


def _guards(found: Observations) -> dict[int, tuple[int, ...]] | None:
    """Return which kinds may follow which, or None where each may follow all that can come first."""
    numbers = range(len(found.kinds))
    every = {(before, after) for before in (-1, *numbers) for after in numbers}
    if every <= found.orders:
        return None
    return {before: tuple(k for k in numbers if (before, k) in found.orders) for before in (-1, *numbers)}
