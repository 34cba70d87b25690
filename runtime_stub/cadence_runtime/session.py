"""Sessions: streams of events, each with its own state, on one loaded plan.

    with plan.session(seed=7) as s:
        out = s.push("chunk", x=samples)["speech"]

Captures address one active state; to push to a session is to make its state the active one (`states`). One lock a plan:
captures share scratch and the io section, so one runs at a time.
"""

import operator
import threading
import weakref
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Self, SupportsIndex

from cadence_runtime.capacity import Capacity
from cadence_runtime.errors import SessionError, UsageError
from cadence_runtime.format.plan import Plan, TensorForm
from cadence_runtime.host.step import enabled
from cadence_runtime.inputs import intakes
from cadence_runtime.outputs import Emitted, Outputs
from cadence_runtime.player import Array, GeneratorState, Player
from cadence_runtime.queues import Queues
from cadence_runtime.script import EventScript, ScriptBook, Value, literal_value
from cadence_runtime.states import States
from cadence_runtime.times import Times

__all__ = ["Emitted", "LoadedPlan", "Outputs", "Session"]

SEEDS = range(-(2**63), 2**64)
"""The seeds that torch takes."""


class LoadedPlan:
    """A plan on a device. Close it to give back everything; sessions end with it."""

    def __init__(self, plan: Plan, player: Player, beside: "LoadedPlan | None" = None) -> None:
        """`beside` is another lane of the plan."""
        self.plan, self._player = plan, player
        self._lanes: weakref.WeakSet[LoadedPlan] = weakref.WeakSet() if beside is None else beside._lanes
        self._lanes.add(self)
        self._spare: list[Player] = []
        self._book = ScriptBook(plan)
        self._intakes = intakes(plan.program)
        self._lock = threading.RLock()
        self._states = States(player)
        self._capacity: Capacity | None = None
        self._here = threading.local()
        self._closed = False

    def session(self, seed: int = 0, *, overcommit: bool = False) -> "Session":
        """Open a session at its start, its random draws seeded. Raises SessionError CAD7060 where it would be more than
        the plan was told to admit, unless it may `overcommit`."""
        with self._lock:
            self._check_open()
            if self._capacity is not None and not overcommit:
                self._capacity.check(len(self._states))
            return Session(self, seed)

    def lane(self) -> "LoadedPlan":
        """Return the plan on a lane of its own: the same weights and constants, and other state, io and scratch, so
        that both can push at once. It is closed by itself. Raises DeviceError where there is no memory, or the plan
        has but one lane."""
        with self._lock:
            self._check_open()
            return LoadedPlan(self.plan, self._spare.pop() if self._spare else self._player.lane(), beside=self)

    def take_lanes(self, count: int) -> None:
        """Take memory for so many further lanes now; `lane` hands them out. Raises as `lane` does."""
        with self._lock:
            self._check_open()
            for _ in range(count):
                self._spare.append(self._player.lane())

    @property
    def spare_lanes(self) -> int:
        """How many lanes are there that were not handed out."""
        return len(self._spare)

    def capacity(
        self, times: Times | None = None, *, ahead_s: float = 0.0, share: float = 0.8, lanes: int = 1
    ) -> Capacity:
        """Return how many sessions this plan carries here, on so many lanes, of which some may not be there yet: from
        what is free now and, with times, the cadence."""
        with self._lock:
            self._check_open()
            slab_bytes = next(section.size_bytes for section in self.plan.sections if section.name == "state")
            slowest_s = 0.0 if times is None else times.slowest_s
            cadence_s = self.plan.program.cadence_s
            there = sum(1 + each.spare_lanes for each in self._lanes if not each._closed)
            to_come = max(0, lanes - there)
            free_bytes, lanes_bytes = self._player.free_bytes(), to_come * self._player.lane_bytes()
            return Capacity(slab_bytes, free_bytes, slowest_s, cadence_s, ahead_s, share, lanes, lanes_bytes)

    def admit(self, capacity: Capacity | None) -> None:
        """Refuse sessions beyond a capacity from now on; None admits any number."""
        with self._lock:
            self._capacity = capacity

    @property
    def switches(self) -> int:
        """How often another session's state was made the active one."""
        return self._states.switches

    @property
    def slab_bytes(self) -> int:
        """What the slabs of sessions take on the device."""
        state = next(section.size_bytes for section in self.plan.sections if section.name == "state")
        return state * self._states.slabs

    def settle(self) -> None:
        """Wait until all that sessions can run next is ready, as far as the budget reaches; raise DeviceError where it
        cannot be. A push that comes later waits for nothing."""
        with self._lock:
            self._check_open()
            self._player.residency.settle()

    def residency(self) -> Mapping[str, int]:
        """Return what the budget of a CUDA plan holds, in bytes and executables, and how often pushes found that some
        were not there (`misses`) and waited (`waits`); empty where everything stays."""
        return self._player.residency.figures()

    def report(self) -> Mapping[str, int]:
        """Return what the plan takes on the device, in bytes, by name."""
        return self._player.report()

    def close(self) -> None:
        """End every session and give back everything. A second call does nothing."""
        with self._lock:
            if not self._closed:
                self._use_here()
                self._closed = True
                with ExitStack() as closing:
                    for player in (self._player, *self._spare):
                        closing.callback(player.close)
                    closing.callback(self._states.close_all)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise SessionError("CAD7052", "the plan is closed", expected="a loaded plan", got="a closed one")
        self._use_here()

    def _use_here(self) -> None:
        """Make the device current on this thread, where it was not yet."""
        if not hasattr(self._here, "is_used"):
            self._player.use()
            self._here.is_used = True


class Session:
    """One stream. Not made directly: see `LoadedPlan.session`."""

    def __init__(self, loaded: LoadedPlan, seed: int) -> None:
        self._loaded, self._player, self._plan = loaded, loaded._player, loaded.plan
        self._generator: GeneratorState = self._player.seeded(_checked_seed(seed))
        self._queues = Queues(self._plan.program, self._player)
        self._lent: dict[str, Array] = {}
        self._node = 0
        self._ended: str | None = None
        self._ticket = loaded._states.open()
        self._dropped = weakref.finalize(self, loaded._states.abandon, self._ticket)
        self._dropped.atexit = False
        try:
            self._player.residency.ready((self._plan.init,))
            self._generator = self._player.run(self._plan.init, self._generator)
            self._player.residency.stands(self._ticket, self._node)
        except BaseException:
            self.close()
            raise

    def activate(self) -> None:
        """Make this session's state the active one now, so that its next push need not."""
        with self._loaded._lock:
            self._check_open()
            self._loaded._states.activate(self._ticket)

    def seed(self, seed: int) -> None:
        """Seed the random draws from here on, as `torch.manual_seed` does for the stock model."""
        with self._loaded._lock:
            self._check_open()
            self._generator = self._player.seeded(_checked_seed(seed))

    @property
    def enabled(self) -> tuple[str, ...]:
        """The external events that may be pushed now, by name."""
        self._check_open()
        return enabled(self._plan.program, self._plan.nodes[self._node].configuration)

    def push(self, event: str, /, *, borrow: bool = False, **inputs: object) -> Outputs:
        """Let an event happen, and the internal ones that follow it; return their outputs in order.

        Inputs are arrays on the host by name, literals as they are, and values of choices that no shape shows. Outputs
        are copies that belong to the caller; with `borrow` they stand on memory of the session, and its next push may
        overwrite them. Raises SessionError, or DeviceError for executables that could not be built ahead, and then
        nothing has happened; a push that fails half way for another reason ends the session.
        """
        loaded, player = self._loaded, self._player
        with loaded._lock:
            self._check_open()
            intake = loaded._intakes.get(event) or loaded._book.refuse(self._node, event)
            arrays, given = intake.sort(inputs, player)
            shapes = {name: player.shape(array) for name, array in arrays.items()}
            script = loaded._book.find(self._node, event, shapes, given)
            player.residency.ready(script.captures)
            emitted = []
            try:
                loaded._states.activate(self._ticket)
                for part in script.events:
                    values = self._play(part, arrays)
                    arrays = {}  # later events take from queues alone
                    if part.emits:
                        emitted.append(
                            Emitted(part.event, self._emit(part, values, borrow and part is script.events[-1]))
                        )
            except BaseException as error:
                self._ended = f"one that failed: {type(error).__name__} in `{event}`"
                player.residency.stands(self._ticket, None)
                raise
            self._node = script.target
            player.residency.stands(self._ticket, self._node)
            return Outputs(tuple(emitted))

    def state(self) -> dict[str, Array | Value]:
        """Return copies of all leaves of the state, by path."""
        with self._loaded._lock:
            self._check_open()
            self._loaded._states.activate(self._ticket)
            leaves = zip(self._plan.leaves, self._plan.nodes[self._node].forms, strict=True)
            return {leaf.path: self._leaf(index, form) for index, (leaf, form) in enumerate(leaves)}

    def close(self) -> None:
        """End the session. A second call does nothing."""
        with self._loaded._lock:
            if self._dropped.detach() is None:
                return
            self._ended = "a closed one"
            self._lent.clear()
            if not self._loaded._closed:
                self._loaded._use_here()
                self._loaded._states.close(self._ticket)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        self._loaded._check_open()
        if self._ended is None:
            return
        raise SessionError(
            "CAD7053",
            "the session has ended",
            expected="an open session",
            got=self._ended,
            hint="open another session",
        )

    def _play(self, part: EventScript, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Let one event happen to the active state; return its arrays and all outputs, where they were made."""
        player, values = self._player, dict(arrays)
        for name in part.arrivals:
            self._queues.arrive(name, arrays[name])
        for call in part.calls:
            for feed in call.feeds:
                value = values[feed.name] if feed.rows is None else self._queues.front(feed.name, feed.rows)
                player.write_input(call.capture, feed.position, value)
            self._generator = player.run(call.capture, self._generator)
            for position, name in call.outputs:
                values[name] = player.output(call.capture, position)
        if part.restarts:
            self._queues.restart()
        elif part.fills:
            self._queues.settle(part.fills)
        return values

    def _emit(self, part: EventScript, values: Mapping[str, Array], borrow: bool) -> dict[str, Array | Value]:
        """Return the outputs of an event as the caller gets them: only now, since an input may stand on what was lent
        before."""
        found: dict[str, Array | Value] = {}
        for name in part.emits:
            if name in part.constants:
                found[name] = part.constants[name]
            elif borrow:
                found[name] = self._lent[name] = self._player.lend(values[name], self._lent.get(name))
            else:
                found[name] = self._player.copy(values[name])
        return found

    def _leaf(self, index: int, form_index: int) -> Array | Value:
        form = self._plan.forms[form_index]
        return self._player.leaf(index, form) if isinstance(form, TensorForm) else literal_value(form)


def check_lanes(count: int, least: int) -> None:
    """Raise UsageError CAD9703 for fewer lanes than there have to be."""
    if count < least:
        raise UsageError("CAD9703", "too few lanes", expected=f"{least} or more", got=str(count))


def _checked_seed(seed: int) -> int:
    if isinstance(seed, SupportsIndex) and not isinstance(seed, bool) and operator.index(seed) in SEEDS:
        return operator.index(seed)
    raise SessionError(
        "CAD7059",
        "a session cannot be seeded with this",
        expected="an int from -2**63 to 2**64 - 1",
        got=repr(seed),
    )
