"""Seeding: the numbers of `torch.manual_seed`, without a stack kept for each call."""

import torch

from cadencec.trace import draws


def test_seeding_gives_the_numbers_that_torch_gives() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        expected = torch.randn(4)
        draws.seed(6)
        other = torch.randn(4)
        draws.seed(5)
        assert torch.equal(torch.randn(4), expected)
        assert not torch.equal(other, expected)


def test_seeding_leaves_no_calls_for_later() -> None:
    if torch.cuda.is_initialized():
        return
    queued = len(torch.cuda._queued_calls)
    with torch.random.fork_rng(devices=[]):
        draws.seed(1)
    assert len(torch.cuda._queued_calls) == queued
