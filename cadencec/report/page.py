"""The report as one HTML page that needs nothing else: no script, no font, no network."""

from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined

from cadencec.report.charts import Bars, bars, scratch_chart, state_chart, strip
from cadencec.report.diagrams import region_diagram, timeline_diagram
from cadencec.report.facts import KeyLine, ReportFacts
from cadencec.report.text import bytes_text, counted

MOST_ROWS = 60
"""Rows of a table that are shown; the rest is folded into a last one."""
MOST_BARS = 12


def page(facts: ReportFacts) -> str:
    """Return the page; the same facts give the same bytes."""
    loader = PackageLoader("cadencec.report", ".")
    room = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    room.filters["bytes"] = bytes_text
    plan, found = facts.plan, facts.inspection
    names = [region.name for region in plan.program.regions]
    demand = sum(region.demand_bytes for region in found.regions)
    stock = [facts.stock_bytes.get(region.name) for region in found.regions]
    longest = max((len(tape.ops) for tape in plan.tapes), default=0)
    largest = sorted(found.regions, key=lambda region: (-region.demand_bytes, region.name))
    return room.get_template("page.html.j2").render(
        facts=facts,
        found=found,
        counted=counted,
        demand=demand,
        stock_total=sum(s for s in stock if s is not None) if any(s is not None for s in stock) else None,
        regions=region_diagram(facts.timeline),
        states=timeline_diagram(facts.timeline),
        state=state_chart(names, facts.moments, demand),
        state_series=[name for i, name in enumerate(names) if any(moment.sizes[i] for moment in facts.moments)],
        scratch=scratch_chart(facts.lives, longest) if facts.lives else None,
        arena=strip([(section.name, section.size_bytes) for section in found.arena if section.size_bytes]),
        largest=bars([(r.name, r.demand_bytes, bytes_text(r.demand_bytes)) for r in largest[:MOST_BARS]], "bytes"),
        families=bars([(name, n, f"{n:,}") for name, n in facts.families[:MOST_BARS]], "launches of all captures"),
        stages=_stage_bars(facts.keys),
        keys=sorted(facts.keys, key=lambda key: (-key.launches, key.name))[:MOST_ROWS],
        launch="node" if plan.cuda else "op",
    )


def _stage_bars(keys: Sequence[KeyLine]) -> Bars:
    """Return the launches of each stage's longest key, with how many keys it has."""
    rows = []
    for stage in dict.fromkeys(key.stage for key in keys):
        own = [key.launches for key in keys if key.stage == stage]
        span = f"{min(own):,}" if min(own) == max(own) else f"{min(own):,} to {max(own):,}"
        rows.append((stage, max(own), f"{span} ({counted(len(own), 'key')})"))
    return bars(rows, "launches a key")
