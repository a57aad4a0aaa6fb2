"""Fitting: learns, resumes bit for bit, stops between batches, says when the loss is no number."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from engine.core.errors import Cancelled, PruneAuditError
from engine.training import fit as module
from engine.training.fit import fit, probabilities
from engine.training.recipe import Recipe
from tests.classifiers.worlds import (
    InMemoryKeep,
    TwoConvs,
    some_batches,
    some_pixels,
    some_targets,
    state,
    stop_after,
    tiny,
)

N = 24


def fitted(model=None, recipe=Recipe(epochs=3, rate=0.01, batch=7), **more):  # noqa: B008  (frozen)
    """A copy of the tiny model after fitting, and its curve."""
    classifier = tiny(model)
    batches = some_batches(classifier, N, recipe.batch, seed=1, mirror=recipe.mirror)
    held = more.pop("targets", None) or some_targets(N)
    rows = fit(classifier.model, batches, held, recipe, "fc", **more)
    return classifier.model, rows


def same(one, two):
    one, two = one.state_dict(), two.state_dict()
    return all(torch.equal(one[name], two[name]) for name in one)


def test_one_step_is_adamw_by_torch():
    """One batch, one epoch: what torch's own optimizer makes of the same loss."""
    recipe = Recipe(epochs=1, rate=0.01, batch=N, mirror=False, weight_decay=0.1)
    model, rows = fitted(recipe=recipe)
    other = tiny()
    held, batch = some_targets(N), next(some_batches(other, N, N, seed=1).epoch(0))
    other.model.train().requires_grad_(True)
    optimizer = torch.optim.AdamW(other.model.parameters(), lr=0.01, weight_decay=0.1)
    logits = other.model(batch.inputs)
    weights = held.weights[batch.rows]
    loss = (
        weights * functional.cross_entropy(logits, held.labels[batch.rows], reduction="none")
    ).mean()
    loss.backward()
    optimizer.step()
    assert rows[0]["loss"] == pytest.approx(loss.item(), rel=1e-6)
    for name, value in other.model.state_dict().items():
        assert torch.allclose(model.state_dict()[name].float(), value.float(), atol=1e-7), name


@pytest.mark.parametrize("schedule", ["cosine", "linear", "steps", "constant"])
def test_schedules_by_hand(schedule):
    recipe = Recipe(epochs=4, rate=0.1, batch=12, schedule=schedule, steps=(1, 3))
    _, rows = fitted(recipe=recipe)
    expected = {
        "constant": [0.1] * 4,
        "linear": [0.1, 0.075, 0.05, 0.025],
        "steps": [0.1, 0.01, 0.01, 0.001],
        "cosine": [0.1, 0.1 * (1 + 0.5**0.5) / 2, 0.05, 0.1 * (1 - 0.5**0.5) / 2],
    }
    assert [row["rate"] for row in rows] == pytest.approx(expected[schedule])


def moved(model, before, name):
    return float((model.state_dict()[name] - before[name]).abs().max())


def test_frozen_epochs_move_the_last_layer_only():
    before = state(tiny().model)
    model, _ = fitted(recipe=Recipe(epochs=2, rate=0.01, batch=8, frozen_epochs=2))
    assert moved(model, before, "fc.weight") > 1e-3
    for name in ("conv1.weight", "conv1.bias", "conv2.weight", "bn2.weight", "bn2.bias"):
        assert moved(model, before, name) == 0.0, name
    model, _ = fitted(recipe=Recipe(epochs=3, rate=0.01, batch=8, frozen_epochs=2))
    assert moved(model, before, "conv2.weight") > 0.0


def test_body_share_scales_the_first_step_of_everything_but_the_last_layer():
    """Adam's first step is as long as the rate, whatever the gradient."""
    before = state(tiny().model)
    recipe = Recipe(epochs=1, rate=0.01, batch=N, body_share=0.1, weight_decay=0.0)
    model, _ = fitted(recipe=recipe)
    assert moved(model, before, "fc.weight") == pytest.approx(0.01, rel=1e-3)
    assert moved(model, before, "conv2.weight") == pytest.approx(0.001, rel=1e-3)
    model, _ = fitted(recipe=Recipe(epochs=1, rate=0.01, batch=N, body_share=0.0))
    assert moved(model, before, "conv2.weight") == 0.0 < moved(model, before, "fc.weight")


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("killed_after", [5, 9])
def test_resumed_is_uninterrupted_bit_for_bit(monkeypatch, dropout, killed_after):
    """Four batches an epoch; killed in the second and in the third. With dropout, mirroring and
    Adam's moments."""
    monkeypatch.setattr(module, "SAVE_EVERY", -1.0)
    recipe, keep = Recipe(epochs=4, rate=0.01, batch=7, frozen_epochs=1), InMemoryKeep()
    whole, rows = fitted(TwoConvs(2, dropout), recipe)
    with pytest.raises(Cancelled):
        fitted(TwoConvs(2, dropout), recipe, keep=keep, check=stop_after(killed_after))
    assert keep.saved == killed_after // 4 and keep.state is not None
    torch.manual_seed(123)  # whatever happened in between
    torch.rand(7)
    resumed, again = fitted(TwoConvs(2, dropout), recipe, keep=keep)
    assert same(whole, resumed) and rows == again and keep.state is None


def watched(losses, recipe, **more):
    """A fit whose validation loss is said, not measured; every epoch's weights beside model and
    curve."""
    classifier, seen = tiny(), []

    def validate():
        assert not classifier.model.training
        seen.append(state(classifier.model))
        return losses[len(seen) - 1]

    rows = fit(
        classifier.model,
        some_batches(classifier, N, recipe.batch, seed=1),
        some_targets(N),
        recipe,
        "fc",
        validate=validate,
        **more,
    )
    return classifier.model, rows, seen


@pytest.mark.parametrize(
    ("losses", "patience", "epochs", "taken"),
    [
        ([0.5, 0.4, 0.6, 0.4, 0.3, 0.2], 2, 4, 1),  # as low again is not lower
        ([0.5, 0.4, 0.6, 0.3, 0.7, 0.8], 2, 6, 3),
        ([0.5, 0.6, 0.4, 0.4, 0.4, 0.4], 1, 2, 0),
        (
            [0.5, 0.4, 0.6, 0.7, 0.8, 0.9],
            6,
            6,
            1,
        ),  # as patient as the recipe is long: all epochs, the best weights
    ],
)
def test_it_stops_after_its_patience_with_the_best_weights(losses, patience, epochs, taken):
    steps = []
    recipe = Recipe(epochs=6, rate=0.01, batch=7, patience=patience)
    model, rows, seen = watched(losses, recipe, step=lambda *pair: steps.append(pair))
    assert [row["val_loss"] for row in rows] == losses[:epochs] and len(seen) == epochs
    assert all(torch.equal(value, seen[taken][name]) for name, value in model.state_dict().items())
    assert not all(
        torch.equal(value, seen[taken - 1][name]) for name, value in model.state_dict().items()
    )
    assert not model.training and not any(one.requires_grad for one in model.parameters())
    assert steps[-1] == (24, 24) and steps[4 * epochs - 1] == (
        4 * epochs,
        24,
    ), "and no more is told to come"


def test_looking_at_validation_images_changes_no_update():
    recipe = Recipe(epochs=3, rate=0.01, batch=7, mirror=False)
    model, rows = fitted(recipe=recipe)
    looked, again, _ = watched([3.0, 2.0, 1.0], replace(recipe, patience=1))
    assert same(model, looked)
    assert [
        {name: value for name, value in row.items() if name != "val_loss"} for row in again
    ] == rows


@pytest.mark.parametrize("killed_after", [5, 9, 14])
def test_resumed_early_stopping_is_uninterrupted_bit_for_bit(monkeypatch, killed_after):
    """Killed after the best epoch (the first), and after a worse one; the best weights were kept
    with the state."""
    monkeypatch.setattr(module, "SAVE_EVERY", -1.0)
    recipe, keep, losses = (
        Recipe(epochs=6, rate=0.01, batch=7, patience=3),
        InMemoryKeep(),
        [0.3, 0.5, 0.4, 0.6],
    )
    whole, rows, _ = watched(losses, recipe)
    with pytest.raises(Cancelled):
        watched(losses, recipe, keep=keep, check=stop_after(killed_after))
    resumed, again, _ = watched(losses[killed_after // 4 :], recipe, keep=keep)
    assert same(whole, resumed) and rows == again and len(rows) == 4 and keep.state is None


def test_a_validation_loss_that_is_no_number_ends_with_a_reason():
    with pytest.raises(PruneAuditError, match=r"loss on validation images became nan in epoch 2"):
        watched([0.5, float("nan")], Recipe(epochs=3, rate=0.01, batch=7, patience=1))


def test_dropout_does_something():
    """So that the test above says something."""
    assert not same(fitted(TwoConvs(2, 0.5))[0], fitted(TwoConvs(2, 0.0))[0])


def test_cancel_is_asked_for_before_every_batch():
    asked = []
    fitted(check=lambda: asked.append(1))
    assert len(asked) == 3 * 4
    steps = []
    with pytest.raises(Cancelled):
        fitted(check=stop_after(6), step=lambda done, total: steps.append(done))
    assert steps[-1] == 6


def test_a_loss_that_is_no_number_names_the_epoch_and_keeps_what_was_kept(monkeypatch):
    monkeypatch.setattr(module, "SAVE_EVERY", -1.0)
    keep, held = InMemoryKeep(), some_targets(N)

    def poison(done, total):
        if done == 8:  # the end of the second epoch
            held.weights[:] = float("nan")

    with pytest.raises(PruneAuditError, match=r"nan in epoch 3, at learning rate 0\.01"):
        fitted(targets=held, keep=keep, step=poison)
    assert len(keep.state["rows"]) == 2
    assert all(bool(torch.isfinite(one).all()) for one in keep.state["model"].values())


def test_probabilities_do_not_depend_on_the_batch_and_ask_to_stop():
    classifier = tiny()
    pixels = some_pixels(11, 8)
    ask = lambda batch, check=lambda: None: probabilities(  # noqa: E731
        classifier.model,
        np.arange(11),
        lambda part: pixels[part],
        classifier.prepared,
        batch,
        check,
    )
    assert torch.allclose(ask(3), ask(11), atol=1e-6) and torch.allclose(ask(1), ask(11), atol=1e-6)
    with pytest.raises(Cancelled):
        ask(3, stop_after(2))
