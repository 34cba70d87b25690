"""Diff: what changed between two plans, or two specs, by what the spec names. Needs neither torch nor a device."""

import os.path
from collections.abc import Sequence
from dataclasses import dataclass

from cadence_runtime.errors import UsageError
from cadence_runtime.format.replace import check_writable, replace_file
from cadencec.diff.compare import Diff, compare
from cadencec.diff.gates import Verdict, judge, parse_gate
from cadencec.diff.plain import to_json
from cadencec.diff.render import render
from cadencec.diff.sides import read_side

__all__ = ["Diff", "Report", "Request", "Verdict", "diff_files", "exit_code", "render", "to_html", "to_json"]


@dataclass(frozen=True, slots=True)
class Request:
    """Two files, and what is asked of their difference. `html` is a page to write, `fail_on` are gates."""

    a: str
    b: str
    offsets: bool = False
    any_model: bool = False
    exit_code: bool = False
    fail_on: tuple[str, ...] = ()
    html: str | None = None
    full: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """What changed, and whether it passes."""

    diff: Diff
    verdicts: Sequence[Verdict]


def diff_files(request: Request) -> Report:
    """Compare two files, and write the page that is asked for. Raises what `read_side`, `compare` and `parse_gate`
    raise, and UsageError CAD9204, CAD9205 or CAD9304 for a page that cannot be written."""
    gates = [parse_gate(text) for text in request.fail_on]
    if request.html is not None:
        _check_page(request.html, (request.a, request.b))
    before, after = read_side(request.a), read_side(request.b)
    diff = compare(before, after, offsets=request.offsets, any_model=request.any_model)
    report = Report(diff, judge(diff, gates))
    if request.html is not None:
        replace_file(request.html, [to_html(report).encode()])
    return report


def _check_page(page: str, sides: Sequence[str]) -> None:
    check_writable(page)
    if os.path.realpath(page) in map(os.path.realpath, sides):
        hint = "choose another name for `--html`"
        raise UsageError("CAD9304", "the page would replace a file that is compared", at=page, hint=hint)


def to_html(report: Report) -> str:
    """Return a page that needs nothing else."""
    from cadencec.diff.page import page

    return page(report.diff, report.verdicts)


def exit_code(report: Report, request: Request) -> int:
    """Return 1 where something could not be read, 3 for a gate that is not passed, and 3 for a difference where that is
    asked for, else 0."""
    if any(
        fault for facts in (report.diff.before, report.diff.after) if facts.kind == "plan" for fault in facts.faults
    ):
        return 1
    if any(not verdict.passed for verdict in report.verdicts):
        return 3
    return 3 if request.exit_code and report.diff.differs else 0
