"""What trains computes with a stated number of threads, whatever the machine has; all else with all
there are."""

from dataclasses import dataclass

import pandas as pd
import pytest
import torch

from engine.audit.measurements import InMemory, Measurement, MeasurementContext
from engine.core.types import Hooks
from engine.models.runtime import FIXED_THREADS, fixed_threads


@dataclass(frozen=True)
class Shard:
    kind: str
    cut: tuple[int, ...] = ()


class Trains(Measurement):
    name = "trains"

    def parts(self, context, shard):
        return {}

    def compute(self, context, shards):
        if context.fails:
            raise RuntimeError("out of luck")
        return [pd.DataFrame({"threads": [torch.get_num_threads()]}) for _ in shards]


class Answers(Trains):
    name = "answers"
    any_threads = True


class Context(MeasurementContext):
    device, fails = torch.device("cpu"), False

    def __init__(self):
        self.keeper, self.hooks = InMemory(), Hooks()

    def recipe(self):
        raise NotImplementedError

    def kind(self, name):
        return {"trains": Trains(), "answers": Answers()}[name]

    def key(self, shard):
        return shard.kind

    def prove(self):
        raise NotImplementedError

    def describe(self, shard):
        return shard.kind


@pytest.fixture
def many():
    """Three threads, as a machine of three cores would have; one after it, as all tests here."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield 3
    torch.set_num_threads(before)


def threads(context, kind):
    return int(context.fetch([Shard(kind)])[0]["threads"].item())


def test_what_trains_has_the_stated_threads_and_all_else_as_many_as_there_are(many):
    assert (threads(Context(), "trains"), threads(Context(), "answers")) == (FIXED_THREADS, many)
    assert torch.get_num_threads() == many


def test_they_come_back_after_an_error(many):
    context = Context()
    context.fails = True
    with pytest.raises(RuntimeError):
        context.fetch([Shard("trains")])
    assert torch.get_num_threads() == many


def test_an_accelerator_keeps_them_all(many):
    context = Context()
    context.device = torch.device("cuda")
    assert threads(context, "trains") == many


def gradient():
    """Of a convolution's bias and weights over some thousand places, which threads add up in
    parts."""
    torch.manual_seed(3)
    layer = torch.nn.Conv2d(16, 32, 3, padding=1)
    layer(torch.randn(32, 16, 32, 32)).square().sum().backward()
    return torch.cat([layer.weight.grad.flatten(), layer.bias.grad])


def test_gradients_are_equal_to_the_bit_with_any_number_of_threads(many):
    """They are not without the scope: what is tested here would be true of anything."""
    free = gradient()
    with fixed_threads("cpu"):
        fixed = gradient()
    torch.set_num_threads(FIXED_THREADS)
    assert torch.equal(fixed, gradient())
    assert not torch.equal(free, fixed)
