"""A diff for people: what a reviewer needs in the first lines, then what changed, part by part. Plain ASCII."""

from collections.abc import Iterator, Sequence

import click

from cadencec.diff.compare import Change, Diff, Measure, PartDiff
from cadencec.diff.gates import Verdict

SHOWN = 12
"""Changes of a part that are listed; `--full` lists all."""
MARKS = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}


def render(diff: Diff, verdicts: Sequence[Verdict], *, full: bool = False) -> str:
    """Return the text of a diff, with ANSI colours."""
    return "\n".join([*_head(diff), *_gates(verdicts), *_measures(diff), *_summary(diff), *_details(diff, full)])


def _head(diff: Diff) -> Iterator[str]:
    before, after = diff.before, diff.after
    target = before.target if before.target == after.target else f"{before.target} and {after.target}"
    model = before.model if before.model == after.model else f"{before.model} and {after.model}"
    verdict = verdict_of(diff)
    yield click.style(f"{model}: {verdict}", bold=True) + (f", for {target}" if target else "")
    yield f"  a  {before.path}"
    yield f"  b  {after.path}"
    for fault in diff.faults:
        yield click.style(f"  {fault.code}: {fault.what}", fg="red") + (f", {fault.at}" if fault.at else "")


def verdict_of(diff: Diff) -> str:
    """Return what a reviewer wants to know first."""
    if diff.differs:
        return "differs"
    return "same as far as it could be compared" if diff.left_out or diff.faults else "same"


def _gates(verdicts: Sequence[Verdict]) -> Iterator[str]:
    for verdict in verdicts:
        word = click.style("pass", fg="green") if verdict.passed else click.style("FAIL", fg="red", bold=True)
        yield f"  {word}  {verdict.gate}: {verdict.why}"


def _measures(diff: Diff) -> Iterator[str]:
    changed = [m for m in diff.measures if m.before != m.after]
    for measure in changed:
        yield f"  {measure.name:<12} {measure_text(measure)}"
    same = [measure.name for measure in diff.measures if measure.before == measure.after]
    if same:
        yield f"  {'same':<12} {', '.join(same)}"


def measure_text(measure: Measure) -> str:
    """Return a number before and after, and by how much it grew: ``1,024 -> 1,280 bytes (+25.0 %)``."""
    if measure.before is None or measure.after is None:
        return " -> ".join("unknown" if value is None else f"{value:,}" for value in (measure.before, measure.after))
    unit = f" {measure.unit}" if measure.unit else ""
    share = f" ({(measure.after - measure.before) / measure.before:+.1%})" if measure.before else ""
    return f"{measure.before:,} -> {measure.after:,}{unit}{share.replace('%', ' %')}"


def _summary(diff: Diff) -> Iterator[str]:
    yield ""
    for part in diff.parts:
        yield f"  {part.name:<12} {part_text(part)}"


def part_text(part: PartDiff) -> str:
    """Return what happened to a part in a few words."""
    if part.why_not:
        return f"not compared: {part.why_not}"
    counts = [f"{sum(c.kind == kind for c in part.changes):,} {kind}" for kind in MARKS]
    found = [text for text in counts if not text.startswith("0 ")]
    if not found:
        return f"same ({part.same:,})" if part.same else "none"
    return ", ".join(found) + (f", {part.same:,} same" if part.same else "")


def _details(diff: Diff, full: bool) -> Iterator[str]:
    for part in diff.parts:
        if not part.changes:
            continue
        yield ""
        yield click.style(part.name, bold=True)
        shown = part.changes if full else part.changes[:SHOWN]
        for change in shown:
            yield from _change(change)
        if len(shown) < len(part.changes):
            yield f"    and {len(part.changes) - len(shown):,} more; `--full` lists them"


def _change(change: Change) -> Iterator[str]:
    mark, colour = MARKS[change.kind]
    yield click.style(f"  {mark} {change.name}", fg=colour)
    for sign, text in (("-", change.before), ("+", change.after)):
        if text:
            yield f"      {sign} {text}" if change.kind == "changed" else f"      {text}"
