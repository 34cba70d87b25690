"""What a target that captures tapes is given, and what it gives back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from cadence_runtime.format.plan import Form, Plan
from cadence_runtime.format.tape import Tape


@dataclass(frozen=True, slots=True)
class Finding:
    """A key as the search hands it on: the finished tape with its constants and the model's weights, and values that
    the stage was run on. `before` and `after` are the forms of the leaves it reads and of those it leaves behind, by
    path; `owners` the paths of all leaves, by the number that a form's slot is; `numerics` the switches of it. `rows`
    are the paths of the leaves that a stage which repeats takes at this index, each with the path of the whole that it
    is a row of; None for any other stage."""

    tape: Tape
    constants: Mapping[str, Tensor]
    weights: Mapping[str, Tensor]
    inputs: Mapping[str, object]
    leaves: Mapping[str, object]
    before: Mapping[str, Form]
    after: Mapping[str, Form]
    outputs: Sequence[Form]
    owners: Sequence[str]
    numerics: Mapping[str, str]
    rows: Mapping[str, str] | None = None


class Backend(Protocol):
    """Captures every key as it is found, in the order of the plan's captures, and completes the plan at the end."""

    @property
    def device(self) -> torch.device:
        """Where models are traced."""

    @property
    def warnings(self) -> Sequence[str]:
        """What is worth a look, in lower case."""

    def add(self, finding: Finding) -> None:
        """Capture a key."""

    def finish(self, plan: Plan) -> Plan:
        """Return the plan with its captures."""

    def environment(self) -> tuple[tuple[str, str], ...]:
        """Return what the captures were made with, as sorted (name, value) pairs."""
