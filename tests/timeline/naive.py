"""A search without any thought: every event at every configuration, by the closure checker's plain reading."""

import itertools
from collections.abc import Iterator

from cadence_runtime.errors import CadenceError
from cadence_runtime.format.happening import Session, WrongProgramError, push, start
from cadence_runtime.format.plan import Node
from cadence_runtime.host.program import Configuration, Event, Program

Pushes = dict[tuple[Configuration, str, tuple[int, ...]], Configuration]
MOST = 400


class ContradictionError(Exception):
    """The program contradicts itself at a configuration that can be reached."""


def configuration(program: Program, session: Session) -> Configuration:
    return Configuration(
        tuple(session.counters[counter.name] for counter in program.counters),
        tuple(session.lengths[region.name] for region in program.regions),
        session.elapsed,
    )


def search(program: Program) -> tuple[Pushes, set[tuple[str, tuple[int, ...]]]] | None:
    """Return every push, and every (stage, args) that runs; None when there are more than `MOST` configurations."""
    begin = configuration(program, start(program))
    found, waiting = {begin}, [begin]
    pushes: Pushes = {}
    runs: set[tuple[str, tuple[int, ...]]] = set()
    while waiting:
        here = waiting.pop()
        for event in program.events:
            if event.internal:
                continue
            for choices in all_choices(event):
                try:
                    end = push(program, Node(here, ()), event, choices)
                except (WrongProgramError, CadenceError) as error:
                    raise ContradictionError(str(error)) from error
                if end is None:
                    continue
                there = configuration(program, end[0])
                pushes[here, event.name, choices] = there
                runs.update((call.stage, call.args) for call in end[1] if call.stage != "reset")
                if there not in found:
                    found.add(there)
                    waiting.append(there)
        if len(found) > MOST:
            return None
    return pushes, runs


def all_choices(event: Event) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(choice.lower, choice.upper) for choice in event.choices))
