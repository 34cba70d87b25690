"""Report: what is in a plan, as one page with pictures, or as a header for C. Needs neither torch nor a device."""

import os.path
from dataclasses import dataclass

from cadence_runtime.errors import IncompatibleError, UsageError
from cadence_runtime.format.replace import check_writable, replace_file

__all__ = ["Request", "Written", "report_file"]


@dataclass(frozen=True, slots=True)
class Request:
    """A plan and the file to write. `spec` adds what the released code allocates; `c_header` writes a header."""

    plan: str
    output: str | None = None
    spec: str | None = None
    c_header: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """The file that was written."""

    path: str
    size_bytes: int


def report_file(request: Request) -> Written:
    """Write a report. Raises UsageError CAD92xx, CAD9305 and CAD9306, PlanError CAD5xxx, and IncompatibleError
    CAD6903 for a spec that is not the plan's."""
    suffix = ".h" if request.c_header else ".html"
    output = request.output
    if output is None:
        output = os.path.basename(request.plan).removesuffix(".plan") + suffix
    check_writable(output)
    for given in (request.plan, request.spec):
        if given is not None and os.path.realpath(given) == os.path.realpath(output):
            hint = "choose another name with `-o`"
            raise UsageError("CAD9305", "the report would replace what it reads", at=output, hint=hint)
    if request.c_header and request.spec is not None:
        hint = "leave `--spec` out: it is for the page"
        raise UsageError("CAD9306", "a header says nothing of a spec", got=f"`--spec {request.spec}`", hint=hint)
    text = _header(request.plan) if request.c_header else _page(request)
    return Written(output, replace_file(output, [text.encode()]))


def _page(request: Request) -> str:
    from cadencec.report.facts import report_facts
    from cadencec.report.page import page

    if request.spec is None:
        return page(report_facts(request.plan, {}))
    from cadencec.spec import load_spec

    spec = load_spec(request.spec)
    facts = report_facts(request.plan, dict(spec.stock_bytes))
    if facts.plan.provenance.spec_sha256 != spec.sha256:
        raise IncompatibleError(
            "CAD6903",
            "the spec is not the one that the plan was compiled from",
            expected=facts.plan.provenance.spec_sha256,
            got=spec.sha256,
            at=request.spec,
            hint="name the spec of this plan, or leave `--spec` out",
        )
    return page(facts)


def _header(plan: str) -> str:
    from cadencec.report.header import header

    return header(plan)
