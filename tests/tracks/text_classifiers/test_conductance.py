"""Conductance of attention: by hand on maps that can be followed, against Captum layer by layer,
and in its limits."""

from dataclasses import replace
from importlib.metadata import version
from types import SimpleNamespace

import pytest
import torch

from engine.core.errors import PruneAuditError, RequestError
from engine.tracks.text_classifiers import captum_layers
from engine.tracks.text_classifiers.captum_layers import prove_conductance
from engine.tracks.text_classifiers.conductance import baseline_embeddings, conductance
from tests.tiny import ENCODERS, TEXTS, text, tiny_text_classifier

EACH_FAMILY = pytest.mark.parametrize("name", ENCODERS)


def double(name="bert"):
    clf = tiny_text_classifier(name)
    return replace(clf, model=clf.model.double(), dtype=torch.float64)


def by_captum(clf, batch, steps, target, baseline="pad"):
    from captum.attr import LayerConductance

    end, start = baseline_embeddings(clf, batch, baseline)
    rest = {name: values for name, values in batch.items() if name != "input_ids"}

    def logits(embedded, *values):
        return clf.model(inputs_embeds=embedded, **dict(zip(rest, values, strict=True))).logits

    return [
        LayerConductance(logits, clf.adapter.attention_probabilities(clf.model, layer))
        .attribute(
            end,
            start,
            target=target,
            additional_forward_args=tuple(rest.values()),
            n_steps=steps,
            method="riemann_trapezoid",
        )[1]
        .detach()
        for layer in range(clf.n_layers)
    ]


def assert_same(found, expected, most=1e-8):
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.shape == theirs.shape
        if theirs.numel():
            assert (ours - theirs).abs().max() <= most * theirs.abs().max()


@pytest.mark.parametrize(("baseline", "filler"), [("pad", 1), ("mask", 4)])
def test_the_baseline_has_no_words_and_keeps_what_is_special(baseline, filler):
    clf = double()
    batch, table = clf.encode(TEXTS), clf.adapter.embeddings(clf.model)
    ids = batch["input_ids"]
    end, start = baseline_embeddings(clf, batch, baseline)
    assert torch.equal(end, table(ids))
    assert torch.equal(start, table(torch.where(ids > 4, filler, ids)))


@pytest.mark.parametrize("at_once", [1, 2, 4, 5, 64])
def test_no_pass_has_more_rows_than_asked_for_and_each_point_is_met_once(at_once):
    clf, rows, checks = double(), [], []
    batch = clf.encode(TEXTS)
    reference = conductance(clf, batch, steps=7, at_once=1000)
    clf.model.register_forward_pre_hook(
        lambda model, given, named: rows.append(len(named["inputs_embeds"])), with_kwargs=True
    )
    found = conductance(clf, batch, steps=7, at_once=at_once, check=lambda: checks.append(1))
    assert max(rows) <= at_once and sum(rows) == 3 * 7 + 3 and len(checks) == len(rows)
    assert_same(found.attribution, reference.attribution)
    assert torch.allclose(found.delta, reference.delta, atol=1e-12)
    assert torch.equal(found.predicted, reference.predicted)


def test_a_text_without_words_is_its_own_baseline():
    clf = double()
    found = conductance(clf, clf.encode([""]), steps=3)
    for one in (*found.attribution, found.change, found.delta):
        assert one.abs().max() < 1e-12


@EACH_FAMILY
@pytest.mark.parametrize("baseline", ["pad", "mask"])
def test_every_layer_equals_captums(name, baseline):
    clf = double(name)
    batch = clf.encode(TEXTS)
    found = conductance(clf, batch, steps=6, at_once=5, baseline=baseline)
    assert_same(found.attribution, by_captum(clf, batch, 6, found.predicted, baseline))


def test_the_gold_target_is_captums_for_the_labels():
    clf, labels = double(), torch.tensor([2, 0, 1])
    batch = clf.encode(TEXTS, TEXTS[::-1])
    found = conductance(clf, batch, steps=4, labels=labels)
    assert_same(found.attribution, by_captum(clf, batch, 4, labels))


@EACH_FAMILY
def test_padding_changes_nothing_and_gets_nothing(name):
    clf = double(name)
    together = conductance(clf, clf.encode(TEXTS), steps=4)
    for row, one in enumerate(TEXTS):
        alone, tokens = conductance(clf, clf.encode([one]), steps=4), len(one.split()) + 2
        for all_maps, maps in zip(together.attribution, alone.attribution, strict=True):
            assert torch.allclose(all_maps[row, :, :tokens, :tokens], maps[0], atol=1e-10)
            assert not all_maps[row, :, tokens:].any() and not all_maps[row, :, :, tokens:].any()
        assert torch.allclose(together.delta[row], alone.delta[0], atol=1e-8)


def test_delta_is_what_integrated_gradients_miss_and_vanishes_with_more_steps():
    from captum.attr import IntegratedGradients

    clf = double()
    batch = clf.encode(TEXTS)
    end, start = baseline_embeddings(clf, batch)
    found = conductance(clf, batch, steps=8)

    def logits(embedded):
        seen = batch["attention_mask"].repeat(len(embedded) // 3, 1)
        return clf.model(inputs_embeds=embedded, attention_mask=seen).logits

    by_words, delta = IntegratedGradients(logits).attribute(
        end,
        start,
        target=found.predicted,
        n_steps=8,
        method="riemann_left",
        return_convergence_delta=True,
    )
    assert torch.allclose(found.delta, delta.double(), atol=1e-5)
    assert torch.allclose(found.delta + found.change, by_words.sum((1, 2)), atol=1e-5)
    with torch.no_grad():
        goal = found.predicted[:, None]
        assert torch.allclose(
            found.change, (logits(end) - logits(start)).gather(1, goal)[:, 0], atol=1e-10
        )
    assert conductance(clf, batch, steps=300).delta.abs().max() < 0.1 * found.delta.abs().max()


def test_a_missing_token_and_models_that_cannot_be_asked():
    clf = tiny_text_classifier()
    batch = clf.encode(TEXTS)
    clf.model.train()
    with pytest.raises(PruneAuditError, match="training"):
        conductance(clf, batch, steps=1)
    clf.model.eval()
    nameless = replace(clf, tokenizer=SimpleNamespace(pad_token_id=1, mask_token_id=None))
    with pytest.raises(RequestError, match="no mask token"):
        conductance(nameless, batch, steps=1, baseline="mask")
    with torch.no_grad():
        next(clf.model.base_model.encoder.layer[1].parameters()).fill_(float("nan"))
    with pytest.raises(PruneAuditError, match="not finite"):
        conductance(clf, batch, steps=1)


def test_attention_that_is_not_handed_over_is_refused():
    clf = tiny_text_classifier()
    clf.model.set_attn_implementation("sdpa")
    with pytest.raises(PruneAuditError, match="eager"):
        conductance(clf, clf.encode(TEXTS), steps=1)


def test_an_audits_proof_says_how_far_it_is_from_captum_and_fails_where_it_is_not_captums(
    monkeypatch,
):
    clf = tiny_text_classifier()
    found = prove_conductance(clf, text(3, 1, 4, 1, 5))
    assert (
        0 <= found["largest_relative_difference"] <= found["tolerance"] == 1e-4
        and found["layers"] == clf.n_layers
    )
    assert found["captum"] == version("captum") and found["tokens"] == 7
    monkeypatch.setattr(
        captum_layers, "conductance", lambda *given, **more: conductance(*given, steps=3)
    )
    with pytest.raises(PruneAuditError, match="differs from Captum's LayerConductance by"):
        prove_conductance(clf, text(3, 1, 4, 1, 5))
