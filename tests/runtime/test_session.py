"""Sessions: what a push takes and gives, what it refuses and in which words, and that sessions never meet."""

import random
import threading
from typing import Any

import numpy as np
import pytest
import torch

from cadence_runtime import load
from cadence_runtime.errors import SessionError
from tests.runtime.conftest import PlanOf

X = torch.zeros(1, 1, 16)


def refusal(push: Any, *arguments: Any, **inputs: Any) -> str:
    with pytest.raises(SessionError) as caught:
        push(*arguments, **inputs)
    return str(caught.value)


def test_what_a_push_takes_is_checked_by_name(plan_of: PlanOf) -> None:
    with load(plan_of("01")) as plan, plan.session() as session:
        assert refusal(session.push, "frame", y=X) == (
            "CAD7056: event `frame` takes other inputs\n  expected: `x`\n  got:      unknown `y`; without `x`"
        )
        assert refusal(session.push, "frmae", x=X) == (
            "CAD7001: there is no event `frmae`\n  expected: one of `frame`, `turn`\n  got:      frmae"
        )
        assert session.push("frame", x=X).all("y") != ()  # nothing has happened before


def test_shapes_are_checked_and_never_padded(plan_of: PlanOf) -> None:
    with load(plan_of("01")) as plan, plan.session() as session:
        assert refusal(session.push, "frame", x=torch.zeros(1, 2, 16)) == (
            "CAD7051: event `frame` got an input of another shape\n"
            "  expected: `x` [1, 1, 16]\n"
            "  got:      `x` [1, 2, 16]\n"
            "  hint:     a plan has no capture for other lengths, and none is padded"
        )


@pytest.mark.parametrize(
    ("value", "got"),
    [
        (X.double(), "float64 on cpu"),
        (np.zeros((1, 1, 16), np.int16), "int16 on cpu"),
        ([[[0.0] * 16]], "`list`"),
        (None, "`NoneType`"),
    ],
)
def test_dtypes_and_kinds_are_checked(plan_of: PlanOf, value: object, got: str) -> None:
    with load(plan_of("01")) as plan, plan.session() as session:
        assert refusal(session.push, "frame", x=value) == (
            "CAD7055: input `x` of event `frame` is no array of its dtype\n"
            "  expected: an array of float32 on the host\n"
            f"  got:      {got}"
        )


def test_literals_and_choices_are_checked(plan_of: PlanOf) -> None:
    tok = torch.zeros(1, 8, dtype=torch.int64)
    with load(plan_of("25")) as plan, plan.session() as session:
        assert refusal(session.push, "first", tok=tok, last=True) == (
            "CAD7054: input `last` of event `first` has another value than the event declares\n"
            "  expected: False\n"
            "  got:      True\n"
            "  hint:     leave it out: the event sets it"
        )
        session.push("first", tok=tok, last=False)
        assert refusal(session.push, "last", tok=tok[:, :2], n="2") == (
            "CAD7057: choice `n` of event `last` is no integer\n  expected: an int\n  got:      '2'"
        )
        session.push("last", tok=tok[:, :2], n=2)


def test_one_output_is_asked_for_by_name(plan_of: PlanOf) -> None:
    with load(plan_of("01")) as plan, plan.session() as session:
        outputs = session.push("frame", x=X)
        assert outputs["y"].shape == (1, 1, 16)
        assert len(outputs) == 1
        assert [record.event for record in outputs] == ["frame"]
        assert refusal(outputs.__getitem__, "z") == (
            "CAD7050: the push did not make one output `z`\n"
            "  expected: one\n"
            "  got:      0; outputs of this push: `y`\n"
            '  hint:     `outputs.all("z")` returns them in order'
        )
        assert len(session.push("turn")) == 0


def test_what_is_closed_says_so(plan_of: PlanOf) -> None:
    plan = load(plan_of("01"))
    session, other = plan.session(), plan.session()
    session.close()
    assert refusal(session.push, "frame", x=X) == (
        "CAD7053: the session has ended\n"
        "  expected: an open session\n"
        "  got:      a closed one\n"
        "  hint:     open another session"
    )
    plan.close()
    plan.close()
    closed = "CAD7052: the plan is closed\n  expected: a loaded plan\n  got:      a closed one"
    assert refusal(plan.session) == closed
    assert refusal(other.push, "frame", x=X) == closed
    other.close()


def test_a_push_that_fails_half_way_ends_its_session_and_no_other(plan_of: PlanOf) -> None:
    with load(plan_of("01")) as plan:
        session, other = plan.session(), plan.session()

        def fail(*_: object) -> None:
            raise RuntimeError("planted")

        kept, plan._player.run = plan._player.run, fail  # type: ignore[method-assign]
        with pytest.raises(RuntimeError, match="planted"):
            session.push("frame", x=X)
        plan._player.run = kept  # type: ignore[method-assign]
        assert "one that failed: RuntimeError in `frame`" in refusal(session.push, "frame", x=X)
        assert other.push("frame", x=X)["y"].isfinite().all()


def test_copies_stay_and_borrowed_views_follow_the_plan(plan_of: PlanOf) -> None:
    with load(plan_of("01")) as plan, plan.session() as session:
        copy = session.push("frame", x=torch.ones(1, 1, 16))["y"]
        before = copy.clone()
        borrowed = session.push("frame", x=torch.ones(1, 1, 16), borrow=True)["y"]
        last = session.push("frame", x=-torch.ones(1, 1, 16), borrow=True)["y"]
        assert torch.equal(copy, before)
        assert torch.equal(borrowed, last)  # the same bytes, overwritten by the push that came after


def test_numpy_arrays_of_any_layout_and_tensors_with_gradients_are_taken(plan_of: PlanOf) -> None:
    plain = torch.randn(1, 1, 16)
    strided = np.zeros((1, 1, 32), np.float32)[:, :, ::2]
    strided[:] = plain.numpy()
    with load(plan_of("01")) as plan:
        given = (plain, plain.numpy(), strided, plain.clone().requires_grad_())
        outputs = [plan.session().push("frame", x=x)["y"] for x in given]
        assert all(torch.equal(output, outputs[0]) and not output.requires_grad for output in outputs)


def frames(count: int, seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(1, 1, 16, generator=generator) for _ in range(count)]


@pytest.mark.parametrize("seed", range(4))
def test_any_interleaving_of_sessions_equals_each_alone(plan_of: PlanOf, seed: int) -> None:
    choose = random.Random(seed)  # noqa: S311
    with load(plan_of("01")) as plan:
        alone = []
        for who in range(3):
            with plan.session() as session:
                alone.append([session.push("frame", x=x)["y"] for x in frames(6, who)])
        sessions, waiting = [plan.session() for _ in range(3)], [frames(6, who) for who in range(3)]
        got: list[list[torch.Tensor]] = [[], [], []]
        while any(waiting):
            who = choose.choice([index for index, left in enumerate(waiting) if left])
            got[who].append(sessions[who].push("frame", x=waiting[who].pop(0))["y"])
        assert all(
            torch.equal(a, b) for one, other in zip(got, alone, strict=True) for a, b in zip(one, other, strict=True)
        )


def test_threads_may_push_at_once(plan_of: PlanOf) -> None:
    with load(plan_of("01")) as plan:
        expected = [plan.session().push("frame", x=x)["y"] for x in frames(8, 0)]
        found: dict[int, torch.Tensor] = {}

        def push(index: int, x: torch.Tensor) -> None:
            with plan.session() as session:
                for _ in range(5):
                    found[index] = session.push("frame", x=x)["y"]
                    session.push("turn")

        threads = [threading.Thread(target=push, args=item) for item in enumerate(frames(8, 0))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(torch.equal(found[index], output) for index, output in enumerate(expected))


def test_seeds_belong_to_sessions_and_the_process_keeps_its_own(plan_of: PlanOf) -> None:
    x = torch.ones(1, 4)
    with load(plan_of("15")) as plan:
        torch.manual_seed(99)
        before = torch.get_rng_state()
        one, other = plan.session(seed=5), plan.session(seed=5)
        first = one.push("one", x=x)["y"]
        assert torch.equal(torch.get_rng_state(), before)
        assert torch.equal(other.push("one", x=x)["y"], first)
        again = one.push("one", x=x)["y"]
        assert not torch.equal(again, first)
        other.seed(6)
        assert not torch.equal(other.push("one", x=x)["y"], again)


def test_what_may_happen_now_is_told(plan_of: PlanOf) -> None:
    with load(plan_of("25")) as plan, plan.session() as session:
        assert session.enabled == ("first",)
        session.push("first", tok=torch.zeros(1, 8, dtype=torch.int64))
        assert session.enabled == ("middle", "last")


@pytest.mark.parametrize("seed", [1.5, "7", True, None.__class__, 2**64])
def test_what_no_generator_takes_is_refused(plan_of: PlanOf, seed: Any) -> None:
    with load(plan_of("15")) as plan, plan.session() as session:
        assert refusal(session.seed, seed) == (
            "CAD7059: a session cannot be seeded with this\n"
            "  expected: an int from -2**63 to 2**64 - 1\n"
            f"  got:      {seed!r}"
        )
