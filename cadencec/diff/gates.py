"""Gates: what must not happen between two versions, as a release pipeline writes it.

memory           must not grow at all
memory,+5%       may grow by 5 % of what it was
state,+1MiB      may grow by so much (B, KiB, MiB, GiB; a plain number for counts)
numerics         a part that must not change
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from cadence_runtime.errors import UsageError
from cadencec.diff.compare import PARTS, Diff
from cadencec.diff.facts import MEASURES

UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_MEASURE = re.compile(r"(?P<name>[a-z]+)(?:,\+(?P<number>\d+(?:\.\d+)?)(?P<unit>%|[KMG]iB|B)?)?")
_PART = "changed:"


@dataclass(frozen=True, slots=True)
class Gate:
    """A part that may not change, or a measure with how much it may grow: a number, or a share of what it was."""

    text: str
    name: str
    is_part: bool = False
    allowed: Fraction = Fraction(0)
    is_share: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a gate is passed, and the figures: for a measure before, after and at most, for a part the changes."""

    gate: str
    passed: bool
    why: str
    before: int | None = None
    after: int | None = None
    at_most: int | None = None
    changes: int | None = None


def parse_gate(text: str) -> Gate:
    """Return a gate. Raises UsageError CAD9303."""
    name = text.strip().removeprefix(_PART)
    if text.strip().startswith(_PART) and name in PARTS:
        return Gate(text, name, is_part=True)
    match = _MEASURE.fullmatch(text.strip())
    if match is None or match["name"] not in MEASURES:
        raise UsageError(
            "CAD9303",
            "`--fail-on` takes a measure or a part",
            expected=f"MEASURE, MEASURE,+5% or MEASURE,+10MiB with one of {', '.join(MEASURES)}; "
            f"or changed:PART with one of {', '.join(PARTS)}",
            got=f"`{text}`",
        )
    number, unit = Fraction(match["number"] or 0), match["unit"] or ""
    is_share = unit == "%"
    return Gate(text, match["name"], allowed=number / 100 if is_share else number * UNITS[unit], is_share=is_share)


def judge(diff: Diff, gates: Sequence[Gate]) -> tuple[Verdict, ...]:
    """Return a verdict for each gate. What cannot be compared does not pass."""
    return tuple(_part(diff, gate) if gate.is_part else _measure(diff, gate) for gate in gates)


def _measure(diff: Diff, gate: Gate) -> Verdict:
    found = next((measure for measure in diff.measures if measure.name == gate.name), None)
    if found is None or found.before is None or found.after is None:
        return Verdict(gate.text, False, "not known of both")
    allowed = gate.allowed * found.before if gate.is_share else gate.allowed
    grown = found.after - found.before
    unit = f" {found.unit}" if found.unit else ""
    most = int(found.before + allowed)
    why = f"{found.before:,} -> {found.after:,}{unit}, at most {most:,}"
    return Verdict(gate.text, grown <= allowed, why, found.before, found.after, most)


def _part(diff: Diff, gate: Gate) -> Verdict:
    found = next((part for part in diff.parts if part.name == gate.name), None)
    if found is None or found.why_not:
        return Verdict(gate.text, False, "not compared" + (f": {found.why_not}" if found else ""))
    count = len(found.changes)
    return Verdict(gate.text, not count, f"{count} changed" if count else "unchanged", changes=count)
