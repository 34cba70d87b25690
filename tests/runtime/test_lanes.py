"""Lanes share what no capture writes, and nothing else; sessions that push at once give the bits they give alone."""

import threading
from dataclasses import replace

import pytest
import torch

from cadence_runtime import LoadedPlan
from cadence_runtime.errors import SessionError
from tests.plan.models import loaded
from tests.runtime.talk import Act, play

ACTS = [Act("speak", 1 + salt % 3, salt) for salt in range(6)] + [Act("turn"), Act("speak", 2, 9)]


def alone(plan: LoadedPlan, seed: int) -> list[torch.Tensor | None]:
    with plan.session(seed=seed) as session:
        return [play(session, act) for act in ACTS]


def equal(one: list[torch.Tensor | None], other: list[torch.Tensor | None]) -> bool:
    return all(a is b is None or torch.equal(a, b) for a, b in zip(one, other, strict=True))  # type: ignore[arg-type]


def test_a_lane_has_memory_of_its_own_but_for_weights_and_constants(plan: LoadedPlan) -> None:
    with plan.lane() as lane:
        sizes = plan.report()
        ours, theirs = plan._player._places.arena, lane._player._places.arena  # type: ignore[attr-defined]
        assert theirs.bytes.nbytes <= sizes["state"] + sizes["io"] + sizes["scratch"] + 3 * 256
        assert theirs.part(0, 256).data_ptr() == ours.part(0, 256).data_ptr()
        assert theirs.bytes.ctypes.data % 256 == 0


def test_sessions_on_lanes_that_push_at_once_give_the_bits_they_give_alone(plan: LoadedPlan) -> None:
    expected = [alone(plan, seed) for seed in range(4)]
    lanes = [plan, plan.lane(), plan.lane(), plan.lane()]
    found: dict[tuple[int, int], list[torch.Tensor | None]] = {}
    together = threading.Barrier(4)

    def talk(seed: int) -> None:
        together.wait()
        for turn in range(5):
            found[seed, turn] = alone(lanes[seed], seed)

    threads = [threading.Thread(target=talk, args=[seed]) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 20
    assert all(equal(heard, expected[seed]) for (seed, _), heard in found.items())


def test_lanes_are_closed_in_any_order(plan: LoadedPlan) -> None:
    expected = alone(plan, 1)
    lane = plan.lane()
    again = lane.lane()
    plan.close()
    lane.close()
    assert equal(alone(again, 1), expected)
    again.close()
    with pytest.raises(SessionError, match="CAD7052"):
        plan.lane()


def test_weights_that_do_not_come_first_are_copied(plan: LoadedPlan) -> None:
    sections = {section.name: section for section in plan.plan.sections}
    end, moved = 0, []
    for name in ("state", "weights", "io", "constants", "scratch"):
        moved.append(replace(sections[name], offset=end))  # type: ignore[index]
        end += -(-sections[name].size_bytes // 256) * 256  # type: ignore[index]
    with loaded(replace(plan.plan, sections=tuple(moved))) as other, other.lane() as lane:
        assert equal(alone(lane, 3), alone(plan, 3))
