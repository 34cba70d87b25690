"""The packing is valid, as low as can be shown, and the same every time."""

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from cadencec.arena.planner import ALIGNMENT, Buffer, aligned, lower_bound, plan

BUFFERS = st.lists(
    st.builds(
        lambda size, lower, length: Buffer("b", size, lower, lower + length),
        st.integers(0, 4000),
        st.integers(0, 12),
        st.integers(1, 6),
    ),
    max_size=12,
)


def overlapping(buffers: list[Buffer], offsets: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the pairs that share a byte at some moment: every byte range of every moment, the plain way."""
    found = []
    for i, (one, at) in enumerate(zip(buffers, offsets, strict=True)):
        for j, (other, there) in enumerate(zip(buffers[:i], offsets[:i], strict=True)):
            moments = set(range(one.lower, one.upper)) & set(range(other.lower, other.upper))
            if moments and at < there + other.size_bytes and there < at + one.size_bytes:
                found.append((j, i))
    return found


@given(BUFFERS)
def test_no_two_live_buffers_overlap(buffers: list[Buffer]) -> None:
    packing = plan(buffers)
    assert overlapping(buffers, packing.offsets) == []
    assert all(offset % ALIGNMENT == 0 for offset in packing.offsets)
    ends = [offset + aligned(b.size_bytes) for b, offset in zip(buffers, packing.offsets, strict=True)]
    assert packing.height_bytes == max(ends, default=0)
    assert packing.height_bytes >= packing.lower_bound_bytes == lower_bound(buffers)


@given(BUFFERS)
def test_the_same_buffers_give_the_same_packing(buffers: list[Buffer]) -> None:
    assert plan(buffers) == plan(list(buffers))


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
        max_size=5,
    )
)
def test_small_packings_are_within_a_tenth_of_the_best(buffers: list[Buffer]) -> None:
    best = min(first_fit(order) for order in permutations(buffers))
    assert plan(buffers).height_bytes <= best * 1.1 + ALIGNMENT


def test_lifetimes_that_only_touch_share_their_bytes() -> None:
    packing = plan([Buffer("a", 1000, 0, 3), Buffer("b", 1000, 3, 5), Buffer("c", 10, 2, 4)])
    assert packing.height_bytes == packing.lower_bound_bytes == 1024 + 256
    assert packing.offsets[0] == packing.offsets[1]


def test_an_empty_buffer_takes_no_room() -> None:
    assert plan([Buffer("a", 0, 0, 9), Buffer("b", 5, 0, 9)]).height_bytes == ALIGNMENT
    assert plan([]).height_bytes == 0
