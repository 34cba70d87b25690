"""Sessions: streams of events, each with its own state, on one loaded plan.

    with plan.session(seed=7) as s:
        out = s.push("chunk", x=samples)["speech"]

A session that is not active keeps its state in a slab of its own; to push to it is to make it active. One lock a plan:
captures share scratch and the io section, so one runs at a time.
"""

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple

from cadence_runtime.choices import read_choices
from cadence_runtime.errors import SessionError
from cadence_runtime.format.plan import Plan, TensorForm
from cadence_runtime.host.program import Event, EventInput, Program, Queue
from cadence_runtime.host.step import enabled
from cadence_runtime.player import Array, GeneratorState, Player, Slab
from cadence_runtime.script import Call, EventScript, Script, ScriptBook, literal_value


class Emitted(NamedTuple):
    """The outputs of one event, by name."""

    event: str
    outputs: Mapping[str, Array]


class Outputs:
    """What a push returned: the outputs of its events, in order.

    `outputs["audio"]` is the output of that name when one event made it; `outputs.all("audio")` is a tuple of all, in
    order, none to many. Iterating yields `Emitted` records.
    """

    def __init__(self, emitted: tuple[Emitted, ...]) -> None:
        self.emitted = emitted

    def __iter__(self) -> Iterator[Emitted]:
        return iter(self.emitted)

    def __len__(self) -> int:
        return len(self.emitted)

    def all(self, name: str) -> tuple[Array, ...]:
        """Return every output of that name, in order."""
        return tuple(record.outputs[name] for record in self.emitted if name in record.outputs)

    def __getitem__(self, name: str) -> Array:
        if len(self.emitted) == 1 and name in self.emitted[0].outputs:
            return self.emitted[0].outputs[name]
        found = self.all(name)
        if len(found) == 1:
            return found[0]
        names = sorted({key for record in self.emitted for key in record.outputs})
        raise SessionError(
            "CAD7050",
            f"the push did not make one output `{name}`",
            expected="one",
            got=f"{len(found)}; outputs of this push: {', '.join(f'`{key}`' for key in names) or 'none'}",
            hint=f'`outputs.all("{name}")` returns them in order',
        )


@dataclass(frozen=True, slots=True)
class Declared:
    """What an event takes: arrays as name and dtype, and the names of its choices."""

    arrays: Mapping[str, str]
    choices: frozenset[str]


def declared_inputs(program: Program, event: Event) -> Declared:
    """Return what an event takes."""
    dtypes = {entry.name: entry.dtype for stage in program.stages for entry in stage.inputs if entry.dtype}
    dtypes |= {queue.name: queue.dtype for queue in program.queues}
    arrays = {entry.name: dtypes[entry.name] for entry in event.inputs if entry.literal is None}
    return Declared(arrays, frozenset(choice.name for choice in event.choices))


class LoadedPlan:
    """A plan on a device. Close it to give back everything; sessions end with it."""

    def __init__(self, plan: Plan, player: Player) -> None:
        self.plan, self._player = plan, player
        self._book = ScriptBook(plan)
        self._scripts: dict[tuple[object, ...], Script] = {}
        self._declared = {event.name: declared_inputs(plan.program, event) for event in plan.program.events}
        self._lock = threading.RLock()
        self._active: Session | None = None
        self._closed = False

    def session(self, seed: int | None = None) -> "Session":
        """Open a session at its start. `seed` seeds its random draws; without one they are seeded with 0."""
        with self._lock:
            self._check_open()
            return Session(self, 0 if seed is None else seed)

    def report(self) -> Mapping[str, int]:
        """Return what the plan takes on the device, in bytes, by name."""
        return self._player.report()

    def close(self) -> None:
        """Give back everything. A second call does nothing."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._active = None
                self._player.close()

    def __enter__(self) -> "LoadedPlan":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise SessionError("CAD7052", "the plan is closed", expected="a loaded plan", got="a closed one")

    def _activate(self, session: "Session") -> None:
        """Make a session's state the active one."""
        if self._active is session:
            return
        if self._active is not None:
            self._player.deactivate(self._active._slab)
        self._active = None
        self._player.activate(session._slab)
        self._active = session


class Session:
    """One stream. Not made directly: see `LoadedPlan.session`."""

    def __init__(self, loaded: LoadedPlan, seed: int) -> None:
        self._loaded, self._player = loaded, loaded._player
        self._plan = loaded.plan
        self._slab: Slab = self._player.new_slab()
        self._events = {event.name: event for event in self._plan.program.events}
        self._params = dict(self._plan.program.params)
        self._queues: dict[str, Array] = {}
        self._node = 0
        self._generator: GeneratorState = self._player.seeded(seed)
        self._broken: str | None = None
        self._restart_queues()
        loaded._activate(self)
        self._generator = self._player.run(self._plan.init, self._generator)

    def seed(self, seed: int) -> None:
        """Seed the random draws from here on, as `torch.manual_seed` does for the stock model."""
        with self._loaded._lock:
            self._check_usable()
            self._generator = self._player.seeded(seed)

    @property
    def enabled(self) -> tuple[str, ...]:
        """The external events that may be pushed now, by name."""
        return enabled(self._plan.program, self._plan.nodes[self._node].configuration)

    def push(self, event: str, *, borrow: bool = False, **inputs: object) -> Outputs:
        """Let an event happen, and the internal ones that follow it; return their outputs in order.

        Inputs are arrays on the host by name, literals as they are, and values of choices that no shape shows. Outputs
        are copies that belong to the caller; with `borrow` they are views that the session's next push may overwrite,
        and so may another session's. Raises SessionError, and then nothing has happened.
        """
        with self._loaded._lock:
            self._check_usable()
            declared = self._find(event)
            arrays, given = self._sort_inputs(declared, inputs)
            script = self._script(declared, arrays, given)
            emitted: list[Emitted] = []
            try:
                self._loaded._activate(self)
                for part in script.events:
                    outputs = self._follow(part, arrays, borrow)
                    if outputs:
                        emitted.append(Emitted(part.event, outputs))
                    arrays = {}
            except BaseException as error:
                self._broken = f"{type(error).__name__} in `{event}`"
                raise
            self._node = script.target
            return Outputs(tuple(emitted))

    def state(self) -> dict[str, Array | int | None]:
        """Return copies of all leaves of the state, by path."""
        with self._loaded._lock:
            self._check_usable()
            self._loaded._activate(self)
            leaves = zip(self._plan.leaves, self._plan.nodes[self._node].forms, strict=True)
            return {leaf.path: self._leaf(index, form) for index, (leaf, form) in enumerate(leaves)}

    def close(self) -> None:
        """End the session. A second call does nothing."""
        with self._loaded._lock:
            if self._loaded._active is self:
                self._loaded._active = None
            if self._slab is not None and not self._loaded._closed:
                self._player.free_slab(self._slab)
            self._broken, self._slab = "close", None

    def __enter__(self) -> "Session":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _leaf(self, index: int, form_index: int) -> Array | bool | int | None:
        form = self._plan.forms[form_index]
        if isinstance(form, TensorForm):
            return self._player.leaf(index, form)
        return literal_value(form)

    def _check_usable(self) -> None:
        self._loaded._check_open()
        if self._broken is not None:
            closed = self._broken == "close"
            raise SessionError(
                "CAD7053",
                "the session has ended",
                expected="an open session",
                got="a closed one" if closed else f"one that failed: {self._broken}",
                hint="open another session",
            )

    def _find(self, event: str) -> Event:
        found = self._events.get(event)
        if found is not None:
            return found
        external = [f"`{name}`" for name, entry in self._events.items() if not entry.internal]
        raise SessionError("CAD7001", f"there is no event `{event}`", expected=", ".join(external), got=f"`{event}`")

    def _script(self, event: Event, arrays: Mapping[str, Array], given: Mapping[str, int]) -> Script:
        """Return what the push does, by the shapes of what it brings; each is worked out once a plan."""
        shape = self._player.shape
        key = (self._node, event.name, *[shape(array) for array in arrays.values()], *given.items())
        script = self._loaded._scripts.get(key)
        if script is None:
            shapes = {name: shape(array) for name, array in arrays.items()}
            choices = read_choices(event, shapes, given, self._params)
            script = self._loaded._scripts[key] = self._loaded._book.find(self._node, event.name, choices)
        return script

    def _sort_inputs(self, event: Event, inputs: Mapping[str, object]) -> tuple[dict[str, Array], dict[str, int]]:
        """Return the arrays of an event and the choices given by name; check names, literals and dtypes."""
        declared = self._loaded._declared[event.name]
        if inputs.keys() != declared.arrays.keys():
            self._check_names(event, declared, inputs)
            for entry in event.inputs:
                if entry.literal is not None and entry.name in inputs:
                    self._check_literal(event, entry, inputs[entry.name])
        arrays = {name: self._accept(event, name, inputs[name], dtype) for name, dtype in declared.arrays.items()}
        given = {name: _choice(event, name, inputs[name]) for name in declared.choices if name in inputs}
        return arrays, given

    def _check_names(self, event: Event, declared: "Declared", inputs: Mapping[str, object]) -> None:
        known = {entry.name for entry in event.inputs} | declared.choices
        unknown, missing = sorted(set(inputs) - known), sorted(set(declared.arrays) - set(inputs))
        if unknown or missing:
            raise _wrong_names(event, unknown, missing)

    def _check_literal(self, event: Event, entry: EventInput, value: object) -> None:
        if type(value) is not type(entry.literal) or value != entry.literal:
            raise SessionError(
                "CAD7054",
                f"input `{entry.name}` of event `{event.name}` has another value than the event declares",
                expected=repr(entry.literal),
                got=repr(value),
                hint="leave it out: the event sets it",
            )

    def _accept(self, event: Event, name: str, value: object, dtype: str) -> Array:
        got = None
        try:
            return self._player.accept(value, dtype)
        except TypeError as error:
            got = f"`{error}`"
        except ValueError as error:
            got = f"{error}"
        raise SessionError(
            "CAD7055",
            f"input `{name}` of event `{event.name}` is no array of its dtype",
            expected=f"an array of {dtype} on the host",
            got=got,
        )

    def _follow(self, script: EventScript, arrays: Mapping[str, Array], borrow: bool) -> dict[str, Array]:
        """Let one event happen; return what it emits."""
        values = dict(arrays)
        for name in script.arrivals:
            queue = self._queue(name)
            self._queues[name] = self._player.join(self._queues[name], arrays[name], queue.axis)
        for call in script.calls:
            self._run(call, values, script.emits, borrow)
        if script.restarts:
            self._restart_queues()
        else:
            self._drop_rows(script.fills)
        return {name: values[name] for name in script.emits if name in values}

    def _run(self, call: Call, values: dict[str, Array], emits: tuple[str, ...], borrow: bool) -> None:
        """Run a capture; its outputs become values of the event."""
        for feed in call.feeds:
            value = (
                self._player.take(self._queues[feed.name], feed.axis, 0, feed.rows) if feed.queue else values[feed.name]
            )
            self._player.write_input(call.capture, feed.position, value)
        self._generator = self._player.run(call.capture, self._generator)
        for position, name in call.outputs:
            output = self._player.output(call.capture, position)
            keep = borrow or name not in emits
            values[name] = output if keep else self._player.copy(output)
        if call.literals:
            values.update(call.literals)

    def _queue(self, name: str) -> Queue:
        return next(queue for queue in self._plan.program.queues if queue.name == name)

    def _restart_queues(self) -> None:
        for queue in self._plan.program.queues:
            self._queues[queue.name] = self._player.rows(queue.start, queue.dtype, queue.axis, queue.axis + 1)

    def _drop_rows(self, fills: tuple[tuple[str, int], ...]) -> None:
        """Let rows leave at the front of each queue until as many are left as its counter says."""
        for name, rows in fills:
            axis = self._queue(name).axis
            held = self._player.shape(self._queues[name])[axis]
            if held != rows:
                self._queues[name] = self._player.take(self._queues[name], axis, held - rows, held)


def _wrong_names(event: Event, unknown: list[str], missing: list[str]) -> SessionError:
    wanted = [f"`{entry.name}`" for entry in event.inputs if entry.literal is None]
    got = [f"unknown {', '.join(f'`{name}`' for name in unknown)}"] if unknown else []
    got += [f"without {', '.join(f'`{name}`' for name in missing)}"] if missing else []
    return SessionError(
        "CAD7056", f"event `{event.name}` takes other inputs", expected=", ".join(wanted) or "none", got="; ".join(got)
    )


def _choice(event: Event, name: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise SessionError(
        "CAD7057", f"choice `{name}` of event `{event.name}` is no integer", expected="an int", got=repr(value)
    )
