"""What real images say of their kernels, and which op made a node; the images are the golden plan's."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cadence_runtime.check import open_plan
from cadencec.targets.cuda.capture import Captured
from cadencec.targets.cuda.images import functions
from cadencec.targets.cuda.libraries import library_of
from cadencec.targets.cuda.recording import choose_image

PLAN = open_plan(Path(__file__).parents[3] / "plans" / "growing-kv-cat.cuda-sm90.format-1.0.2026-12-01.plan")
PART = PLAN.cuda
assert PART is not None
IMAGES = {image.sha256: PLAN.blobs[image.blob] for image in PART.images}


def test_each_kernel_is_found_in_its_image() -> None:
    assert PART is not None
    for kernel in PART.kernels:
        asked: Any = SimpleNamespace(name=kernel.name)
        assert choose_image(IMAGES, asked) == PART.images[kernel.image].sha256
        assert kernel.name in functions(IMAGES[PART.images[kernel.image].sha256])


def test_an_image_tells_its_library() -> None:
    assert PART is not None
    assert [library_of(IMAGES[image.sha256]) for image in PART.images] == [image.library for image in PART.images]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=20), st.integers(0, 100))
def test_a_node_belongs_to_the_last_op_that_began_before_it(steps: list[int], node: int) -> None:
    nothing: Any = None
    boundaries = [sum(steps[:index]) for index in range(len(steps))]
    assert boundaries[0] == 0
    slow = max(index for index, before in enumerate(boundaries) if before <= node)
    assert Captured(nothing, boundaries, []).op_of(node) == slow
