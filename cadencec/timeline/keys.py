"""Projection: of all that differs between configurations, a stage sees only its args, its regions and its inputs."""

from cadence_runtime.host.compiled import RawRun
from cadence_runtime.host.program import Program
from cadence_runtime.host.rules import event_error
from cadencec.timeline.timeline import StageKey


class Projection:
    """The stage keys of a program in the order in which a search meets them."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.keys: dict[StageKey, int] = {}
        self._runs: dict[RawRun, int] = {}
        self._rows: dict[tuple[RawRun, ...], tuple[int, ...]] = {}

    def row(self, runs: tuple[RawRun, ...], event: int) -> tuple[int, ...]:
        """Return the indices of the keys of all runs of a push.

        Raises `TimelineError` CAD2010 for an input of negative size.
        """
        row = self._rows.get(runs)
        if row is None:
            row = tuple(self._index(run, event) for run in runs)
            self._rows[runs] = row
        return row

    def _index(self, run: RawRun, event: int) -> int:
        if run not in self._runs:
            key = StageKey(self.program.stages[run.stage].name, run.args, run.lengths, run.inputs)
            _check_sizes(self.program, event, key)
            self._runs[run] = self.keys.setdefault(key, len(self.keys))
        return self._runs[run]


def _check_sizes(program: Program, event: int, key: StageKey) -> None:
    for i, form in enumerate(key.inputs):
        if isinstance(form, tuple) and any(size < 0 for size in form):
            stage = next(stage for stage in program.stages if stage.name == key.stage)
            name = program.events[event].name
            raise event_error(
                f"events.{name}.inputs",
                "CAD2010",
                f"input `{stage.inputs[i].name}` of stage `{key.stage}` has a negative size after `{name}`",
                expected="sizes of 0 or more",
                got=f"[{', '.join(map(str, form))}]",
                hint="guard the event, or use `max(0, ...)`",
            )
