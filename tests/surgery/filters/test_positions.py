"""Where the numbers of a cut model sit in the whole one: put back, they are the masked model
again."""

import numpy as np
import pytest
import torch

from engine.surgery.filters.graph import cut_filters, filter_graph, places_of, put_back
from tests.classifiers.worlds import (
    SMALL,
    Tied,
    TwoConvs,
    lively,
    some_mask,
    state,
    tiny,
)


def small_model(name):
    return lively(name, 16, 2) if isinstance(name, str) else tiny(name())


EACH = pytest.mark.parametrize("name", [TwoConvs, Tied, SMALL, "resnet20", "mobilenet_v2"])


@EACH
def test_every_number_of_the_cut_model_is_the_one_at_its_place(name):
    whole = small_model(name)
    mask = filter_graph(whole).mask(some_mask(filter_graph(whole)))
    small, _ = cut_filters(whole, mask)
    values, places = state(whole.model), places_of(whole, mask)
    for key, value in small.model.state_dict().items():
        if value.is_floating_point():
            assert torch.equal(values[key].flatten()[places[key].flatten()], value.flatten()), key
    assert set(places) == {
        key for key, value in small.model.state_dict().items() if value.is_floating_point()
    }


@EACH
def test_what_is_put_back_is_cut_to_the_same_and_the_rest_stays(name):
    """Numbers that the small model learned come back to their places; cut filters are as they
    were."""
    whole = small_model(name)
    mask = filter_graph(whole).mask(some_mask(filter_graph(whole)))
    small, _ = cut_filters(whole, mask)
    before, places = state(whole.model), places_of(whole, mask)
    with torch.no_grad():
        for value in small.model.state_dict().values():
            value.add_(7) if not value.is_floating_point() else value.mul_(1.5)
    found = put_back(before, state(small.model), places)
    assert {key: value.shape for key, value in found.items()} == {
        key: value.shape for key, value in before.items()
    }
    whole.model.load_state_dict(found)
    again, _ = cut_filters(whole, mask)
    for key, value in small.model.state_dict().items():
        assert torch.equal(again.model.state_dict()[key], value), key
    for key, value in found.items():
        if value.is_floating_point():
            other = torch.ones(value.numel(), dtype=bool)
            other[places[key].flatten()] = False
            assert torch.equal(value.flatten()[other], before[key].flatten()[other]), key


@pytest.mark.slow
def test_places_beyond_single_precision():
    """More numbers than float32 can count: a layer of 4,300 x 4,300."""

    class Wide(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = torch.nn.Conv2d(3, 4300, 1, bias=False)
            self.conv2 = torch.nn.Conv2d(4300, 4300, 1, bias=False)
            self.fc = torch.nn.Linear(4300, 2)

        def forward(self, images):
            return self.fc(self.conv2(torch.relu(self.conv1(images))).mean(dim=(2, 3)))

    whole = tiny(Wide(), 4)
    graph = filter_graph(whole)
    keep = np.ones(graph.total, dtype=bool)
    keep[[0, 4300]] = False
    places = places_of(whole, graph.mask(keep))["conv2.weight"].flatten()
    assert places[0] == 4301 and places[-1] == 4300 * 4300 - 1 > 2**24
    assert (places.diff() > 0).all()
