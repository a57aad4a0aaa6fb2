"""Train the embedded demo-resnet on the avatars: `python -m assets.build.models.train_resnet`. A minute on two cores."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch.nn import functional

from engine.data.images.load import ImageAsk, ImageSet, load_images
from engine.models.load_image_classifier import Classifier, fresh_classifier, save_classifier
from engine.training.fit import Batches
from engine.training.fit import fit, probabilities
from engine.training.losses import Targets
from engine.training.recipe import Recipe

ARCHITECTURE = "resnet10-w16"
SEED = 0
RECIPE = Recipe(epochs=24, rate=3e-3, batch=128)
from engine.core.files import ASSETS

FOLDER = ASSETS / "demo-resnet"
CARD = FOLDER / "CARD.md"
GAP = "## The planted gap"
"""Where the part of the card begins that is about `avatars-gap`, which `python -m engine evaluate` measures."""


def train(images: ImageSet, recipe: Recipe = RECIPE, seed: int = SEED) -> tuple[Classifier, list[dict[str, float]]]:
    """A classifier fitted to the training split, and its curve."""
    classifier = fresh_classifier(ARCHITECTURE, images.classes, images.size, seed=seed)
    rows = np.flatnonzero((images.table["split"] == "train").to_numpy())
    truth = torch.as_tensor(images.table["label"].to_numpy()[rows], device=classifier.device)
    hot = functional.one_hot(truth, len(images.classes)).float()
    batches = Batches(rows, images.read, classifier.prepared, recipe.batch, seed, recipe.mirror)
    last = classifier.architecture.classifier(classifier.model)
    curve = fit(classifier.model, batches, Targets(hot, torch.ones(len(truth), device=truth.device)), recipe, last)
    return replace(classifier, name="demo-resnet", notes=()), curve


def measured(classifier: Classifier, images: ImageSet) -> dict[str, float]:
    """AUC and accuracy of the test split, overall and per group."""
    rows = np.flatnonzero((images.table["split"] == "test").to_numpy())
    table = images.table.iloc[rows]
    answers = probabilities(classifier.model, rows, images.read, classifier.prepared).numpy()
    right = answers.argmax(axis=1) == table["label"].to_numpy()
    found = {"auc": roc_auc_score(table["label"], answers[:, 1]), "accuracy": right.mean()}
    for column in images.groups:
        for group, part in table.assign(score=answers[:, 1], right=right).groupby(column):
            found[f"auc: {column} {group} (n = {len(part)})"] = roc_auc_score(part["label"], part["score"])
            found[f"accuracy: {column} {group} (n = {len(part)})"] = part["right"].mean()
    return {name: round(float(value), 4) for name, value in found.items()}


def main() -> None:
    """Train, measure, write the folder with its card."""
    images = load_images("avatars", ImageAsk(groups=("male", "skin")))
    start = time.monotonic()
    classifier, curve = train(images)
    seconds = time.monotonic() - start
    found = measured(classifier, images)
    about = {"images": images.name, "digest": images.digest, "recipe": RECIPE.to_dict(), "seed": SEED}
    save_classifier(replace(classifier, target="blond"), FOLDER, about)
    _, _, gap = CARD.read_text(encoding="utf-8").partition(GAP)
    CARD.write_text(f"{card(classifier, images, found, curve, seconds)}\n{GAP}{gap}", encoding="utf-8")
    print(json.dumps(found, indent=1))


def card(
    classifier: Classifier, images: ImageSet, found: dict[str, float], curve: list[dict[str, float]], seconds: float
) -> str:
    """What the model is, what it learned and what it is not for."""
    rows = "\n".join(f"| {name} | {value} |" for name, value in found.items())
    return f"""# demo-resnet

A small image classifier ({classifier.n_parameters:,} parameters, {classifier.arch}, {classifier.size} x \
{classifier.size} pixels) that tells blond from other hair on avatars which `engine/data/images/embedded.py` draws.
Made for the embedded demo only: it has never seen a photograph, and nothing it does says anything about people.

Trained by `python -m assets.build.models.train_resnet`: {RECIPE.epochs} epochs of AdamW, rate {RECIPE.rate:g} with cosine
annealing, batches of {RECIPE.batch}, seed {SEED}, mirrored images; last loss {curve[-1]["loss"]:.3f} nats; \
{seconds:.0f} seconds. Few blond men are among the training images (0.85 %), as in CelebA.

| on test images | |
|---|---|
{rows}
"""


if __name__ == "__main__":
    main()
