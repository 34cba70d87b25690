"""What a verification found, as data, as text and as JSON."""

from dataclasses import dataclass
from typing import Any

DIFFERS = 3
"""The exit code of a plan that is not its stock model."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first thing that differed in one session: `event` counts its pushes from 1 (0 is the start), `what` names an
    output or a state leaf, `when` says whether an output was compared at once or late, after everything else."""

    walk: int
    session: str
    event: int
    pushed: str
    what: str
    when: str
    difference: str

    def line(self) -> str:
        """Return one line of text."""
        place = f"walk {self.walk}, session {self.session}, event {self.event} (`{self.pushed}`)"
        return f"{place}: {self.what} {self.when}: {self.difference}"


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """How much was compared, bit for bit, and what differed. `elements` counts the numbers in all outputs and leaves;
    `captures` are those of the plan that ran, of `captures_in_plan`; `random_weights` are none of a release."""

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
    random_weights: bool = False

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
    verdict = "bit-identical to the stock model" if report.is_equal else "differs from the stock model"
    lines = [
        f"{report.model}{', random weights' * report.random_weights}: {verdict}",
        f"  {report.events} events in {report.sessions} sessions of {report.walks} walks, {report.resets} resets",
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
        "equal": report.is_equal,
        **{name: getattr(report, name) for name in counts},
        "differences": rows,
    }
