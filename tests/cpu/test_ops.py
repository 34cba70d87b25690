"""Every `out=` overload in the table writes in place, with the bits of the op that allocates."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from cadence_runtime.cpu.ops import OUT_VARIANTS, check_op, schema_of

SIZE = (64, 96)


def matrix(seed: int, *sizes: int) -> Tensor:
    return torch.randn(*(sizes or SIZE), generator=torch.Generator().manual_seed(seed))


def strided(seed: int) -> Tensor:
    return matrix(seed, 96, 2 * 64)[:, ::2].t()


ARGUMENTS: dict[str, Callable[[], tuple[object, ...]]] = {
    "aten::_slow_conv2d_forward": lambda: (
        matrix(1, 1, 64, 1, 8),
        matrix(2, 512, 64, 1, 3),
        [1, 3],
        matrix(3, 512),
        [1, 1],
        [0, 1],
    ),
    "aten::addmm": lambda: (matrix(1, 96), matrix(2, 64, 32), matrix(3, 96, 32).t()),
    "aten::mm": lambda: (matrix(2, 64, 32), matrix(3, 96, 32).t()),
    "aten::bmm": lambda: (matrix(2, 4, 64, 32), matrix(3, 4, 32, 96)),
    "aten::baddbmm": lambda: (matrix(1, 4, 64, 96), matrix(2, 4, 64, 32), matrix(3, 4, 32, 96)),
    "aten::cat": lambda: ([matrix(1), strided(2)], 1),
    "aten::stack": lambda: ([matrix(1), strided(2)], 0),
    "aten::clamp": lambda: (strided(1), -0.5, 0.5),
    "aten::clamp_min": lambda: (strided(1), 0.1),
    "aten::leaky_relu": lambda: (strided(1), 0.1),
    "aten::gelu": lambda: (strided(1),),
    "aten::mean.dim": lambda: (matrix(1, 8, 64, 96), [0]),
    "aten::sum.dim_IntList": lambda: (matrix(1, 8, 64, 96), [0]),
    "aten::pow.Tensor_Scalar": lambda: (strided(1), 2),
    "aten::reflection_pad1d": lambda: (strided(1), [3, 5]),
    "aten::log": lambda: (strided(1).abs(),),
    "aten::sqrt": lambda: (strided(1).abs(),),
    "aten::rsqrt": lambda: (strided(1).abs(),),
}
BINARY = {"aten::add.Tensor", "aten::sub.Tensor", "aten::mul.Tensor", "aten::div.Tensor"}


def arguments(name: str) -> tuple[object, ...]:
    if name in ARGUMENTS:
        return ARGUMENTS[name]()
    return (matrix(1), strided(2)) if name in BINARY else (strided(1),)


def overload(name: str) -> torch._ops.OpOverload:
    base, _, rest = name.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, base), rest or "default")


def largest_allocation(run: Callable[[], object]) -> int:
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        run()
    return max((event.cpu_memory_usage for event in record.events()), default=0)


@pytest.mark.parametrize("name", sorted(OUT_VARIANTS))
def test_the_overload_writes_in_place_with_equal_bits(name: str) -> None:
    expected = overload(name)(*arguments(name))
    out = torch.full_like(expected, float("nan"))
    call = overload(OUT_VARIANTS[name])
    given = arguments(name)
    target = next(argument.name for argument in call._schema.arguments if argument.is_out)
    call(*given, **{target: out})
    assert out.numpy().tobytes() == expected.numpy().tobytes()
    assert expected.unique().numel() > 1
    size = expected.numel() * expected.element_size()
    assert largest_allocation(lambda: call(*given, **{target: out})) < size


@pytest.mark.parametrize("name", sorted(OUT_VARIANTS))
def test_the_overload_takes_the_ops_own_arguments(name: str) -> None:
    plain, target = schema_of(name), schema_of(OUT_VARIANTS[name])
    names = [argument.name for argument in plain.arguments]
    assert [argument.name for argument in target.arguments if not argument.is_out] == names
    assert [argument.is_out for argument in target.arguments].count(True) == 1


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("aten::from_file", "an op that reaches beyond its operands"),
        ("prims::add", "an op of another library, `prims`"),
        ("aten::no_such_op", "no op of this torch"),
        ("aten::add.NoSuchOverload", "no op of this torch"),
    ],
)
def test_ops_that_no_plan_may_hold(name: str, reason: str) -> None:
    assert check_op(name) == reason
