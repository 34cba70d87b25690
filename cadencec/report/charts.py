"""Charts as plain geometry: marks with places, words and axes, in units of the picture.

y ^            +------+  mark          every mark has a title, every axis a name with its unit
  |      +-----+      |
  +------+-----+------+--> x
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from cadencec.report.facts import Life, Moment
from cadencec.report.text import bytes_text

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 720, 84, 16, 12, 44
"""Of every chart; the page scales it to its column."""
SERIES = 8
"""Colours that the page has; later series share the last."""
BAR_HEIGHT, BAR_LEFT = 26, 190


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Area:
    """A polygon: `points` as SVG writes them, `series` the number of its colour."""

    points: str
    series: int
    title: str


@dataclass(frozen=True, slots=True)
class Rect:
    """A rectangle with a title; `text` stands beside it."""

    x: float
    y: float
    width: float
    height: float
    series: int
    title: str
    text: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture with axes; `lines` are horizontal lines with a label (limits)."""

    height: int
    x_name: str
    y_name: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    areas: tuple[Area, ...] = ()
    rects: tuple[Rect, ...] = ()
    lines: tuple[Tick, ...] = ()


def series_of(index: int) -> int:
    """Return the colour of the n-th series."""
    return min(index, SERIES - 1)


def ticks(upper: float, count: int = 4) -> list[float]:
    """Return round numbers from 0 up to `upper`, about `count` of them."""
    if upper <= 0:
        return [0.0]
    rough = upper / count
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough)
    return [step * i for i in range(int(upper / step) + 1)]


def state_chart(names: Sequence[str], moments: Sequence[Moment], demand: int, height: int = 280) -> Chart:
    """Return the bytes of all regions over the pushes of the common path, stacked, below the demand of the slab."""
    order = [i for i, _ in enumerate(names) if any(moment.sizes[i] for moment in moments)]
    top = max(demand, max((sum(moment.sizes) for moment in moments), default=0), 1)
    plot_width, plot_height = WIDTH - LEFT - RIGHT, height - TOP - BOTTOM
    step = plot_width / len(moments)

    def y_of(value: float) -> float:
        return round(TOP + plot_height * (1 - value / top), 2)

    areas, below = [], [0] * len(moments)
    for number, index in enumerate(order):
        above = [low + moment.sizes[index] for low, moment in zip(below, moments, strict=True)]
        upper = [(round(LEFT + step * (i + d), 2), y_of(v)) for i, v in enumerate(above) for d in (0, 1)]
        lower = [(round(LEFT + step * (i + d), 2), y_of(v)) for i, v in enumerate(below) for d in (0, 1)]
        points = " ".join(f"{x},{y}" for x, y in (*upper, *reversed(lower)))
        most = max(moment.sizes[index] for moment in moments)
        areas.append(Area(points, series_of(number), f"{names[index]}: up to {bytes_text(most)}"))
        below = above
    every = max(1, math.ceil(len(moments) / 8))
    x_ticks = [Tick(round(LEFT + step * (i + 0.5), 2), m.when) for i, m in enumerate(moments) if i % every == 0]
    y_ticks = [Tick(y_of(value), bytes_text(int(value))) for value in ticks(top)]
    line = Tick(y_of(demand), f"demand {bytes_text(demand)}")
    axes = ("after each push of the common path", "state, bytes")
    return Chart(height, *axes, tuple(x_ticks), tuple(y_ticks), tuple(areas), lines=(line,))


def scratch_chart(lives: Sequence[Life], ops: int, height: int = 280) -> Chart:
    """Return buffers of scratch as rectangles: ops from left to right, offsets from the bottom up."""
    top = max((life.offset + life.size_bytes for life in lives), default=1)
    plot_width, plot_height = WIDTH - LEFT - RIGHT, height - TOP - BOTTOM
    x_unit, y_unit = plot_width / max(ops, 1), plot_height / top
    rects = [
        Rect(
            x=round(LEFT + life.lower * x_unit, 2),
            y=round(TOP + plot_height - (life.offset + life.size_bytes) * y_unit, 2),
            width=round(max((life.upper - life.lower) * x_unit, 0.75), 2),
            height=round(max(life.size_bytes * y_unit, 0.75), 2),
            series=life.storage % SERIES,
            title=f"{bytes_text(life.size_bytes)} at {life.offset:,}, ops {life.lower} to {life.upper}",
        )
        for life in lives
    ]
    x_ticks = [Tick(round(LEFT + value * x_unit, 2), f"{value:g}") for value in ticks(ops)]
    y_ticks = [Tick(round(TOP + plot_height - v * y_unit, 2), bytes_text(int(v))) for v in ticks(top)]
    return Chart(height, "op", "offset in scratch, bytes", tuple(x_ticks), tuple(y_ticks), rects=tuple(rects))


@dataclass(frozen=True, slots=True)
class Bars:
    """Horizontal bars, longest first, with a name on the left and a figure on the right."""

    height: int
    x_name: str
    rects: tuple[Rect, ...]


def bars(rows: Sequence[tuple[str, int, str]], x_name: str) -> Bars:
    """Return a bar for each (name, value, figure)."""
    top = max((value for _, value, _ in rows), default=1) or 1
    room = WIDTH - BAR_LEFT - 170
    rects = [
        Rect(BAR_LEFT, 4 + i * BAR_HEIGHT, round(max(room * value / top, 1), 2), BAR_HEIGHT - 10, 0, f"{name}: {text}",
             text, name if len(name) <= 26 else name[:25] + "…")
        for i, (name, value, text) in enumerate(rows)
    ]  # fmt: skip
    return Bars(len(rows) * BAR_HEIGHT + 28, x_name, tuple(rects))


def strip(rows: Sequence[tuple[str, int]]) -> tuple[Rect, ...]:
    """Return parts of a whole side by side; parts of less than two pixels are as wide as that."""
    total = sum(size for _, size in rows) or 1
    found, x = [], 0.0
    for number, (name, size) in enumerate(rows):
        width = max(WIDTH * size / total, 2)
        share = float(Fraction(100 * size, total))
        title = f"{name}: {bytes_text(size)}, {share:.1f} %"
        found.append(Rect(round(x, 2), 0, round(width, 2), 36, series_of(number), title, label=name))
        x += width
    scale = WIDTH / x if x else 1
    return tuple(replace(rect, x=round(rect.x * scale, 2), width=round(rect.width * scale, 2)) for rect in found)
