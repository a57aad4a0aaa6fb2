"""Gates come and go without a trace, reach every filter, and carry gradients."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from engine.core.errors import MaskError, RequestError
from engine.core.types import FilterMask
from engine.surgery.filters.graph import (
    FilterGroup,
    filter_graph,
    gated,
    masked_filters,
    prove_filter_mask_works,
    resumed,
)
from tests.classifiers.worlds import SMALL, Tied, hooks_of, lively, some_mask, some_pixels, tiny


def answers(classifier, images):
    with torch.no_grad():
        return classifier.model(images)


def test_gates_leave_nothing_behind():
    model = lively(SMALL, 16)
    graph = filter_graph(model)
    images = model.prepared(some_pixels(2, 16))
    before = answers(model, images)
    with masked_filters(model, graph, graph.mask(some_mask(graph))):
        assert not torch.equal(answers(model, images), before)
        assert hooks_of(model.model) > 0
    assert hooks_of(model.model) == 0 and torch.equal(answers(model, images), before)


def test_gates_leave_nothing_behind_after_an_exception():
    model = tiny()
    graph = filter_graph(model)
    with pytest.raises(ZeroDivisionError), gated(model.model, graph, torch.ones(7)):
        raise ZeroDivisionError
    assert hooks_of(model.model) == 0
    with (
        pytest.raises(RuntimeError),
        gated(model.model, graph, torch.ones(3)),
    ):  # fails in the middle of a pass
        answers(model, model.prepared(some_pixels(2, 8)))
    assert hooks_of(model.model) == 0
    lost = FilterGroup("x", 1, 7, ("x",), (("nowhere", np.arange(1)),))
    broken = replace(graph, groups=(*graph.groups, lost))
    with pytest.raises(AttributeError), gated(model.model, broken, torch.ones(8)):
        pass
    assert hooks_of(model.model) == 0


def test_a_callable_is_asked_once_per_pass():
    model, asked = tiny(), []

    def gates():
        asked.append(1)
        return torch.ones(7)

    images = model.prepared(some_pixels(2, 8))
    with gated(model.model, filter_graph(model), gates):
        answers(model, images)
        answers(model, images)
    assert len(asked) == 2


def test_every_image_may_have_gates_of_its_own():
    model = tiny()
    graph, images = filter_graph(model), model.prepared(some_pixels(3, 8))
    own = torch.rand(3, 7, generator=torch.Generator().manual_seed(0))
    with gated(model.model, graph, own):
        together = answers(model, images)
    for place in range(3):
        with gated(model.model, graph, own[place]):
            assert torch.allclose(
                answers(model, images[place : place + 1]), together[place], atol=1e-6
            )


def test_the_gradient_of_a_gate_is_that_of_its_finite_difference():
    model = tiny(Tied())
    model.model.double()
    graph, images = filter_graph(model), model.prepared(some_pixels(2, 8)).double()
    gates = torch.full((5,), 0.7, dtype=torch.float64, requires_grad=True)
    with gated(model.model, graph, lambda: gates):
        model.model(images)[:, 0].sum().backward()
    for unit in range(5):
        moved = [gates.detach().clone() for _ in range(2)]
        moved[0][unit] += 1e-7
        moved[1][unit] -= 1e-7
        up, down = (_sum(model, graph, images, one) for one in moved)
        assert gates.grad[unit].item() == pytest.approx((up - down) / 2e-7, rel=1e-6, abs=1e-6)


def _sum(model, graph, images, gates):
    with gated(model.model, graph, gates):
        return float(answers(model, images)[:, 0].sum())


def test_a_mask_for_other_groups_is_refused():
    model = tiny()
    graph = filter_graph(model)
    for widths in ((("conv1", 3), ("conv2", 5)), (("conv1", 3),), (("conv2", 4), ("conv1", 3))):
        with (
            pytest.raises(MaskError, match="not those of the model"),
            masked_filters(model, graph, FilterMask(widths)),
        ):
            pass


def test_the_proof_holds_for_a_model_and_raises_for_a_gate_that_reaches_nothing():
    model = tiny()
    prove_filter_mask_works(model, filter_graph(model))
    model.model.fc.weight[:] = 0.0  # whatever conv2 says, nobody listens
    with pytest.raises(MaskError, match="tiny answers the same to every picture"):
        prove_filter_mask_works(model, filter_graph(model))
    assert hooks_of(model.model) == 0


def test_the_proof_names_the_group_that_is_not_reached():
    model = tiny()
    graph = filter_graph(model)
    deaf = FilterGroup("conv2", 4, 3, ("conv2",), ())  # a group without a place for its gate
    broken = replace(graph, groups=(graph.groups[0], deaf))
    with pytest.raises(MaskError, match="all filters of conv2 changes nothing"):
        prove_filter_mask_works(model, broken)


def test_the_proof_is_not_fooled_by_a_model_that_answers_nan():
    model = tiny()
    model.model.fc.bias[:] = float("nan")
    with pytest.raises(MaskError):
        prove_filter_mask_works(model, filter_graph(model))


def test_a_model_without_filters_is_refused():
    class NoConvolution(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(3 * 64, 2)

        def forward(self, images):
            return self.fc(images.flatten(1))

    with pytest.raises(RequestError, match="no convolution"):
        filter_graph(tiny(NoConvolution()))


@pytest.mark.parametrize(
    "make", [tiny, lambda: lively(SMALL, 16), lambda: lively("mobilenet_v2", 32)]
)
def test_a_pass_that_is_resumed_gives_what_a_whole_one_gives_and_computes_less(make):
    model = make()
    graph, images = filter_graph(model), model.prepared(some_pixels(2, model.size))
    keep = torch.ones(graph.total)
    group = graph.groups[-1]
    keep[group.start] = 0
    with gated(model.model, graph, keep):
        whole = answers(model, images)
    ran = []
    for one in model.model.modules():
        if isinstance(one, torch.nn.Conv2d):
            usual = one._conv_forward
            one._conv_forward = lambda *given, usual=usual: ran.append("") or usual(*given)
    answers(model, images)
    every = len(ran)
    with resumed(model.model, group, images), gated(model.model, graph, keep):
        ran.clear()
        assert torch.equal(answers(model, images), whole)
        assert len(ran) < every, "what comes before the group is not computed again"
        assert torch.equal(answers(model, images), whole), "nothing kept was changed in place"
    assert not any("forward" in vars(one) for one in model.model.modules())
