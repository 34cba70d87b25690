"""What is to be pushed, in order, read from a file: the input side of `run`.

speech.wav   one event for each chunk of samples        wav.py
feed.npz     any events, any tensors                    npz.py
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cadence_runtime.host.program import Event, Program, StageInput

Array = np.ndarray[Any, np.dtype[Any]]

SLOWEST_SOUND_HZ = 8000
"""The lowest rate that samples of sound are taken to have."""

EVENTS = "events"
"""The array of an .npz file that lists the event of each push."""


@dataclass(frozen=True, slots=True)
class Push:
    """One event with its tensors and choices by name."""

    event: str
    values: Mapping[str, Array | int]


@dataclass(frozen=True, slots=True)
class Feed:
    """All pushes of a file. `notes` say what a reader of the results should know of them."""

    pushes: tuple[Push, ...]
    notes: tuple[str, ...] = ()


def external_events(program: Program) -> tuple[Event, ...]:
    """Return the events that a caller may push."""
    return tuple(event for event in program.events if not event.internal)


def tensor_inputs(event: Event) -> tuple[str, ...]:
    """Return the names of the tensors that an event brings."""
    return tuple(item.name for item in event.inputs if item.literal is None)


def stage_input(program: Program, name: str) -> StageInput | None:
    """Return the description of an input by its name."""
    return next((item for stage in program.stages for item in stage.inputs if item.name == name), None)


def one_of(names: tuple[str, ...]) -> str:
    """Return the names as a message lists what was expected."""
    listed = ", ".join(f"`{name}`" for name in names)
    return f"one of {listed}" if len(names) > 1 else listed or "none"
