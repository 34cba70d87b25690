"""Sessions as people have them: turns of some length, each begun, carried on and ended, drawn from a seed.

A random walk over the timeline resets often, so that it hardly ever comes to the middle of a turn. Here a turn goes on
until it has lasted its share of the session, and then ends with one of the events that reset it:

    first(n=7)  unit  unit  ...  unit  end(n=12)    first(n=25)  unit  ...
    |------------- seconds / turns -------------|
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from cadence_runtime.format.plan import Plan, Transition
from cadence_runtime.host.program import Configuration, Program, Step
from cadence_runtime.host.step import push

STALLED = 1000
"""Pushes without a tick of any clock after which a session is not going to last longer."""


@dataclass(frozen=True, slots=True)
class Push:
    """One push of a session: the transition that it is, and the steps that it leads to."""

    transition: Transition
    steps: tuple[Step, ...]


def environment(program: Program, configuration: Configuration, step: Step) -> dict[str, int]:
    """Return the values of all names that the expressions of a step's event may use; `configuration` is before it."""
    event = next(event for event in program.events if event.name == step.event)
    env = dict(program.params)
    env |= dict(zip((counter.name for counter in program.counters), configuration.counters, strict=True))
    env |= dict(zip((choice.name for choice in event.choices), step.choices, strict=True))
    for name, expression in event.lets:
        env[name] = expression.evaluate(env)
    return env


def seconds_of(program: Program, configuration: Configuration, steps: tuple[Step, ...]) -> Fraction:
    """Return how long the clocks advance in the steps of a push, from a configuration on."""
    rates = {clock.name: clock.rate_hz for clock in program.clocks}
    events = {event.name: event for event in program.events}
    total = Fraction(0)
    for step in steps:
        advance = events[step.event].advance
        if advance is not None:
            env = environment(program, configuration, step)
            total += Fraction(advance[1].evaluate(env)) / rates[advance[0]]
        configuration = step.after
    return total


class Timeline:
    """The transitions of a plan, each with its steps, how long it lasts and whether it resets the session."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._resetting = {event.name for event in plan.program.events if event.reset}
        self._leaving: dict[int, list[Transition]] = {}
        for transition in plan.transitions:
            self._leaving.setdefault(transition.source, []).append(transition)
        self._pushes: dict[Transition, Push] = {}

    def leaving(self, node: int) -> list[Push]:
        """Return the pushes that are possible at a node."""
        return [self.push(transition) for transition in self._leaving.get(node, ())]

    def push(self, transition: Transition) -> Push:
        """Return a transition as a push."""
        if transition not in self._pushes:
            program = self.plan.program
            event = program.events[transition.event]
            choices = dict(zip((choice.name for choice in event.choices), transition.choices, strict=True))
            steps = push(program, self._configuration(transition), event.name, choices)
            self._pushes[transition] = Push(transition, steps)
        return self._pushes[transition]

    def seconds(self, made: Push) -> Fraction:
        """Return how long the clocks advance in a push."""
        return seconds_of(self.plan.program, self._configuration(made.transition), made.steps)

    def resets(self, made: Push) -> bool:
        """Return whether a push ends the turn."""
        return any(step.event in self._resetting for step in made.steps)

    def runs(self, made: Push) -> bool:
        """Return whether a push runs any stage."""
        return any(step.runs for step in made.steps)

    def _configuration(self, transition: Transition) -> Configuration:
        return self.plan.nodes[transition.source].configuration


def session(timeline: Timeline, seconds: float, turns: int, choose: random.Random) -> Iterator[Push]:
    """Yield the pushes of one session of at least so many seconds and turns. It is shorter where the timeline ends, and
    where clocks stand still or a turn that is over does not come to an end; without clocks there is none."""
    if seconds <= 0 or not any(event.advance for event in timeline.plan.program.events):
        return
    node, turn_s, total_s, ended, idle = 0, Fraction(0), Fraction(0), 0, 0
    share_s = Fraction(seconds) / max(turns, 1)
    while (total_s < seconds or ended < turns) and idle < STALLED:
        possible = timeline.leaving(node)
        if not possible:
            return
        is_over = turn_s >= share_s
        made = _pick(timeline, possible, is_over, choose)
        yield made
        node, lasted_s, has_ended = made.transition.target, timeline.seconds(made), timeline.resets(made)
        total_s, turn_s, ended = total_s + lasted_s, turn_s + lasted_s, ended + has_ended
        idle = 0 if has_ended or (lasted_s and not is_over) else idle + 1
        if has_ended:
            turn_s = Fraction(0)


def _pick(timeline: Timeline, possible: list[Push], is_over: bool, choose: random.Random) -> Push:
    """Return one of the pushes that go on with a turn, or end it if it is over. Most turns end with something that is
    heard, and some are cut short."""
    wanted = [made for made in possible if timeline.resets(made) == is_over] or possible
    heard = [made for made in wanted if timeline.runs(made)]
    return choose.choice(heard if heard and choose.random() < 0.8 else wanted)
