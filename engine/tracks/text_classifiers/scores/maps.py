"""Scores of attention maps: attention and its conductance of every text, and one number per map."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.core.errors import Fault
from engine.core.types import Setting, Values
from engine.tracks.text_classifiers.scores.base import (
    AT_ONCE,
    HeadImportance,
    ImportanceOfTexts,
    Texts,
    nan_where_cut,
    per_text,
)

if TYPE_CHECKING:
    from torch import Tensor

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
PLACE = Setting(
    "place",
    "integer",
    1,
    "The class whose logit is attributed, counted from 0.",
    0,
    label="class",
)


class MapScore(HeadImportance):
    """A score whose number per text comes from a head's attention map and its conductance."""

    not_in_key = ("at_once",)

    @abstractmethod
    def of_maps(
        self, attention: Tensor, attribution: Tensor, valid: Tensor, asked: Values
    ) -> Tensor:
        """One number per map, [texts, heads], NaN where a map says nothing.

        attention, attribution [texts, heads, tokens, tokens]; valid bool [texts, tokens]: no
        padding.
        """

    def classes(self, texts: Texts) -> np.ndarray | None:
        """Whose logit is attributed, a class per text [texts]; None: the one that is predicted."""
        return texts.labels if texts.asked["target"] == "gold" else None

    def scored(self, texts: Texts) -> ImportanceOfTexts:
        """per_text is `of_maps` of attention and conductance; fewer texts at once where memory is
        short."""
        import torch

        from engine.models import runtime
        from engine.tracks.text_classifiers.conductance import conductance

        clf, asked, classes = texts.clf, texts.asked, self.classes(texts)
        delta = np.empty(len(texts.first))

        def of_batch(rows: np.ndarray, batch: dict[str, Any], room: int) -> list[np.ndarray]:
            wanted = None if classes is None else torch.as_tensor(classes[rows], device=clf.device)
            how = {"steps": asked["steps"], "labels": wanted, "baseline": asked["baseline"]}
            found = runtime.with_backoff(
                lambda size: conductance(clf, batch, **how, at_once=size, check=texts.check), room
            )
            delta[rows] = found.delta.cpu().numpy()
            valid = batch["attention_mask"].bool()
            return [
                self.of_maps(attention, attribution, valid, asked).cpu().numpy()
                for attention, attribution in zip(found.attention, found.attribution, strict=True)
            ]

        return nan_where_cut(clf, per_text(texts, of_batch), delta)


class AttentionConductance(MapScore):
    """Thesis, Eq. 6.4: I_{L,H} = E_x corr(Attr(A_{L,H}), A_{L,H}), over pairs of tokens that are no
    padding.

    A_{L,H}: the attention probabilities of head H in layer L, tokens x tokens; Attr: their
    conductance; corr: Spearman unless asked otherwise; E_x: the mean over texts. Lowest is cut
    first.
    """

    name = "conductance"
    settings = (STEPS, CORRELATION, TARGET, BASELINE, AT_ONCE)

    def of_maps(
        self, attention: Tensor, attribution: Tensor, valid: Tensor, asked: Values
    ) -> Tensor:
        """Correlation of attention and attribution per text and head; NaN for constant maps."""
        from engine.tracks.text_classifiers.conductance import correlations

        return correlations(attention, attribution, valid, asked["correlation"])


class AbsCorr(AttentionConductance):
    """E_x |corr(Attr(A), A)|: Eq. 6.4 of the thesis without the sign, so that texts of two classes
    cannot cancel."""

    name = "abs_corr"

    def of_maps(
        self, attention: Tensor, attribution: Tensor, valid: Tensor, asked: Values
    ) -> Tensor:
        """Size of that correlation per text and head; NaN for constant maps."""
        return super().of_maps(attention, attribution, valid, asked).abs()


class FixedClass(AttentionConductance):
    """Eq. 6.4 of the thesis with Attr for the logit of one class (`place`, from 0, in the model's
    order of outputs). Texts of two classes then cannot cancel by their target."""

    name = "fixed_class"
    settings = (STEPS, CORRELATION, PLACE, BASELINE, AT_ONCE)

    def class_faults(self, asked: Values, n_classes: int) -> list[Fault]:
        """A class that the task has not."""
        if asked["place"] < n_classes:
            return []
        what = f"class {asked['place']} is none of {n_classes}, counted from 0."
        return [Fault(f"{self.name}.place", what, f"Give 0 to {n_classes - 1}.")]

    def classes(self, texts: Texts) -> np.ndarray | None:
        """The same class for every text."""
        return np.full_like(texts.labels, texts.asked["place"])


class AttributionMass(MapScore):
    """E_x |Σ_ij Attr(A)_ij|, over pairs of tokens that are no padding: the size that Eq. 6.4's
    correlation leaves out.

    Attr is the conductance of the attention probabilities, as for `conductance`. Its sum is what
    moving this head's attention from the baseline's to the text's does to the logit.
    """

    name = "attribution_mass"
    settings = (STEPS, TARGET, BASELINE, AT_ONCE)

    def of_maps(
        self, attention: Tensor, attribution: Tensor, valid: Tensor, asked: Values
    ) -> Tensor:
        """|Σ| of each attribution map, in logits."""
        pairs = valid[:, None, :, None] & valid[:, None, None, :]
        return attribution.double().masked_fill(~pairs, 0.0).sum((2, 3)).abs()


# Captum's other layer attributions as scores: how much of the prediction passes through what a
# head hands on.


class CaptumLayer(HeadImportance):
    """E_x |Σ attribution| of a head's output, over tokens and width, by one of Captum's layer
    attributions."""

    not_in_key = ("at_once",)

    def __init__(self, name: str, *settings: Setting) -> None:
        self.name, self.settings = name, (*settings, AT_ONCE)

    def scored(self, texts: Texts) -> ImportanceOfTexts:
        """per_text in logits."""
        import torch

        from engine.tracks.text_classifiers.captum_layers import head_outputs

        clf, asked = texts.clf, texts.asked

        def of_batch(rows: np.ndarray, batch: dict[str, Any], _: int) -> list[np.ndarray]:
            with torch.no_grad():
                target = clf.logits(batch).argmax(-1)
            if asked["target"] == "gold":
                target = torch.as_tensor(texts.labels[rows], dtype=torch.int64, device=clf.device)
            found = head_outputs(clf, batch, target, self.name, asked.get("baseline", "pad"))
            return [sums.abs().cpu().numpy() for sums in found]

        return nan_where_cut(clf, per_text(texts, of_batch))


ROWS = (
    CaptumLayer("layer_integrated_gradients", TARGET, BASELINE),
    CaptumLayer("gradient_x_activation", TARGET),
    CaptumLayer("deep_lift", TARGET, BASELINE),
)
