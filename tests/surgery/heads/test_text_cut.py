"""Cut text classifiers: layers without heads, training after a cut, cutting further, saving and
loading."""

import dataclasses
import json

import pytest
import torch

from engine.core.errors import RequestError
from engine.core.types import HeadMask
from engine.models.load_text_classifier import load_text_classifier
from engine.surgery.heads.mask import cut, masked
from engine.surgery.heads.replay import load_cut, load_cut_classifier, save_cut_classifier
from engine.surgery.record import record_of
from tests.tiny import CLASSES, ENCODERS, TEXTS, tiny_model

FAMILIES = ("bert", "distilbert", "roberta")
MASK = HeadMask(3, 4, ((0, 1), *((1, head) for head in range(4)), (2, 0), (2, 3)))
LABELS = torch.tensor([0, 1, 2])


def train(clf, steps=3, rate=1e-3):
    """A few steps of AdamW in place, clipped as fine-tuning does; the loss before and after."""
    batch, losses = clf.encode(TEXTS), []
    clf.model.requires_grad_(True)
    optimizer = torch.optim.AdamW(clf.model.parameters(), lr=rate)
    for _ in range(steps + 1):
        loss = torch.nn.functional.cross_entropy(clf.logits(batch), LABELS)
        losses.append(float(loss.detach()))
        optimizer.zero_grad()
        loss.backward()
        size = torch.nn.utils.clip_grad_norm_(clf.model.parameters(), 1.0)
        assert torch.isfinite(size) and size > 0
        assert all(
            p.grad is not None and torch.isfinite(p.grad).all() for p in clf.model.parameters()
        )
        optimizer.step()
    clf.model.requires_grad_(False)
    return losses[0], losses[-1]


def answers(clf):
    with torch.no_grad():
        return clf.logits(clf.encode(TEXTS))


@pytest.mark.parametrize("name", ENCODERS)
def test_attention_of_a_cut_model_has_the_heads_that_are_left(name):
    small = cut(tiny_model(name), MASK)
    out = small.model(**small.encode(TEXTS), output_attentions=True)
    assert [tuple(found.shape) for found in out.attentions] == [
        (3, 3, 8, 8),
        (3, 0, 8, 8),
        (3, 2, 8, 8),
    ]
    assert small.adapter.output_projection(small.model, 1).weight.shape == (32, 0)


@pytest.mark.parametrize("name", FAMILIES)
def test_attention_that_was_asked_for_before_the_cut(name):
    """transformers' hooks for attentions come along with the copy and go on working."""
    clf = tiny_model(name)
    whole = clf.model(**clf.encode(TEXTS), output_attentions=True).attentions
    found = (
        cut(clf, HeadMask(3, 4, ((0, 1), (0, 2))))
        .model(**clf.encode(TEXTS), output_attentions=True)
        .attentions
    )
    assert len(found) == 3
    assert torch.allclose(
        found[0], whole[0][:, [0, 3]], atol=1e-6
    )  # the first layer sees what it always saw


@pytest.mark.parametrize("name", ENCODERS)
def test_a_cut_model_trains(name):
    clf = tiny_model(name)
    small = cut(clf, MASK)
    before, kept = answers(small), answers(clf)
    bias = small.adapter.output_projection(small.model, 1).bias.clone()
    first, last = train(small)
    assert last < first and not torch.allclose(answers(small), before, atol=1e-3)
    assert not torch.equal(
        small.adapter.output_projection(small.model, 1).bias, bias
    )  # still learns without heads
    assert torch.equal(answers(clf), kept)


def test_gradients_of_a_cut_model_are_those_of_the_masked_one():
    clf = tiny_model("distilbert", dtype="float64")
    small = cut(clf, MASK)

    def slopes(one):
        one.model.requires_grad_(True)
        loss = torch.nn.functional.cross_entropy(one.model(**one.encode(TEXTS)).logits, LABELS)
        names = [
            "distilbert.embeddings.word_embeddings.weight",
            "distilbert.transformer.layer.1.attention.out_lin.bias",
        ]
        return torch.autograd.grad(loss, [one.model.get_parameter(name) for name in names])

    with masked(clf, MASK):
        wanted = slopes(clf)
    assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(wanted, slopes(small), strict=True))


# ---- saving and loading


@pytest.fixture
def saved(tmp_path):
    clf = dataclasses.replace(tiny_model("roberta"), max_length=20)
    small = cut(clf, MASK)
    train(small)
    folder = save_cut_classifier(
        small, record_of(clf, MASK, method="isp:conductance"), tmp_path / "out"
    )
    return clf, small, folder


def test_a_retrained_cut_comes_back_exactly(saved):
    """Tensor by tensor, and with a mask, in test_replay.py."""
    clf, small, folder = saved
    again = load_cut_classifier(folder)
    assert torch.equal(answers(again), answers(small))
    assert not torch.allclose(answers(again), answers(clf), atol=1e-3)
    assert (again.classes, again.max_length, again.has_head) == (CLASSES, 20, True)
    assert again.tokenizer.padding_side == "right"
    assert again.model.config._attn_implementation == "eager"


def test_a_cut_folder_is_no_base_model(saved):
    with pytest.raises(
        RequestError, match="that PruneAudit has cut .*gets right says evaluate --model"
    ):
        load_text_classifier(saved[2], CLASSES, device="cpu")
    with pytest.raises(RequestError, match="is an encoder"):
        load_cut(saved[2])


def test_a_cut_language_model_is_no_classifier(saved):
    folder = saved[2]
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(
        json.dumps(config | {"model_type": "gpt2", "architectures": None})
    )
    with pytest.raises(RequestError, match="'gpt2' continues texts"):
        load_cut_classifier(folder)
