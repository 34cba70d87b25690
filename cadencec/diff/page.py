"""A diff as one HTML page that needs nothing else: no script, no font, no network."""

from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined

from cadencec.diff.compare import Diff
from cadencec.diff.gates import Verdict
from cadencec.diff.render import MARKS, measure_text, part_text, verdict_of


def page(diff: Diff, verdicts: Sequence[Verdict]) -> str:
    """Return the page; the same diff gives the same bytes."""
    loader = PackageLoader("cadencec.diff", ".")
    room = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    marks = {kind: mark for kind, (mark, _) in MARKS.items()}
    template = room.get_template("page.html.j2")
    words = {"measure_text": measure_text, "part_text": part_text, "verdict": verdict_of(diff)}
    return template.render(diff=diff, verdicts=verdicts, marks=marks, **words)
