"""What every oracle says of an event that its released loop does not know."""

from collections.abc import Sequence

from cadence_runtime.errors import TraceError


def unknown(event: str, known: Sequence[str]) -> TraceError:
    """Return the error for an event of a spec that no released loop takes."""
    return TraceError(
        "CAD3424",
        f"the released loop has no event `{event}`",
        expected=", ".join(f"`{name}`" for name in known),
        got=f"`{event}`",
        hint="name events as the adapter's own spec does, or hold the plan to its own stages by `--stages`",
    )
