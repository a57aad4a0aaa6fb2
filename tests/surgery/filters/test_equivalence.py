"""Masked = cut = replayed, and FLOPs as torch counts them, for every architecture there is."""

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from engine.core.errors import RequestError
from engine.models.vision import architectures
from engine.surgery.filters.graph import (
    agree_filters,
    cut_filters,
    filter_graph,
    gated,
    places_of,
    put_back,
    replayed,
    widths_after,
)
from engine.surgery.filters.replay import same_weights
from tests.classifiers.worlds import (
    SMALL,
    Tied,
    TwoConvs,
    lively,
    one_off,
    some_cut,
    some_pixels,
    state,
    tiny,
)

SLOW = {
    "efficientnet_v2_m",
    "efficientnet_v2_s",
}  # ten and five seconds; of blocks that mobilenets have too
QUICK = (
    "squeezenet1_1",
    "mobilenet_v3_small",
    "mnasnet0_5",
    "shufflenet_v2_x0_5",
    "regnet_x_400mf",
    "googlenet",
)
"""Of those that prove themselves; `python -m benchmarks.families --only images` has more."""
PROVED = [name for name, architecture in architectures().items() if architecture.is_proved]
EACH = [
    pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in (*PROVED, *QUICK)
]


def size_of(name):
    return min(32, max(16, architectures()[name].min_size))


def counted(model, size):
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.zeros(1, 3, size, size))
    return counter.get_total_flops()


@pytest.mark.parametrize("name", EACH)
def test_masked_is_cut_is_replayed_and_flops_are_what_torch_counts(name):
    """Outputs are compared in float64: whatever differs then is no rounding. The model given stays
    bit-equal."""
    whole = lively(name, size_of(name))
    before = {label: value.clone() for label, value in whole.model.state_dict().items()}
    _, graph, mask, small, history = some_cut(whole)
    assert graph.flops() == counted(whole.model, whole.size)
    assert same_weights(replayed(whole, history, mask), small)
    after = whole.model.state_dict()
    assert all(torch.equal(before[label], after[label]) for label in before)

    keep = torch.as_tensor(mask.keep())
    assert graph.flops(mask.keep()) == counted(small.model, whole.size)
    assert float(graph.tensors(whole.device)(keep.float())) == pytest.approx(
        graph.flops(mask.keep()), rel=1e-5
    )
    widths = {group: kept for group, _, kept in widths_after(mask)}
    assert {group: small.model.get_submodule(group).out_channels for group in widths} == widths

    images = torch.as_tensor(
        np.random.default_rng(0).standard_normal((2, 3, whole.size, whole.size))
    )
    with torch.no_grad():
        dense = whole.model.double()(images)
        with gated(whole.model, graph, keep):
            masked = whole.model(images)
        cut = small.model.double()(images)
    assert float((masked - cut).abs().max()) <= 1e-9 * float(masked.abs().max())
    assert not torch.allclose(
        masked, dense, rtol=1e-2
    )  # the mask does something, so equality says something


@pytest.mark.parametrize("name", ["resnet20", SMALL, "mobilenet_v2"])
def test_one_filter_of_every_group_and_the_whole_model_count_right_too(name):
    whole = lively(name, size_of(name))
    graph = filter_graph(whole)
    least = np.zeros(graph.total, dtype=bool)
    least[[group.start + group.width - 1 for group in graph.groups]] = True
    small, _ = cut_filters(whole, graph.mask(least))
    assert graph.least_flops == graph.flops(least) == counted(small.model, whole.size)
    untouched, history = cut_filters(whole, graph.mask(np.ones(graph.total)))
    assert history == [] and same_weights(untouched, whole) and untouched.cut is not None


def test_smooth_flops_are_bilinear_in_soft_gates():
    """By hand: conv1 3 -> 3 (3x3) and conv2 3 -> 4 (1x1) on 8 x 8 places, then 4 -> 2; 2 per
    multiply-add."""
    graph = filter_graph(tiny())
    gates = np.array([0.5, 0.25, 0.75, 0.1, 0.2, 0.3, 0.4])
    one, two = gates[:3].sum(), gates[3:].sum()
    by_hand = 2 * 64 * 9 * 3 * one + 2 * 64 * one * two + 2 * two * 2
    assert graph.flops(gates) == pytest.approx(by_hand)
    assert float(
        graph.tensors(torch.device("cpu"))(torch.as_tensor(gates).float())
    ) == pytest.approx(by_hand)
    assert graph.flops(np.stack([gates, np.ones(7)])) == pytest.approx([by_hand, graph.flops()])
    smooth = torch.as_tensor(gates, dtype=torch.float32).requires_grad_(True)
    graph.tensors(torch.device("cpu"))(smooth).backward()
    assert smooth.grad[0].item() == pytest.approx(2 * 64 * 9 * 3 + 2 * 64 * two)
    assert smooth.grad[3].item() == pytest.approx(2 * 64 * one + 4)


def test_groups_by_hand():
    graph = filter_graph(tiny())
    assert graph.widths == (("conv1", 3), ("conv2", 4)) and graph.whole == ()
    assert [name for group in graph.groups for name, _ in group.gated] == ["conv1", "bn2"]
    tied = filter_graph(tiny(Tied()))
    assert tied.widths == (("conv1", 3), ("conv2", 2))
    assert tied.groups[0].convolutions == ("conv1", "conv3")
    assert [name for name, _ in tied.groups[0].gated] == ["conv1", "conv3"]


def test_what_is_tied_is_cut_together_and_still_equals_the_mask():
    whole = tiny(Tied())
    graph = filter_graph(whole)
    mask = graph.mask(np.array([True, False, True, True, True]))
    small, _ = cut_filters(whole, mask)
    assert (
        small.model.conv1.out_channels
        == small.model.conv3.out_channels
        == small.model.fc.in_features
        == 2
    )
    found = agree_filters(whole, graph, mask, small, some_pixels(5, 8))
    assert found.holds and found.max_logit_difference < 1e-5


@pytest.mark.parametrize("has_room", [True, False])
def test_agree_notices_one_weight_that_is_one_per_cent_off(has_room, monkeypatch):
    """A middling weight of a middle layer; without room for float64 a right cut is still taken."""
    whole, graph, mask, small, _ = some_cut()
    if not has_room:
        monkeypatch.setattr("engine.surgery.agreement.on_device", lambda device: 0)
    found = agree_filters(whole, graph, mask, small, some_pixels(4, 16))
    assert found.holds and (found.exact is not None) == has_room
    layers = [module for module in small.model.modules() if isinstance(module, torch.nn.Conv2d)]
    one_off(layers[len(layers) // 2].weight)
    off = agree_filters(whole, graph, mask, small, some_pixels(4, 16))
    assert off.max_logit_difference <= 1e-4 and not (has_room and off.holds)


def test_a_cut_model_shares_no_memory_and_takes_no_gradient():
    whole, _, _, small, history = some_cut()
    mine = {value.data_ptr() for value in whole.model.state_dict().values()}
    assert not any(
        value.data_ptr() in mine for value in small.model.state_dict().values() if value.numel()
    )
    assert not small.model.training and not any(
        one.requires_grad for one in small.model.parameters()
    )
    assert not any(one.requires_grad for one in whole.model.parameters())
    assert small.n_parameters < whole.n_parameters
    assert all(type(index) is int for _, _, indices in history for index in indices)


def test_a_cut_model_is_fed_in_plain_order_on_a_cpu():
    """torch 2.13 writes past its buffers when it trains odd channel counts with channels last."""
    small = some_cut().small
    assert small.prepared(some_pixels(2, 16)).is_contiguous()
    assert all(one.is_contiguous() for one in small.model.parameters())


@pytest.mark.parametrize(
    "history",
    [
        [["nowhere", True, [0]]],
        [["conv1", True, [99]]],
        [["fc.weight", True, [0]]],
        [["", True, [0]]],
        [["conv1", True, [-1]]],
        [["conv1", True, [0, 1, 2]]],
    ],
    ids=[
        "no such module",
        "no such filter",
        "a parameter",
        "no name",
        "counted from the end",
        "nothing left",
    ],
)
def test_a_history_that_does_not_fit_is_refused(history):
    whole = tiny()
    with pytest.raises(RequestError, match="pruning history"):
        replayed(whole, history, filter_graph(whole).mask(np.ones(7)))


def test_what_cannot_be_followed_is_left_whole_and_named():
    """ShuffleNet's joined halves; a flip of the channels, which Torch-Pruning takes for nothing,
    fails its proof."""
    shuffled = filter_graph(lively("shufflenet_v2_x0_5", 32))
    assert "conv1.0" in shuffled.whole and "stage2.0.branch2.0" in {
        group.root for group in shuffled.groups
    }

    class Flipped(TwoConvs):
        def forward(self, images):
            found = torch.relu(self.conv1(images)).flip(1)
            return self.fc(torch.relu(self.bn2(self.conv2(found))).mean(dim=(2, 3)))

    graph = filter_graph(tiny(Flipped()))
    assert graph.widths == (("conv2", 4),) and graph.unsafe == graph.whole == ("conv1",)


def test_channels_put_side_by_side_have_gates_of_their_own():
    """A batch norm over two groups: the gates of one leave the other's channels alone."""

    class Side(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = torch.nn.Conv2d(3, 2, 1), torch.nn.Conv2d(3, 3, 1)
            self.bn, self.fc = torch.nn.BatchNorm2d(5), torch.nn.Linear(5, 2)

        def forward(self, images):
            found = torch.cat((self.one(images), self.two(images)), dim=1)
            return self.fc(torch.relu(self.bn(found)).mean(dim=(2, 3)))

    whole = tiny(Side())
    graph = filter_graph(whole)
    assert graph.unsafe == () and dict(graph.groups[1].gated)["bn"].tolist() == [-1, -1, 0, 1, 2]
    mask = graph.mask(np.array([1, 0, 0, 1, 1]))
    found = agree_filters(whole, graph, mask, cut_filters(whole, mask)[0], some_pixels(4, 8))
    assert found.holds and found.max_logit_difference < 1e-5


# Where the numbers of a cut model sit in the whole one: put back, they are the masked model
# again.


def small_model(name):
    return lively(name, 16, 2) if isinstance(name, str) else tiny(name())


PLACED = pytest.mark.parametrize("name", [TwoConvs, Tied, SMALL, "resnet20", "mobilenet_v2"])


@PLACED
def test_every_number_of_the_cut_model_is_the_one_at_its_place(name):
    whole, _, mask, small, _ = some_cut(small_model(name))
    values, places = state(whole.model), places_of(whole, mask)
    for key, value in small.model.state_dict().items():
        if value.is_floating_point():
            assert torch.equal(values[key].flatten()[places[key].flatten()], value.flatten()), key
    assert set(places) == {
        key for key, value in small.model.state_dict().items() if value.is_floating_point()
    }


@PLACED
def test_what_is_put_back_is_cut_to_the_same_and_the_rest_stays(name):
    """Numbers that the small model learned come back to their places; cut filters are as they
    were."""
    whole, _, mask, small, _ = some_cut(small_model(name))
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


def test_a_model_that_was_cut_is_masked_and_cut_as_any_other():
    whole = tiny()
    keep = np.array([1, 1, 0, 1, 1, 1, 0], dtype=bool)
    small, _ = cut_filters(whole, filter_graph(whole).mask(keep))
    again = filter_graph(small)
    mask = again.mask(np.arange(again.total) > 0)
    less, _ = cut_filters(small, mask)
    assert agree_filters(small, again, mask, less, some_pixels(2, small.size)).holds
