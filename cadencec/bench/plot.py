"""Lateness over the number of sessions, both sides, as an SVG that stands by itself.

 late ^                x             the 99th percentile of a run, in cadences; above the line it is late
    0 +----------------------        one cadence: done when the next unit comes
early |  x  x   x  x
      +----------------------> sessions, by powers of two
"""

from collections.abc import Iterator, Sequence
from math import log2

from cadencec.bench.live_report import Live
from cadencec.bench.run import Ran

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 640, 360, 64, 40, 24, 48
COLOURS = {"stock": "#b3541e", "replay": "#1e6fb3"}
LOWEST, HIGHEST = -1.0, 2.0
"""Cadences of lateness that are shown; what is beyond stands at the edge."""


def plot(found: Live) -> str:
    """Return the plot of a live bench."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Live) -> Iterator[str]:
    cadence_s = found.cadence_s or 1.0
    most = max(ran.sessions for ran in (*found.stock, *found.replay))
    box = f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {box}>'
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
    yield f'<text x="{LEFT}" y="22" font-size="14">{_text(found.title)}: lateness of the 99th percentile</text>'
    for cadences, label in ((-1.0, "-1"), (0.0, "0"), (1.0, "1"), (2.0, "2 cadences")):
        y = _y(cadences)
        yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" stroke="#ddd"/>'
        anchor = f'x="{LEFT - 6}" text-anchor="end"' if len(label) < 3 else f'x="{LEFT + 6}"'
        yield f'<text {anchor} y="{y + 4}" fill="#555">{label}</text>'
    ticks = [1 << power for power in range(int(log2(most)) + 1)]
    for sessions in ticks:
        place = f'x="{_x(sessions, most)}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle"'
        yield f'<text {place} fill="#555">{sessions}</text>'
    yield f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 10}" text-anchor="end" fill="#555">sessions</text>'
    for index, (side, runs) in enumerate((("stock", found.stock), ("replay", found.replay))):
        yield from _side(side, runs, cadence_s, most, index)
    yield "</svg>"


def _side(side: str, runs: Sequence[Ran], cadence_s: float, most: int, index: int) -> Iterator[str]:
    colour = COLOURS[side]
    points = [(_x(ran.sessions, most), _y(ran.percentile(0.99) / cadence_s)) for ran in runs]
    path = " ".join(f"{x},{y}" for x, y in points)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
    for (x, y), ran in zip(points, runs, strict=True):
        title = f"{side}, {ran.sessions} sessions: {ran.late} of {ran.units} units late"
        yield f'<circle cx="{x}" cy="{y}" r="4" fill="{colour}"><title>{title}</title></circle>'
    yield f'<text x="{WIDTH - RIGHT - 120 + 60 * index}" y="22" fill="{colour}">{side}</text>'


def _x(sessions: int, most: int) -> float:
    share = log2(sessions) / log2(most) if most > 1 else 0.5
    return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)


def _y(cadences: float) -> float:
    share = (min(max(cadences, LOWEST), HIGHEST) - LOWEST) / (HIGHEST - LOWEST)
    return round(HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM), 1)


def _text(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
