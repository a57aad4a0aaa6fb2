"""What every way to score heads of a text classifier promises, found by itself; and each of them by
hand."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import scipy.stats
import torch

from engine.core.errors import Cancelled, PruneAuditError
from engine.core.types import HeadMask
from engine.surgery.heads.mask import cut, gated, masked
from engine.tracks.text_classifiers.captum_layers import attributed
from engine.tracks.text_classifiers.conductance import conductance
from engine.tracks.text_classifiers.scores import base
from engine.tracks.text_classifiers.scores.base import (
    aggregate,
    head_importance,
    head_importances,
    says_nothing,
    settings_of,
    unit_values,
)
from tests.tiny import text, tiny_text_classifier

LAYERS, HEADS, UNITS = 3, 4, 12
TEXTS = [
    text(3, 1, 4, 1, 5),
    text(9),
    text(2, 6, 5, 3, 5, 8, 9),
    text(7, 9, 3),
    text(2, 3, 8, 4, 6),
]
LABELS = np.array([0, 1, 2, 0, 1])
MASK = HeadMask.from_units(LAYERS, HEADS, [1, 4, 5, 6, 7, 8, 11])
KEPT = [unit for unit in range(UNITS) if unit not in MASK.units]
QUICK = {"steps": 3}
EACH = pytest.mark.parametrize("name", head_importances())


@cache
def whole(family="bert"):
    return tiny_text_classifier(family)


def quick(method, **more):
    declared = {setting.name for setting in method.settings}
    return {name: value for name, value in (QUICK | more).items() if name in declared}


def scored(
    name,
    clf=None,
    texts=TEXTS,
    labels=LABELS,
    seed=0,
    texts_b=None,
    settings=None,
    **hooks,
):
    method = head_importance(name)
    given = settings_of(method, quick(method) if settings is None else settings)
    return method.scored(base.Texts(clf or whole(), texts, texts_b, labels, given, seed, **hooks))


@cache
def plain(name):
    return scored(name)


@EACH
def test_a_number_for_every_head_of_every_text(name):
    found, method = plain(name), head_importance(name)
    n = len(TEXTS) if method.reads_texts else 1
    assert found.per_text.shape == (n, UNITS) and found.per_text.dtype == np.float32
    assert (
        np.isfinite(found.per_text).all()
        and found.delta.shape == (n,)
        and not found.n_constant.any()
    )
    assert len(np.unique(found.per_text)) > UNITS // 2
    values = unit_values(method, found.per_text, LAYERS)
    assert values.shape == (UNITS,) and values.dtype == np.float64 and np.isfinite(values).all()


@EACH
def test_the_same_again_and_another_seed_matters_where_it_draws(name):
    again, other = scored(name), scored(name, seed=1)
    assert np.array_equal(again.per_text, plain(name).per_text)
    assert np.array_equal(other.per_text, again.per_text) != head_importance(name).draws


@EACH
def test_neither_the_order_of_texts_nor_their_company_matters(name):
    if not head_importance(name).reads_texts:
        return
    order = np.array([3, 0, 4, 2, 1])
    turned = scored(name, texts=[TEXTS[row] for row in order], labels=LABELS[order])
    assert np.allclose(turned.per_text, plain(name).per_text[order], atol=2e-4)
    alone = scored(name, texts=TEXTS[2:3], labels=LABELS[2:3])
    assert np.allclose(alone.per_text, plain(name).per_text[2:3], atol=2e-4)


@EACH
@pytest.mark.parametrize("at_once", [1, 100])
def test_settings_outside_the_key_change_no_number(name, at_once):
    method = head_importance(name)
    if not method.not_in_key:
        return
    assert method.not_in_key == ("at_once",)
    found = scored(name, settings=quick(method, at_once=at_once))
    assert np.allclose(found.per_text, plain(name).per_text, atol=2e-4)


@EACH
@pytest.mark.parametrize("family", ["bert", "distilbert", "roberta"])
def test_a_cut_model_gives_what_the_masked_one_gives_for_the_heads_that_are_left(name, family):
    clf = whole(family)
    small = scored(name, cut(clf, MASK))
    with masked(clf, MASK):
        silenced = scored(name, clf)
    gone = list(MASK.units)
    assert np.isnan(small.per_text[:, gone]).all() and not small.n_constant[gone].any()
    assert np.allclose(small.per_text[:, KEPT], silenced.per_text[:, KEPT], atol=2e-4, rtol=1e-4)
    assert np.allclose(small.delta, silenced.delta, atol=2e-4, equal_nan=True)
    silenced.per_text[:, gone] = np.nan
    method = head_importance(name)
    here, there = (unit_values(method, found.per_text, LAYERS) for found in (small, silenced))
    assert np.array_equal(np.isnan(here), ~np.isin(np.arange(UNITS), KEPT))
    assert np.allclose(here, there, atol=2e-4, equal_nan=True)


@EACH
def test_a_model_without_heads_has_no_numbers(name):
    found = scored(name, cut(whole(), HeadMask.from_units(LAYERS, HEADS, range(UNITS))))
    assert np.isnan(found.per_text).all() and not found.n_constant.any()
    assert np.isnan(unit_values(head_importance(name), found.per_text, LAYERS)).all()


@EACH
def test_pairs_of_texts_are_read_as_pairs(name):
    found = scored(name, texts_b=TEXTS[::-1])
    assert np.isfinite(found.per_text).all()
    assert np.array_equal(found.per_text, plain(name).per_text) != head_importance(name).reads_texts


@EACH
def test_work_can_be_followed_and_cancelled(name):
    shares, checks = [], []
    scored(name, inside=shares.append, check=lambda: checks.append(1))
    assert checks
    if head_importance(name).reads_texts:
        assert shares == sorted(shares) and shares[-1] == 1.0

    def stop():
        raise Cancelled

    with pytest.raises(Cancelled):
        scored(name, check=stop)


@EACH
def test_it_leaves_no_trace(name):
    clf = whole()
    before = {key: value.clone() for key, value in clf.model.state_dict().items()}
    scored(name, clf)
    assert not any(
        module._forward_pre_hooks or module._backward_hooks for module in clf.model.modules()
    )
    assert not any(p.requires_grad or p.grad is not None for p in clf.model.parameters())
    assert all(torch.equal(value, before[key]) for key, value in clf.model.state_dict().items())


@EACH
def test_damaged_weights_are_never_a_score(name):
    clf = tiny_text_classifier()
    with torch.no_grad():
        clf.adapter.head_tensors(clf.model, 2, 1)[0].fill_(float("nan"))
    if head_importance(name).reads_texts:
        with pytest.raises(PruneAuditError, match="not finite"):
            scored(name, clf)


def test_conductance_is_the_correlation_of_attention_and_attribution():
    found, clf = plain("conductance"), whole()
    for row, one in enumerate(TEXTS):
        maps = conductance(clf, clf.encode([one]), steps=3)
        for unit in range(UNITS):
            layer, head = divmod(unit, HEADS)
            x, y = (
                kind[layer][0, head].numpy().ravel() for kind in (maps.attention, maps.attribution)
            )
            assert found.per_text[row, unit] == pytest.approx(
                scipy.stats.spearmanr(x, y).statistic, abs=2e-4
            )
        assert found.delta[row] == pytest.approx(float(maps.delta[0]), abs=1e-4)


@pytest.mark.parametrize(
    "name,value",
    [
        ("correlation", "kendall"),
        ("correlation", "pearson"),
        ("target", "gold"),
        ("baseline", "mask"),
        ("steps", 7),
    ],
)
def test_settings_of_conductance_reach_it(name, value):
    found = scored("conductance", settings=QUICK | {name: value})
    assert not np.allclose(found.per_text, plain("conductance").per_text, atol=1e-3)


def test_a_head_whose_map_is_constant_in_every_text_gets_zero_and_is_counted():
    clf = tiny_text_classifier()
    with torch.no_grad():
        clf.adapter.output_projection(clf.model, 1).weight[:, 16:24] = (
            0  # nothing of head 2 of layer 1 is read
        )
    found = scored("conductance", clf)
    assert found.n_constant.tolist() == [5 if unit == 6 else 0 for unit in range(UNITS)]
    assert np.isnan(found.per_text[:, 6]).all()
    assert says_nothing(found.n_constant, 5).tolist() == [unit == 6 for unit in range(UNITS)]
    assert np.isnan(unit_values(head_importance("conductance"), found.per_text, LAYERS)[6])


def test_a_text_that_says_nothing_is_left_out_of_the_mean_and_counted():
    found = scored("conductance", texts=[*TEXTS, ""], labels=np.append(LABELS, 0))
    assert np.isnan(found.per_text[5]).all() and (found.n_constant == 1).all()
    method = head_importance("conductance")
    expected = unit_values(method, plain("conductance").per_text, LAYERS)
    assert np.allclose(unit_values(method, found.per_text, LAYERS), expected, atol=1e-4)


def test_attribution_mass_is_the_size_of_the_summed_conductance():
    found, clf = plain("attribution_mass"), whole()
    for row, one in enumerate(TEXTS):
        maps = conductance(clf, clf.encode([one]), steps=3).attribution
        expected = [
            abs(float(part[0, head].double().sum())) for part in maps for head in range(HEADS)
        ]
        assert np.allclose(found.per_text[row], expected, rtol=1e-3, atol=1e-5)


def test_the_size_of_the_correlation_has_no_sign():
    assert np.allclose(plain("abs_corr").per_text, np.abs(plain("conductance").per_text), atol=1e-6)
    assert (plain("conductance").per_text < 0).any()


def test_a_fixed_class_is_the_gold_target_with_one_label_for_all():
    found = scored("fixed_class", settings=QUICK | {"place": 2})
    same = scored("conductance", labels=np.full(len(TEXTS), 2), settings=QUICK | {"target": "gold"})
    assert np.array_equal(found.per_text, same.per_text)
    assert not np.allclose(
        found.per_text, scored("fixed_class", settings=QUICK | {"place": 0}).per_text, atol=1e-3
    )
    (fault,) = head_importance("fixed_class").class_faults({"place": 3}, 3)
    assert "class 3 is none of 3" in fault.what


def _at_gate(loss, row):
    """The gradient at every head's gate, of the largest logit or of the loss, [units]."""
    clf, gates = whole(), torch.ones(LAYERS, HEADS, requires_grad=True)
    with torch.enable_grad(), gated(clf, gates):
        logits = clf.logits(clf.encode([TEXTS[row]]))
        label = torch.tensor(LABELS[row : row + 1])
        value = torch.nn.functional.cross_entropy(logits, label) if loss else logits.max()
    return torch.autograd.grad(value, gates)[0].abs().flatten().numpy()


@pytest.mark.parametrize(("name", "loss"), [("gradient_x_activation", False), ("michel", True)])
def test_the_score_of_a_heads_output_is_the_gradient_at_its_gate(name, loss):
    for row, found in enumerate(plain(name).per_text):
        assert np.allclose(found, _at_gate(loss, row), rtol=1e-3, atol=1e-6)


def test_integrated_gradients_of_a_linear_end_are_gradient_times_the_way_from_the_baseline():
    """With one integration step's gradient everywhere the same, both of Captum's methods attribute
    alike."""
    clf = whole()
    module = clf.adapter.output_projection(clf.model, LAYERS - 1)
    linear = torch.nn.Sequential(module)
    inside = torch.randn(1, 4, module.in_features, generator=torch.Generator().manual_seed(0))
    ours, slope = (
        attributed(name, linear, module, inside, torch.zeros_like(inside), target=(0, 0))
        for name in ("layer_integrated_gradients", "gradient_x_activation")
    )
    assert torch.allclose(ours, slope, atol=1e-5)


def test_michel_is_normalised_within_each_layer():
    method, per_text = head_importance("michel"), plain("michel").per_text
    values = unit_values(method, per_text, LAYERS).reshape(LAYERS, HEADS)
    assert np.allclose(np.linalg.norm(values, axis=1), 1)
    means = per_text.mean(0).reshape(LAYERS, HEADS)
    assert np.allclose(values, means / np.linalg.norm(means, axis=1, keepdims=True))
    assert not unit_values(method, np.zeros((2, UNITS)), LAYERS).any()


def test_magnitude_is_the_norm_of_the_heads_own_weights():
    found, own = plain("magnitude").per_text[0], whole().model.bert.encoder.layer[1].attention
    rows, parts = slice(8, 16), (own.self.query, own.self.key, own.self.value)
    total = sum(
        float(part.weight[rows].square().sum() + part.bias[rows].square().sum()) for part in parts
    )
    total += float(own.output.dense.weight[:, rows].square().sum())
    assert found[1 * HEADS + 1] == pytest.approx(np.sqrt(total), rel=1e-5)


def test_a_value_is_the_mean_over_texts_with_a_bootstrap_interval():
    method = head_importance("conductance")
    per_text = np.random.default_rng(0).normal(0.3, 0.2, (400, 4))
    per_text[:, 3], per_text[:100, 1] = np.nan, np.nan
    found = aggregate(method, per_text, 2)
    assert np.allclose(found.value[:3], np.nanmean(per_text[:, :3], axis=0))
    half = 1.96 * np.nanstd(per_text[:, :3], axis=0) / np.sqrt([400, 300, 400])
    assert np.allclose(found.value[:3] - found.low[:3], half, rtol=0.15)
    assert np.allclose(found.high[:3] - found.value[:3], half, rtol=0.15)
    assert np.isnan([found.value[3], found.low[3], found.high[3]]).all()
    again, other = aggregate(method, per_text, 2), aggregate(method, per_text, 2, seed=1)
    assert np.array_equal(again.low, found.low, equal_nan=True)
    assert not np.array_equal(other.low, found.low, equal_nan=True)


def test_intervals_of_normalised_values_are_normalised_too():
    found = aggregate(head_importance("michel"), plain("michel").per_text, LAYERS)
    assert (
        (found.low >= 0).all()
        and (found.high <= 1 + 1e-12).all()
        and (found.low < found.high).all()
    )
    assert (found.low <= found.value).all() and (found.value <= found.high).all()


def test_there_is_no_interval_for_one_text_or_without_texts():
    for name, per_text in (("conductance", np.ones((1, 4))), ("magnitude", np.ones((5, 4)))):
        found = aggregate(head_importance(name), per_text, 2)
        assert (found.value == 1).all() and np.isnan([found.low, found.high]).all()
    assert np.isnan(aggregate(head_importance("michel"), np.ones((0, 4)), 2).value).all()


def test_long_texts_shrink_the_batch_and_change_no_number(monkeypatch):
    monkeypatch.setattr(base, "ROOM", 2 * UNITS * 7**2)
    clf, seen = whole(), []
    clf = replace(clf, max_length=7)
    for rows, batch, room in base.in_batches(clf, [*TEXTS, text(*range(20))], None, 4):
        seen.append((len(rows), room, tuple(batch["input_ids"].shape)))
    assert seen == [(2, 2, (2, 7)), (2, 2, (2, 7)), (2, 3, (2, 5))]
    assert np.allclose(scored("conductance").per_text, plain("conductance").per_text, atol=2e-4)
