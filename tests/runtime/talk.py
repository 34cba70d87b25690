"""A talk: a window of history that grows up to it, one to three frames a push, random draws, and turns."""

from dataclasses import dataclass
from pathlib import Path

import torch

from cadence_runtime import Session
from cadence_runtime.format.plan import Plan
from tests.plan.models import compiled

SPEC = """
cadence: 20 ms
clocks: {frame: 50 Hz}
regions:
  kv: {shape: [1, t, 4], clock: frame, start: 0, retain: {window: 5}}
  level: {shape: [1, 4]}
stages: {step: {inputs: {x: {dtype: float32}}, outputs: [y]}}
events:
  speak: {choose: {n: 1..3}, inputs: {x: [1, n, 4]}, advance: {frame: n}, run: [step]}
  turn: {reset: true}
"""
CODE = """
class Talk(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Linear(4, 4)

    def init_state(self):
        return {"kv": torch.zeros(1, 0, 4), "level": torch.randn(1, 4)}

    def step(self, state, x):
        kv = torch.cat([state["kv"], self.f(x)], 1)[:, -5:]
        y = torch.softmax(x @ kv.transpose(1, 2), -1) @ kv + state["level"] + torch.randn_like(x)
        return {"kv": kv, "level": state["level"] * 0.5 + y[:, -1]}, y

def build():
    torch.manual_seed(3)
    return Talk().eval()
"""


def talk_plan(folder: Path) -> Plan:
    """Compile the talk."""
    return compiled(folder, SPEC, CODE)[1].plan


@dataclass(frozen=True, slots=True)
class Act:
    """What is done to a session: `speak` says how many frames of what, `seed` with what."""

    what: str
    number: int = 0
    salt: int = 0


def frames(count: int, salt: int) -> torch.Tensor:
    """Return frames that follow from a salt."""
    return torch.randn(1, count, 4, generator=torch.Generator().manual_seed(salt))


def play(session: Session, act: Act) -> torch.Tensor | None:
    """Do it; return what was heard."""
    match act.what:
        case "speak":
            return session.push("speak", x=frames(act.number, act.salt))["y"]  # type: ignore[no-any-return]
        case "turn":
            session.push("turn")
        case "seed":
            session.seed(act.number)
    return None
