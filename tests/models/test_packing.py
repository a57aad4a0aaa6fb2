"""Texts that begin alike, read in one row, and a row for each."""

from dataclasses import replace

import pytest
import torch

from engine.models.load_language_model import load_language_model
from engine.models.packing import WIDTH, left_pad, logits_of_last, packed, padded
from engine.models.structure import proofs
from engine.models.structure.adapter import Decoder
from tests.tiny import DECODERS, TINY, build, tiny_model

APART = {
    "bloom",
    "falcon_alibi",
    "mpt",
    "gpt_neo",
    "gpt_oss",
    "mistral",
    "llama4",
    "gemma2",
    "gemma3",
}
"""Families whose tokens hang on where they stand in a row, or that see only what is near there."""
TEXTS = [[5, 6, 7], [5, 6, 8, 9], [], [5, 6, 7], [4], [5, 6, 8, 9, 3, 4, 7]]


def test_rows_are_padded_on_the_left():
    batch = left_pad([[4, 5, 6, 7], [8]], "cpu")
    assert batch.real.tolist() == [[1, 1, 1, 1], [0, 0, 0, 1]]
    assert batch.positions.tolist() == [[0, 1, 2, 3], [0, 0, 0, 0]]


def test_a_token_stands_where_it_does_in_its_text_and_sees_that_text_alone():
    model = tiny_model("llama").model
    one = packed([[5, 6, 7], [5, 6, 8], [9]], [0] * 3, model)
    assert one.batch.ids.tolist() == [[5, 6, 7, 8, 9]] and one.first == [0]
    assert one.batch.positions.tolist() == [[0, 1, 2, 2, 0]]
    assert one.batch.real.tolist() == [[1] * 5]
    assert (one.batch.seen[0, 0] == 0).int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 1, 0, 1, 0],
        [0, 0, 0, 0, 1],
    ]
    assert one.at.tolist() == [[0, 1, 2], [0, 1, 3], [0, 0, 4]]
    assert one.real.tolist() == [[1, 1, 1], [1, 1, 1], [0, 0, 1]]


@torch.no_grad()
@pytest.mark.parametrize("kinds", [[0] * 6, [1, 0, 1, 0, 1, 0]], ids=["one kind", "two"])
@pytest.mark.parametrize("name", sorted({*TINY, *DECODERS} - APART))
def test_both_ways_keep_the_same_of_every_text(name, kinds):
    lm = tiny_model(name)
    assert lm.adapter.packs
    ways = [lay(TEXTS, kinds, lm.model) for lay in (packed, padded)]
    assert torch.equal(*(way.real for way in ways))
    assert ways[0].batch.ids.numel() < ways[1].batch.ids.numel()
    assert [[kinds[way.first[row]] for row in way.row] for way in ways] == [kinds] * 2
    kept = [way.cache(lm.model).layers for way in ways]
    for layers in zip(*kept, strict=True):
        for what in ("keys", "values"):
            each = [getattr(one, what).transpose(1, 2)[ways[0].real.bool()] for one in layers]
            assert torch.allclose(*each, atol=1e-5)


@pytest.mark.parametrize("name", sorted(APART))
def test_a_model_that_cannot_share_rows_is_found_out(name):
    lm = tiny_model(name)
    assert not tiny_model(name, "bfloat16").adapter.packs
    assert not lm.adapter.packs
    assert not proofs.packs(lm.model, Decoder.of(lm.model.config), name)


@torch.no_grad()
def test_rows_are_full_before_another_begins():
    model = tiny_model("gpt2").model
    texts = [[at % 40, *range(20)] for at in range(13)]
    one = packed(texts, [0] * 13, model)
    assert one.batch.ids.shape == (3, 21 * (WIDTH // 21)) and max(one.row.tolist()) == 2
    wanted = logits_of_last(model, texts, padded)
    assert torch.allclose(logits_of_last(model, texts, packed), wanted, atol=1e-5)


@pytest.mark.parametrize("vocabulary", [48, 49, 50, 53])
def test_a_wrong_mask_and_wrong_positions_are_found_out_whatever_the_tokens(
    vocabulary, tmp_path, monkeypatch
):
    """Which of the two texts stands first in the row hangs on the vocabulary."""
    lm = load_language_model(build("llama", tmp_path, vocab_size=vocabulary), device="cpu")
    assert lm.adapter.packs

    def causal(one):
        size = one.batch.ids.shape[1]
        return replace(one.batch, seen=torch.full((size, size), -1e9).triu(1)[None, None])

    def along(one):
        return replace(one.batch, positions=torch.arange(one.batch.ids.shape[1])[None])

    for wrong in (causal, along):
        lay = lambda *of, wrong=wrong: replace(one := packed(*of), batch=wrong(one))  # noqa: E731
        monkeypatch.setattr(proofs, "packed", lay)
        assert not proofs.packs(lm.model, lm.adapter, "it")
