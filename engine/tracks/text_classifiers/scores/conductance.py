"""Conductance: how well a head's attention agrees with its attribution, map by map."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.core.types import Setting
from engine.tracks.text_classifiers.scores.base import (
    AT_ONCE,
    HeadImportance,
    ImportanceOfTexts,
    checked,
    finished,
    in_batches,
    kept_units,
)

if TYPE_CHECKING:
    from engine.models.load_text_classifier import TextClassifier


class Conductance(HeadImportance):
    """Thesis, Eq. 6.4: I_{L,H} = E_x corr(Attr(A_{L,H}), A_{L,H}), over pairs of tokens that are no padding.

    A_{L,H}: the attention probabilities of head H in layer L, tokens x tokens; Attr: their conductance; corr: Spearman
    unless asked otherwise; E_x: the mean over texts. Lowest is cut first.
    """

    name = "conductance"
    settings = (
        Setting("steps", "integer", 20, "Integration steps from the baseline to the text.", 1, 300),
        Setting("correlation", "choice", "spearman", "Correlation of attention and attribution.",
                choices=("spearman", "kendall", "pearson")),
        Setting("target", "choice", "predicted", "Attribution of the predicted class, or of the true one.",
                choices=("predicted", "gold")),
        Setting("baseline", "choice", "pad", "What stands for every word at the start of the path.",
                choices=("pad", "mask")),
        AT_ONCE,
    )  # fmt: skip
    not_in_key = ("at_once",)

    def importance(
        self, clf: TextClassifier, texts: Sequence[str], texts_b: Sequence[str] | None, labels: np.ndarray,
        settings: Mapping[str, Any], seed: int, check: Callable[[], None] = lambda: None,
        inside: Callable[[float], None] = lambda share: None,
    ) -> ImportanceOfTexts:  # fmt: skip
        """See `HeadImportance`: labels [texts] int; per_text is the correlation of attention and conductance maps."""
        asked = checked(self, settings, clf, texts, texts_b, labels)
        per_text, delta = np.full((len(texts), clf.n_layers * clf.n_heads), np.nan), np.empty(len(texts))
        done = 0
        for rows, batch, room in in_batches(clf, texts, texts_b, asked["at_once"]):
            agreement, delta[rows] = _agreement(clf, batch, labels[rows], asked, room, check)
            for units, values in zip(kept_units(clf), agreement, strict=True):
                per_text[np.ix_(rows, units)] = values
            done += len(rows)
            inside(done / len(texts))
        return finished(clf, per_text, delta)


def _agreement(
    clf: TextClassifier, batch: dict[str, Any], labels: np.ndarray, asked: Mapping[str, Any], room: int,
    check: Callable[[], None],
) -> tuple[list[np.ndarray], np.ndarray]:  # fmt: skip
    """Correlations of texts encoded together, [rows, heads] per layer, NaN for constant maps; deltas [rows]."""
    import torch

    from engine.models import runtime
    from engine.tracks.text_classifiers.conductance import conductance
    from engine.tracks.text_classifiers.map_correlation import correlations

    gold = torch.as_tensor(labels, dtype=torch.int64, device=clf.device)
    found = runtime.with_backoff(
        lambda size: conductance(
            clf, batch, steps=asked["steps"], target=asked["target"], labels=gold, baseline=asked["baseline"],
            at_once=size, check=check,
        ),
        room,
    )  # fmt: skip
    valid = batch["attention_mask"].bool()
    pairs = zip(found.attention, found.attribution, strict=True)
    values = [correlations(maps, shares, valid, asked["correlation"]).cpu().numpy() for maps, shares in pairs]
    return values, found.delta.cpu().numpy()
