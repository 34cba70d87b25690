"""What a verification found, as data, as text and as JSON."""

from dataclasses import dataclass
from typing import Any

DIFFERS = 3
"""The exit code of a plan that is not its stock model."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first thing that differed in one session: `event` counts its pushes from 1 (0 is the start), `what` names an
    output or a state leaf, `when` says whether an output was compared at once or late, after everything else, and
    `against` with what."""

    walk: int
    session: str
    event: int
    pushed: str
    what: str
    when: str
    difference: str
    against: str

    def line(self) -> str:
        """Return one line of text."""
        place = f"walk {self.walk}, session {self.session}, event {self.event} (`{self.pushed}`)"
        return f"{place}: {self.what} {self.when} is not that of {self.against}: {self.difference}"


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """How much was compared, bit for bit, and what differed. `elements` counts the numbers in all outputs and leaves;
    `captures` are those of the plan that ran, of `captures_in_plan`; `random_weights` are none of a release. `seconds`
    went by on the clocks, over all sessions; `against` is what the plan was held to."""

    model: str
    walks: int
    sessions: int
    events: int
    resets: int
    outputs: int
    leaves: int
    elements: int
    captures: int
    captures_in_plan: int
    differences: tuple[Difference, ...]
    random_weights: bool
    seconds: float
    against: tuple[str, ...]

    @property
    def is_equal(self) -> bool:
        """Whether nothing differed."""
        return not self.differences

    @property
    def exit_code(self) -> int:
        """0, or 3 where the plan differs from the stock model."""
        return 0 if self.is_equal else DIFFERS


def render(report: VerifyReport) -> str:
    """Return the report as lines of text."""
    against = " and ".join(report.against)
    verdict = f"bit-identical to {against}" if report.is_equal else f"differs from {against}"
    lasted = f", {report.seconds:.1f} s by the clocks" if report.seconds else ""
    sessions = f"{report.sessions} sessions of {report.walks} walks"
    lines = [
        f"{report.model}{', random weights' * report.random_weights}: {verdict}",
        f"  {report.events} events in {sessions}, {report.resets} resets{lasted}",
        f"  {report.outputs} outputs and {report.leaves} state leaves compared, {report.elements} numbers",
        f"  {report.captures} of {report.captures_in_plan} captures ran",
    ]
    return "\n".join(lines + [f"  {difference.line()}" for difference in report.differences])


def to_json(report: VerifyReport) -> dict[str, Any]:
    """Return the report as a JSON object."""
    counts = ("walks", "sessions", "events", "resets", "outputs", "leaves", "elements", "captures", "captures_in_plan")
    rows = [{name: getattr(difference, name) for name in Difference.__slots__} for difference in report.differences]
    return {
        "model": report.model,
        "random_weights": report.random_weights,
        "against": list(report.against),
        "equal": report.is_equal,
        **{name: getattr(report, name) for name in counts},
        "seconds": report.seconds,
        "differences": rows,
    }
