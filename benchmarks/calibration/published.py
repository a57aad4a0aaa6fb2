"""The published perplexity against a reading of the published procedure written out here, which
shares no code."""

from __future__ import annotations

import sys

import numpy as np
import torch

from benchmarks.report import Measure
from benchmarks.scoring_bench import DATA
from engine.core.types import Window
from engine.data.texts.load import load_corpus
from engine.models.load_language_model import load_language_model
from engine.tracks.language_models.likelihoods import corpus_tokens, window_nll
from engine.tracks.language_models.perplexity import perplexity

FOLDER, TEXT = DATA / "stories260k", DATA / "tinystories" / "tinystories.txt"
TOKENS, QUICK = 60_000, 6_000


def measures(quick: bool) -> list[Measure]:
    if not (FOLDER.is_dir() and TEXT.is_file()):
        print(
            f"published: {FOLDER} and {TEXT} are not both here, its row is left out.",
            file=sys.stderr,
        )
        return []
    lm = load_language_model(str(FOLDER), device="cpu")
    tokens = corpus_tokens(lm, load_corpus(TEXT).text)[: QUICK if quick else TOKENS]
    window = Window(published=True)
    ours, plain = (
        perplexity(window_nll(lm, tokens, window), window),
        by_hand(lm.model, tokens, lm.n_positions),
    )
    apart = 100 * abs(ours / plain - 1)
    return [
        Measure("stories260k: published perplexity", ours, ""),
        Measure("stories260k: the same, read off the published procedure", plain, ""),
        Measure("stories260k: how far the two are apart", apart, "%", 0.5),
    ]


@torch.no_grad()
def by_hand(model: torch.nn.Module, tokens: list[int], n_positions: int) -> float:
    """exp of the mean of window losses: windows of a quarter of the positions begin at every 512th
    token; the labels are the tokens themselves but for those that the window before reached; the
    model's own loss is the mean over them.
    """
    ids, length, before, losses = torch.tensor([tokens]), n_positions // 2 // 2, 0, []
    for begin in range(0, ids.shape[1], 512):
        end = min(begin + length, ids.shape[1])
        part = ids[:, begin:end]
        labels = part.clone()
        labels[:, : -(end - before)] = -100
        losses.append(model(part, labels=labels).loss.item())
        before = end
        if end == ids.shape[1]:
            break
    return float(np.exp(np.nanmean(losses)))
