"""The pool of finished tapes: equal tapes have one number, and equal parts are one object."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from cadence_runtime.format.tape import Binding, Literal, Op, Operand, Storage, Tape, View
from cadencec.plan.pool import TapePool


def tape(length: int, ops: int = 2) -> Tape:
    """Return a tape, made anew in every part, whose last op alone works on `length` elements."""

    def view(storage: int, size: int) -> View:
        return View(storage, "float32", (size,), (1,), 0)

    def op(size: int) -> Op:
        beta = (("beta", Literal("int", str(1))),)
        return Op(
            "aten::addmm", (view(0, size), (view(0, size), view(1, size))), beta, (view(2, size),), (0, 1), (2,), ""
        )

    storages = (Storage("input", "x", 4096), Storage("leaf", "h", 4096), Storage("scratch", "", 4096))
    return Tape(
        "step",
        storages,
        (Binding("x", view(0, 4)),),
        (Binding("h", view(1, 4)),),
        (*(op(4) for _ in range(ops - 1)), op(length)),
        (Binding("y", view(2, 4)),),
        (Binding("h", Literal("none", "")),),
    )


def parts(tapes: list[Tape]) -> Iterator[Storage | Binding | Op | Operand]:
    """Yield every part of some tapes, nested ones as well."""

    def nested(operand: Operand) -> Iterator[Operand]:
        yield operand
        for item in operand if isinstance(operand, tuple) else ():
            yield from nested(item)

    for each in tapes:
        yield from each.storages
        for row in (*each.inputs, *each.state_in, *each.outputs, *each.state_out):
            yield from (row, row.value)
        for op in each.ops:
            yield op
            for operand in (*op.args, *(value for _, value in op.kwargs), *op.outs):
                yield from nested(operand)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 3)), max_size=12))
def test_tapes_are_numbered_like_the_first_of_their_equals_and_stay_what_they_were(
    shapes: list[tuple[int, int]],
) -> None:
    pool, known = TapePool(), dict[Tape, int]()
    for shape in shapes:
        assert pool.add(tape(*shape)) == known.setdefault(tape(*shape), len(known))
    assert pool.tapes == list(known)


def test_what_is_equal_is_one_object_over_all_tapes() -> None:
    pool = TapePool()
    for length in (4, 5, 6, 5):
        pool.add(tape(length))
    found = list(parts(pool.tapes))
    assert len(pool.tapes) == 3
    assert len({id(part) for part in found}) == len(set(found)) < len(found)


def test_tapes_that_differ_in_one_word_are_two() -> None:
    one = tape(4)
    others = [
        Tape(one.stage, *(getattr(one, name) for name in Tape.__match_args__[1:-1]), True),
        Tape("other", *(getattr(one, name) for name in Tape.__match_args__[1:])),
        tape(4, ops=3),
    ]
    pool = TapePool()
    assert [pool.add(each) for each in (one, *others, one)] == [0, 1, 2, 3, 0]
