"""One side of a comparison: what its process is to run, as it crosses the border between the two processes."""

import json
import os.path
from dataclasses import asdict, dataclass, replace
from typing import Self

REPLAY, STOCK = "replay", "stock"


@dataclass(frozen=True, slots=True)
class Side:
    """A replay or a variant of the stock loop, on `target`. `numerics` are the plan's, or None to run without. `stages`
    asks for the adapter's own stages. `folder` has what is pushed, and takes what comes out. With `watched` the memory
    of the device is looked at before anything is on it, and `warm` builds all that the plan may ever need."""

    kind: str
    target: str
    plan: str
    spec: str
    folder: str
    seed: int
    weights: str | None = None
    policy: str | None = None
    overrides: tuple[tuple[str, str], ...] = ()
    stages: bool = False
    variant: int = 0
    numerics: tuple[tuple[str, str], ...] | None = None
    watched: bool = True
    warm: bool = False

    def started_anew(self) -> Self:
        """Return the same side for a process that only shows how long it takes to its first output."""
        return replace(self, watched=False)

    @property
    def name(self) -> str:
        """The side in messages, and in the names of its files."""
        if self.kind == REPLAY:
            return self.kind
        return f"{self.kind}-{self.variant}" + "-without-numerics" * (self.numerics is None)

    @property
    def outputs(self) -> str:
        """The file that takes what came out."""
        return os.path.join(self.folder, f"{self.name}.rows")

    def to_json(self) -> str:
        """Return the side as one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the side that was made into JSON."""
        found = json.loads(text)
        for name in ("overrides", "numerics"):
            if found[name] is not None:
                found[name] = tuple((key, value) for key, value in found[name])
        return cls(**found)
