"""Mean ablation: against a hook that sets the head to its mean, cut for real, saved, and read
again."""

import json

import numpy as np
import pytest
import torch

from engine.core.errors import MaskError, RequestError
from engine.core.types import HeadMask
from engine.surgery.agreement import agree
from engine.surgery.heads.mask import (
    can_be_zeroed,
    centred,
    cut,
    for_record,
    gated,
    head_means,
    masked,
    means_of,
    means_table,
    zeroed,
)
from engine.surgery.heads.prefix import row_gradients, row_logps
from engine.surgery.heads.replay import load_cut, save_cut
from engine.surgery.record import read_mask, record_of, write_mask
from tests.tiny import TINY, text, tiny_model

TOKENS = torch.tensor([[5, 9, 7, 22, 3], [8, 8, 1, 30, 2]])
WINDOWS = [([3, 9, 4, 17, 22, 5], 6), ([17, 22, 5, 8, 40], 2)]
MASK = HeadMask(3, 4, ((0, 0), (0, 1), (0, 2), (0, 3), (1, 2), (2, 1), (2, 3)))
PROMPTS = [text(3, 9, 4), text(8, 1, 30, 2)]


def logits(lm):
    with torch.no_grad():
        return lm.model(TOKENS, use_cache=False).logits


def by_hand(lm, means, mask):
    """The plain model with hooks that put the means where the heads' outputs were."""
    handles = []
    for layer in range(3):

        def put(module, args, layer=layer):
            inside = args[0].clone()
            for head in mask.cut_in(layer):
                inside[..., head * 8 : (head + 1) * 8] = torch.from_numpy(means)[
                    layer, head * 8 : (head + 1) * 8
                ]
            return (inside,)

        handles.append(lm.adapter.output_projection(lm.model, layer).register_forward_pre_hook(put))
    found = logits(lm)
    for handle in handles:
        handle.remove()
    return found


@pytest.fixture(params=TINY)
def pair(request):
    """The plain model, the centred one, its means."""
    lm = tiny_model(request.param)
    means = head_means(lm, WINDOWS)
    return lm, centred(tiny_model(request.param), means), means


def test_means_are_those_of_every_counted_position(pair):
    lm, _, means = pair
    seen = []
    handle = lm.adapter.output_projection(lm.model, 1).register_forward_pre_hook(
        lambda module, args: seen.append(args[0])
    )
    for ids, _ in WINDOWS:
        lm.model(torch.tensor([ids]))
    handle.remove()
    slow = torch.cat([seen[0][0], seen[1][0, -2:]]).double().mean(0)
    np.testing.assert_allclose(means[1], slow.numpy(), atol=1e-6)
    np.testing.assert_array_equal(means_of(means_table(means, 4), 3), means)


def test_it_computes_what_it_did_and_a_silenced_head_hands_over_its_mean(pair):
    lm, shifted, means = pair
    torch.testing.assert_close(logits(shifted), logits(lm), atol=1e-5, rtol=1e-5)
    with masked(shifted, MASK):
        silent = logits(shifted)
    torch.testing.assert_close(silent, by_hand(lm, means, MASK), atol=1e-5, rtol=1e-5)
    with masked(lm, MASK):
        assert (logits(lm) - silent).abs().max() > 1e-3, "not the same as zero"


def test_masked_is_cut_is_reloaded(pair, tmp_path):
    lm, shifted, _ = pair
    small = cut(shifted, MASK)
    width = shifted.adapter.head_dim
    rows = [
        tuple(map(float, shifted.means.reshape(3, 4, width)[layer, head]))
        for layer, head in MASK.cut
    ]
    record = record_of(shifted, MASK, means=tuple(rows))
    folder = save_cut(small, record, tmp_path / "cut")
    again = for_record(
        lm, read_mask(folder / "mask.json")
    )  # as `apply` does, from the mask file alone
    for one, other in ((shifted, small), (shifted, load_cut(folder)), (again, load_cut(folder))):
        assert agree(one, MASK, PROMPTS, other).holds
    assert small.n_parameters < lm.n_parameters


def test_folding_nothing_gives_the_model_back(pair):
    lm, shifted, _ = pair
    plain = cut(shifted, HeadMask(3, 4, ()))
    assert plain.model.state_dict().keys() == lm.model.state_dict().keys()
    assert all(
        torch.equal(value, lm.model.state_dict()[name])
        for name, value in plain.model.state_dict().items()
    )
    assert shifted.n_parameters == lm.n_parameters


def test_zeros_in_place_where_there_is_a_bias_to_hold_the_means(pair):
    _, shifted, _ = pair
    if can_be_zeroed(shifted):
        assert agree(shifted, MASK, PROMPTS, zeroed(shifted, MASK)).holds
    else:
        with pytest.raises(MaskError, match="no output bias"):
            zeroed(shifted, MASK)


def test_prefix_reuse_and_gate_gradients_serve_it_unchanged(pair):
    _, shifted, _ = pair
    texts, first = [[5, 9, 7, 22], [8, 1, 30, 2, 11]], [2, 1]
    _, off = row_logps(shifted, texts, first, [0, 6, 11])
    for unit, row in zip((0, 6, 11), off, strict=True):
        with masked(shifted, HeadMask.from_units(3, 4, (unit,))):
            np.testing.assert_allclose(row, slow_logps(shifted, texts, first), atol=1e-4)
    _, slopes = row_gradients(shifted, texts, first)
    step, ends = 3e-3, []
    for sign in (1, -1):
        gates = torch.ones(3, 4)
        gates[1, 2] += sign * step
        with gated(shifted, gates):
            ends.append(slow_logps(shifted, texts, first))
    np.testing.assert_allclose((ends[0] - ends[1]) / (2 * step), slopes[:, 6], rtol=1e-2, atol=5e-3)


def slow_logps(lm, texts, first):
    found = []
    for ids, start in zip(texts, first, strict=True):
        with torch.no_grad():
            logps = lm.model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
        found.append(sum(float(logps[at - 1, ids[at]]) for at in range(start, len(ids))))
    return np.array(found)


def test_what_cannot_be_centred_is_refused(lm):
    with pytest.raises(MaskError, match="do not fit"):
        centred(lm, np.zeros((3, 8), dtype=np.float32))
    shifted = centred(lm, head_means(lm, WINDOWS))
    with pytest.raises(MaskError, match="centred already"):
        centred(shifted, shifted.means)
    with pytest.raises(MaskError, match="centred already"):
        centred(cut(tiny_model("gpt2"), MASK), shifted.means)


@pytest.mark.parametrize(
    "means, said",
    [
        ([[1.0], None], "1 of 2 units"),
        ([[1.0], [1.0, 2.0]], "equally many"),
        ([[1.0], ["x"]], "finite numbers"),
        ([[1.0], [float("nan")]], "NaN is no number"),
        ([[1.0], 3], "finite numbers"),
    ],
)
def test_bad_means_in_a_mask_file_are_named(tmp_path, means, said):
    path = write_mask(
        tmp_path / "mask.json", record_of(tiny_model("gpt2"), HeadMask(3, 4, ((0, 1), (2, 3))))
    )
    plain = json.loads(path.read_text())
    for unit, mean in zip(plain["units"], means, strict=True):
        if mean is not None:
            unit["mean"] = mean
    path.write_text(json.dumps(plain))
    with pytest.raises(RequestError, match=said):
        read_mask(path)


def test_means_of_another_width_are_refused(lm, tmp_path):
    record = record_of(lm, HeadMask(3, 4, ((0, 1),)), means=((1.0, 2.0),))
    assert read_mask(write_mask(tmp_path / "mask.json", record)).means == record.means
    with pytest.raises(RequestError, match="2 numbers per head.*8 wide"):
        for_record(lm, record)
