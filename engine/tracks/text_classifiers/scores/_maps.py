"""What scores of attention maps share: attention and its conductance of every text, and one number
per map of them."""

from __future__ import annotations

from abc import abstractmethod
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
    per_text,
)

if TYPE_CHECKING:
    from torch import Tensor

    from engine.models.load_text_classifier import TextClassifier
    from engine.tracks.text_classifiers.conductance import Conductance

STEPS = Setting("steps", "integer", 20, "Integration steps from the baseline to the text.", 1, 300)
CORRELATION = Setting(
    "correlation",
    "choice",
    "spearman",
    "Correlation of attention and attribution.",
    choices=("spearman", "kendall", "pearson"),
)
TARGET = Setting(
    "target",
    "choice",
    "predicted",
    "Attribution of the predicted class, or of the true one.",
    choices=("predicted", "gold"),
)
BASELINE = Setting(
    "baseline",
    "choice",
    "pad",
    "What stands for every word at the start of the path.",
    choices=("pad", "mask"),
)


class MapScore(HeadImportance):
    """A score whose number per text comes from a head's attention map and its conductance."""

    settings: tuple[Setting, ...] = (STEPS, TARGET, BASELINE, AT_ONCE)
    not_in_key = ("at_once",)

    @abstractmethod
    def of_maps(
        self, attention: Tensor, attribution: Tensor, valid: Tensor, asked: Mapping[str, Any]
    ) -> Tensor:
        """One number per map, [texts, heads], NaN where a map says nothing.

        attention, attribution [texts, heads, tokens, tokens]; valid bool [texts, tokens]: no
        padding.
        """

    def targets(self, labels: np.ndarray, asked: Mapping[str, Any]) -> tuple[str, np.ndarray]:
        """Whose logit is attributed: a target of `conductance.TARGETS`, and the classes [texts]
        that "gold" means."""
        return asked["target"], labels

    def importance(
        self,
        clf: TextClassifier,
        texts: Sequence[str],
        texts_b: Sequence[str] | None,
        labels: np.ndarray,
        settings: Mapping[str, Any],
        seed: int,
        check: Callable[[], None] = lambda: None,
        inside: Callable[[float], None] = lambda share: None,
    ) -> ImportanceOfTexts:
        """See `HeadImportance`: labels [texts] int; per_text is `of_maps` of attention and
        conductance."""
        asked = checked(self, settings, clf, texts, texts_b, labels)
        target, classes = self.targets(np.asarray(labels), asked)
        delta = np.empty(len(texts))

        def of_batch(rows: np.ndarray, batch: dict[str, Any], room: int) -> list[np.ndarray]:
            found = _conductance(clf, batch, target, classes[rows], asked, room, check)
            delta[rows] = found.delta.cpu().numpy()
            valid, maps = (
                batch["attention_mask"].bool(),
                zip(found.attention, found.attribution, strict=True),
            )
            return [self.of_maps(*pair, valid, asked).cpu().numpy() for pair in maps]

        return finished(
            clf, per_text(clf, texts, texts_b, asked["at_once"], of_batch, inside), delta
        )


def _conductance(
    clf: TextClassifier,
    batch: dict[str, Any],
    target: str,
    classes: np.ndarray,
    asked: Mapping[str, Any],
    room: int,
    check: Callable[[], None],
) -> Conductance:
    """Attention and conductance of texts encoded together; fewer at once where memory is short."""
    import torch

    from engine.models import runtime
    from engine.tracks.text_classifiers.conductance import conductance

    wanted = torch.as_tensor(classes, dtype=torch.int64, device=clf.device)
    return runtime.with_backoff(
        lambda size: conductance(
            clf,
            batch,
            steps=asked["steps"],
            target=target,
            labels=wanted,
            baseline=asked["baseline"],
            at_once=size,
            check=check,
        ),
        room,
    )
