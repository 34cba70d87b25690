"""A glance is as strict as a walk: what a walk would find changed, it sees; what stands as it stood, it passes."""

import itertools
import queue
import random
import types
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from cadencec.trace.attributes import walk_around
from cadencec.trace.undeclared import changes

COUNT = 0
TABLE = {"n": 0}


def helper(x: int, seen: list[int] = []) -> int:  # noqa: B006 - state that hides in a default argument
    seen.append(x)
    return len(seen)


class Plain:
    shared = 0

    def __init__(self) -> None:
        self.n = 0


class Slotted:
    __slots__ = ("n",)

    def __init__(self) -> None:
        self.n = 0


def closed_over() -> tuple[Callable[[], int], Callable[[], None]]:
    n = 0

    def read() -> int:
        return n

    def move() -> None:
        nonlocal n
        n += 1

    return read, move


def counting() -> Any:
    n = 0
    while True:
        n += 1
        yield n


class Model(nn.Module):
    """Something of every kind that a model may hold."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.parts = nn.ModuleList([nn.Linear(2, 2), nn.BatchNorm1d(2)])
        self.register_buffer("table", torch.arange(6.0))
        self.bare = torch.ones(3)
        self.n, self.text, self.none = 0, "a", None
        self.names, self.nest = {"a": 1, "b": [1, 2]}, ({"x": 0}, [0])
        self.ordered, self.marks, self.tail = OrderedDict(a=1), {1, 2}, deque([1, 2], 2)
        self.array, self.number = np.zeros(3), np.int64(4)
        self.plain, self.slotted = Plain(), Slotted()
        self.space, self.view = types.SimpleNamespace(n=0), types.MappingProxyType(self.names)
        self.part, self.queue = partial(helper, 3), queue.Queue[int]()
        self.read, self.move = closed_over()
        self.generator, self.counter, self.dice = counting(), itertools.count(), random.Random(1)  # noqa: S311
        self.long, self.pairs = list(range(5000)), {"a": 1}

    def look(self) -> tuple[int, dict[str, int]]:
        """Name the globals of this module."""
        return COUNT, TABLE


def set_global() -> None:
    global COUNT  # noqa: PLW0603 - what is tested
    COUNT += 1


def rebind(model: Model) -> None:
    model.bare.data = torch.zeros(3)


def rename(model: Model) -> None:
    key, value = model.pairs.popitem()
    model.pairs[f"{key}'"] = value


MOVES: dict[str, Callable[[Model], object]] = {
    "a number": lambda m: setattr(m, "n", m.n + 1),
    "a text": lambda m: setattr(m, "text", m.text + "b"),
    "a new attribute": lambda m: setattr(m, f"more{len(vars(m))}", 1),
    "a mode": lambda m: m.train(not m.training),
    "a tensor in place of another": lambda m: setattr(m, "bare", torch.ones(3)),
    "another place for a tensor": rebind,
    "another window of a tensor": lambda m: m.bare.t_() if m.bare.dim() == 2 else m.bare.unsqueeze_(0),
    "a parameter": lambda m: setattr(m.linear, "bias", nn.Parameter(torch.zeros(4))),
    "a buffer": lambda m: setattr(m, "table", torch.arange(6.0)),
    "a module": lambda m: m.parts.append(nn.ReLU()),
    "a hook": lambda m: m.linear.register_forward_hook(partial(helper, 1)),
    "an entry": lambda m: m.names.update(a=m.names["a"] + 1),
    "a new entry": lambda m: m.names.update({f"k{len(m.names)}": 1}),
    "a renamed entry": rename,
    "an element": lambda m: m.names["b"].append(3),
    "an entry in a nest": lambda m: m.nest[0].update(x=m.nest[0]["x"] + 1),
    "an entry of an ordered dict": lambda m: m.ordered.update(a=m.ordered["a"] + 1),
    "a member of a set": lambda m: m.marks.add(len(m.marks) + 7),
    "the end of a deque": lambda m: m.tail.append(m.tail[-1] + 1),
    "an array": lambda m: m.array.__iadd__(1),
    "a number of numpy": lambda m: setattr(m, "number", m.number + 1),
    "an object": lambda m: setattr(m.plain, "n", m.plain.n + 1),
    "a slot": lambda m: setattr(m.slotted, "n", m.slotted.n + 1),
    "a class": lambda m: setattr(Plain, "shared", Plain.shared + 1),
    "a namespace": lambda m: setattr(m.space, "n", m.space.n + 1),
    "a default argument": lambda m: m.part(),
    "a queue": lambda m: m.queue.put(1),
    "a variable closed over": lambda m: m.move(),
    "a generator": lambda m: next(m.generator),
    "an iterator": lambda m: next(m.counter),
    "a source of numbers": lambda m: m.dice.random(),
    "a long list": lambda m: m.long.append(1),
    "a global": lambda m: set_global(),
    "an entry of a global": lambda m: TABLE.update(n=TABLE["n"] + 1),
}


@pytest.mark.parametrize("what", MOVES)
def test_what_a_walk_finds_changed_a_glance_sees(what: str) -> None:
    model = Model()
    before = walk_around(model)
    assert before.glance.is_same()
    MOVES[what](model)
    assert not before.glance.is_same()
    assert changes(before, walk_around(model))
    assert walk_around(model).glance.is_same()


@given(st.lists(st.sampled_from(sorted(MOVES)), max_size=4))
def test_where_a_glance_sees_nothing_a_walk_finds_nothing(moves: list[str]) -> None:
    model = Model()
    before = walk_around(model)
    model.linear(torch.zeros(4))
    for what in moves:
        MOVES[what](model)
    found = changes(before, walk_around(model))
    assert not before.glance.is_same() if found else before.glance.is_same() or moves


def test_what_is_put_back_is_the_same_again() -> None:
    model = Model()
    before, old = walk_around(model), model.bare
    model.n, model.bare, model.names["c"] = 7, torch.zeros(1), 1
    model.n, model.bare = 0, old
    del model.names["c"]
    assert before.glance.is_same()


def test_an_equal_object_in_place_of_another_costs_a_walk_which_finds_nothing() -> None:
    model = Model()
    before = walk_around(model)
    model.names = dict(model.names)
    assert not before.glance.is_same()
    assert changes(before, walk_around(model)) == []


def test_running_the_model_leaves_the_glance_as_it_is() -> None:
    model = Model().eval()
    before = walk_around(model)
    with torch.no_grad():
        model.parts[1](model.parts[0](torch.ones(3, 2)))
    assert before.glance.is_same()
