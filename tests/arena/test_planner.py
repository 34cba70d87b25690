"""The packing is valid, as low as can be shown, and the same every time."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cadencec.arena.planner import ALIGNMENT, ORDERS, Buffer, aligned, lower_bound, plan


def lists(max_size: int, max_length: int = 6) -> st.SearchStrategy[list[Buffer]]:
    buffer = st.builds(
        lambda size, lower, length: Buffer("b", size, lower, lower + length),
        st.integers(0, 4000),
        st.integers(0, 12),
        st.integers(0, max_length),
    )
    return st.lists(buffer, max_size=max_size)


def overlapping(buffers: list[Buffer], offsets: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the pairs that share a byte at some moment: every byte range of every moment, the plain way."""
    found = []
    for i, (one, at) in enumerate(zip(buffers, offsets, strict=True)):
        for j, (other, there) in enumerate(zip(buffers[:i], offsets[:i], strict=True)):
            moments = set(range(one.lower, one.upper)) & set(range(other.lower, other.upper))
            if moments and at < there + other.size_bytes and there < at + one.size_bytes:
                found.append((j, i))
    return found


@given(lists(16))
def test_no_two_live_buffers_overlap(buffers: list[Buffer]) -> None:
    packing = plan(buffers)
    assert overlapping(buffers, packing.offsets) == []
    assert all(offset % ALIGNMENT == 0 <= offset for offset in packing.offsets)
    ends = [
        offset + aligned(b.size_bytes) for b, offset in zip(buffers, packing.offsets, strict=True) if b.upper > b.lower
    ]
    assert packing.height_bytes == max(ends, default=0)
    assert packing.gap_bytes == packing.height_bytes - lower_bound(buffers) >= 0


@given(lists(16))
def test_the_same_buffers_give_the_same_packing(buffers: list[Buffer]) -> None:
    assert plan(buffers) == plan(list(buffers))


@given(lists(12))
def test_the_lower_bound_is_the_fullest_moment(buffers: list[Buffer]) -> None:
    moments = range(20)
    live = [sum(aligned(b.size_bytes) for b in buffers if b.lower <= moment < b.upper) for moment in moments]
    assert lower_bound(buffers) == max(live)


def first_fit(buffers: tuple[Buffer, ...]) -> int:
    placed: list[tuple[Buffer, int]] = []
    for buffer in buffers:
        taken = sorted(
            (at, at + aligned(other.size_bytes))
            for other, at in placed
            if other.lower < buffer.upper and buffer.lower < other.upper
        )
        at = 0
        for lower, upper in taken:
            if at + aligned(buffer.size_bytes) <= lower:
                break
            at = max(at, upper)
        placed.append((buffer, at))
    return max((at + aligned(buffer.size_bytes) for buffer, at in placed), default=0)


@given(
    st.lists(
        st.builds(
            lambda size, lower, length: Buffer("b", size * ALIGNMENT, lower, lower + length),
            st.integers(1, 5),
            st.integers(0, 5),
            st.integers(1, 4),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_few_buffers_are_packed_as_low_as_any_order_of_placing_packs_them(buffers: list[Buffer]) -> None:
    assert plan(buffers).height_bytes == min(first_fit(order) for order in permutations(buffers))


# Every greedy order puts 1 at the bottom or in the middle, so that 3 no longer fits beside it within a height of 6.
STUBBORN = [
    Buffer(name, size * ALIGNMENT, lower, upper)
    for name, size, lower, upper in [("0", 2, 3, 4), ("1", 2, 3, 5), ("2", 2, 3, 4), ("3", 3, 4, 8)]
]


def test_what_no_greedy_order_finds_is_searched() -> None:
    orders = [
        first_fit(tuple(sorted(STUBBORN, key=lambda buffer: (*key(buffer), int(buffer.name)))))
        for key in ORDERS.values()
    ]
    packing = plan(STUBBORN)
    assert packing.method == "exhaustive"
    assert packing.height_bytes == packing.lower_bound_bytes < min(orders)


def test_enough_is_enough() -> None:
    assert plan(STUBBORN, enough_bytes=1 << 20).method == "start"


@given(lists(12), lists(6))
def test_an_unchanged_beginning_keeps_its_offsets(beginning: list[Buffer], rest: list[Buffer]) -> None:
    end = max((buffer.upper for buffer in beginning), default=0)
    later = [Buffer(b.name, b.size_bytes, b.lower + end, b.upper + end) for b in rest]
    one, both = plan(beginning), plan([*beginning, *later])
    if one.method == both.method == "start":
        assert both.offsets[: len(beginning)] == one.offsets


def test_lifetimes_that_only_touch_share_their_bytes() -> None:
    packing = plan([Buffer("a", 1000, 0, 3), Buffer("b", 1000, 3, 5), Buffer("c", 10, 2, 4)])
    assert packing.height_bytes == packing.lower_bound_bytes == 1024 + 256
    assert packing.offsets[0] == packing.offsets[1]


def test_an_empty_buffer_takes_no_room() -> None:
    assert plan([Buffer("a", 0, 0, 9), Buffer("b", 5, 0, 9)]).height_bytes == ALIGNMENT
    assert plan([]).height_bytes == 0


def test_a_lifetime_that_runs_backwards_is_refused() -> None:
    with pytest.raises(ValueError, match="buffer `b` ends before it starts"):
        plan([Buffer("b", 5, 3, 2)])
