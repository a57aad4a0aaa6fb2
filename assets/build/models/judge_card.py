"""Measures the demo judge and writes its card. Every number in the card comes from here."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from assets.build.models.judge_data import Case
from assets.build.models.remarks import Labelled
from engine.models.judge import load_detoxify_checkpoint

BATCH = 128

HEAD = """# demo-judge

A tiny toxicity classifier (BERT, {layers} layers, {width} wide, {parameters:,} parameters) in Detoxify's
checkpoint format, for the embedded demo only. `engine.models.judge.load_detoxify_checkpoint` loads
it with the detoxify package, offline, after checking the SHA-256 pin in `judge.json`. Made by `python -m
assets.build.models.train_judge`; this card is written by that script.

Trained on {texts:,} texts: project-written sentences, 80 % of Davidson et al. 2017 (MIT; classes hate and
offensive are toxic), half of surge-ai's toxicity comments (MIT), repeated. None of the public texts is stored
here; the vocabulary in `model/` holds single words and pieces of words that occur in them, offensive ones
included. {steps:,} steps, {seconds} s, final training loss {loss:.3f} (class-weighted, nats).

## Limits

It knows a few thousand words and no context: use it for the demo, not for a verdict about a real model. **It
may react to words that name real groups**, because people in its training tweets are often insulted by such
words; the table of HateCheck shows how it treats each target. For real audits choose a larger judge by name
or folder, and read the prompt floor next to every number.

"""


def scores_of(folder: Path, texts: Sequence[str]) -> np.ndarray:
    """Toxicity of each text as Detoxify gives it, float64."""
    judge = load_detoxify_checkpoint(folder)
    order = np.argsort([len(text) for text in texts], kind="stable")
    found = np.empty(len(texts))
    for rows in np.array_split(order, max(1, len(texts) // BATCH)):
        found[rows] = np.reshape(judge.predict([texts[row] for row in rows])["toxicity"], -1)
    return found


def judge_card(
    folder: Path, held_out: dict[str, list[Labelled]], cases: list[Case], log: dict
) -> str:
    """Markdown with measured numbers; n beside each."""
    parts = {"texts": log["texts"], "parameters": log["parameters"], "seconds": log["seconds"]}
    recipe = log["recipe"]
    head = HEAD.format(
        layers=recipe["layers"],
        width=recipe["width"],
        steps=recipe["steps"],
        loss=log["curve"][-1]["loss"],
        **parts,
    )
    return head + _held_out_table(folder, held_out) + _hatecheck_table(folder, cases)


def _held_out_table(folder: Path, held_out: dict[str, list[Labelled]]) -> str:
    lines = [
        "## Held-out texts",
        "",
        "| source | n | toxic | ROC-AUC | accuracy at 0.5 | mean score benign | mean score toxic |",
        "|---|---|---|---|---|---|---|",
    ]
    public = {"davidson and surge together": [*held_out["davidson"], *held_out["surge"]]}
    for name, texts in {**held_out, **public}.items():
        labels = np.array([label for _, label in texts])
        began = time.monotonic()
        scores = scores_of(folder, [text for text, _ in texts])
        print(f"{name}: {len(texts) / (time.monotonic() - began):.0f} texts/s")
        cells = (
            roc_auc_score(labels, scores),
            np.mean((scores > 0.5) == labels),
            scores[labels == 0].mean(),
            scores[labels == 1].mean(),
        )
        row = " | ".join(f"{cell:.3f}" for cell in cells)
        lines.append(f"| {name} | {len(texts)} | {int(labels.sum())} | {row} |")
    return "\n".join(lines) + "\n\n"


def _hatecheck_table(folder: Path, cases: list[Case]) -> str:
    scores = scores_of(folder, [case.text for case in cases])
    hateful = np.array([case.hateful for case in cases])
    right = (scores > 0.5) == hateful
    targets = np.array([case.target or "no group named" for case in cases])
    lines = [
        "## HateCheck (never trained on), accuracy at 0.5 per target group",
        "",
        "| target | n | accuracy | on hateful cases (n) | on non-hateful cases (n) |",
        "|---|---|---|---|---|",
    ]
    for target in [*sorted(set(targets)), "all"]:
        rows = np.ones(len(cases), dtype=bool) if target == "all" else targets == target
        sides = " | ".join(_share(right, rows & side) for side in (hateful, ~hateful))
        lines.append(f"| {target} | {rows.sum()} | {right[rows].mean():.3f} | {sides} |")
    return "\n".join(lines) + "\n"


def _share(right: np.ndarray, rows: np.ndarray) -> str:
    return f"{right[rows].mean():.3f} ({rows.sum()})" if rows.any() else "none"
