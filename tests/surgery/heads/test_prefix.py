"""Every head off from one dense pass = the plain masked forward pass, for every adapter."""

import numpy as np
import pytest
import torch

from engine.core.errors import Cancelled, MaskError, PruneAuditError
from engine.core.types import Decoding, HeadMask, Hooks
from engine.surgery.heads import prefix
from engine.surgery.heads.mask import is_masked, masked
from engine.surgery.heads.prefix import row_logps
from tests.tiny import TINY, tiny_model

TEXTS = [[3, 9, 4, 1, 7, 2], [5, 6], [8, 8, 1, 2, 3, 4, 5, 6, 7], [2, 4, 6, 8], [9, 1, 1]]
FIRST = [2, 1, 4, 1, 2]


def slow(lm, units, decoding=None):
    """One text and one head at a time, no padding."""
    rows = []
    for unit in [None, *units]:
        cut = () if unit is None else (divmod(unit, lm.n_heads),)
        row = []
        for text, first in zip(TEXTS, FIRST, strict=True):
            ids = torch.tensor([text])
            with torch.no_grad(), masked(lm, HeadMask(lm.n_layers, lm.n_heads, cut)):
                logits = lm.model(input_ids=ids, use_cache=False).logits[0].float()
            if decoding is not None:
                logits = prefix.filtered(logits, decoding)
            logps = logits.log_softmax(-1)
            row.append(sum(float(logps[at - 1, text[at]]) for at in range(first, len(text))))
        rows.append(row)
    return np.array(rows[0]), np.array(rows[1:])


@pytest.mark.parametrize("family", TINY)
def test_every_head_off_equals_the_masked_model(family):
    lm = tiny_model(family)
    units = range(lm.n_layers * lm.n_heads)
    dense, off = row_logps(lm, TEXTS, FIRST, units)
    plain, plain_off = slow(lm, units)
    np.testing.assert_allclose(dense, plain, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(off, plain_off, rtol=1e-5, atol=1e-5)
    assert np.abs(off - dense).max() > 1e-3, "heads that change nothing would prove nothing"


@pytest.mark.parametrize("family", TINY)
def test_batch_size_order_and_choice_of_units_change_nothing(family):
    lm = tiny_model(family)
    units = list(range(lm.n_layers * lm.n_heads))
    dense, off = row_logps(lm, TEXTS, FIRST, units)
    shares = []
    few, few_off = row_logps(
        lm, TEXTS[::-1], FIRST[::-1], units[::-2], hooks=Hooks(inside=shares.append), tokens=9
    )
    assert shares == sorted(shares) and len(shares) > 3 and shares[-1] == pytest.approx(1)
    np.testing.assert_allclose(few[::-1], dense, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(few_off[:, ::-1], off[::-2], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("family", TINY)
def test_reading_only_as_far_as_the_units_need_gives_their_numbers_to_the_bit(family):
    lm = tiny_model(family)
    for units in ([1], list(range(lm.n_heads)), list(range(lm.n_layers * lm.n_heads))):
        whole, part = (
            row_logps(lm, TEXTS, FIRST, units),
            row_logps(lm, TEXTS, FIRST, units, whole=False),
        )
        np.testing.assert_array_equal(part[1], whole[1])
        assert not part[0].any()
    assert np.abs(row_logps(lm, TEXTS, FIRST, [])[0]).min() > 0, "the model reads to its end again"


def test_the_distribution_is_the_one_that_was_sampled_from():
    lm = tiny_model("gpt2")
    decoding = Decoding(temperature=0.7, top_k=12)
    dense, off = row_logps(lm, TEXTS, FIRST, [1, 3], decoding)
    plain, plain_off = slow(lm, [1, 3], decoding)
    np.testing.assert_allclose(dense, plain, rtol=1e-5)
    np.testing.assert_allclose(off, plain_off, rtol=1e-5)


def test_half_precision_is_close_and_summed_in_full():
    lm = tiny_model("llama_grouped", "bfloat16")
    dense, off = row_logps(lm, TEXTS, FIRST, range(4))
    exact, exact_off = row_logps(tiny_model("llama_grouped"), TEXTS, FIRST, range(4))
    assert dense.dtype == off.dtype == np.float64
    np.testing.assert_allclose(dense, exact, rtol=0.02)
    np.testing.assert_allclose(off, exact_off, rtol=0.02)


def test_damaged_weights_are_named():
    lm = tiny_model("gpt2")
    weight = lm.adapter.output_projection(lm.model, 0).weight
    kept = weight.data.clone()
    weight.data[0, 0] = float("nan")
    try:
        with pytest.raises(PruneAuditError, match="finite probability for 5 of 5 texts"):
            row_logps(lm, TEXTS, FIRST, [0])
    finally:
        weight.data.copy_(kept)


def test_nothing_stays_behind_when_it_is_cancelled():
    lm = tiny_model("gpt2")
    calls = []

    def check():
        calls.append(1)
        if len(calls) > 2:
            raise Cancelled("stop")

    before = row_logps(lm, TEXTS, FIRST, [0, 5])[1]
    with pytest.raises(Cancelled):
        row_logps(lm, TEXTS, FIRST, [0, 5], hooks=Hooks(check=check), tokens=6)
    assert not is_masked(lm)
    assert all("forward" not in vars(module) for module in lm.model.modules())
    assert not any(
        module._forward_pre_hooks or module._forward_hooks for module in lm.model.modules()
    )
    np.testing.assert_array_equal(row_logps(lm, TEXTS, FIRST, [0, 5])[1], before)


def test_a_masked_model_is_refused():
    lm = tiny_model("gpt2")
    with (
        masked(lm, HeadMask(lm.n_layers, lm.n_heads, ((0, 0),))),
        pytest.raises(MaskError, match="masked already"),
    ):
        row_logps(lm, TEXTS, FIRST, [1])


def test_where_memory_is_short_batches_shrink_and_the_numbers_stay(monkeypatch):
    lm = tiny_model("gpt2")
    expected = row_logps(lm, TEXTS, FIRST, range(6))
    whole, rooms = prefix._batch, []

    def short_of_memory(lm, rows, *rest):
        rooms.append(len(rows.ids))
        if len(rows.ids) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return whole(lm, rows, *rest)

    monkeypatch.setattr(prefix, "_batch", short_of_memory)
    found = row_logps(lm, TEXTS, FIRST, range(6))
    assert max(rooms) > 2 and min(rooms) <= 2
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-5)
