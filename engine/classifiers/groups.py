"""A classifier group by group: AUC, accuracy, TPR, FPR, gaps and changes against the dense model,
over trials.

Intervals count the images (redrawn within each group, the same draws for the dense model and all
variants) and, where there are several trials, the trials (`engine.stats.gap_of_means`). The value
of an arm is the mean over its trials of what each trial measured. A gap is that between the groups'
means over trials, not the mean of the trials' own gaps, which noise makes larger
(`engine.stats.gap_of_means`). The worst and the best group are the dense model's; they are picked
and measured on the same images, so their changes lean a little towards the middle.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from engine.classifiers.layout import IMAGES, Axis, Items, lay_out
from engine.core.errors import PruneAuditError
from engine.core.types import Values
from engine.stats.auc import BLOCK, auc, one_vs_one, one_vs_rest
from engine.stats.clustered import MISSED, TAILS
from engine.stats.gap_of_means import (
    FIXED,
    Estimate,
    Trials,
    Z,
    at_ends,
    difference,
    gaps_of_means,
    level,
    numbered,
    sides_of,
    unknown,
)
from engine.stats.resampling import Difference, verdict_of

# What a classifier's answers are worth on a set of images, under many sets of image weights at
# once.
#
# AUC, accuracy, true and false positive rate. Two classes: of class 1, predicted where p_1 > 0.5.
# More: the predicted class is the likeliest one, AUC is one-vs-one or one-vs-rest, and the rates
# are the mean over the classes there are.


METRICS = ("auc", "accuracy", "tpr", "fpr")
OVO, OVR = "ovo", "ovr"
MULTI_CLASS = {OVO: one_vs_one, OVR: one_vs_rest}
"""AUC of more than two classes, by scikit-learn's name: each pair of classes, or each class against
all others."""
SMALLEST = 1e-12
"""Probability below which the cross-entropy of an image stops growing."""


def checked(probabilities: np.ndarray, n: int, k: int, where: str) -> np.ndarray:
    """The answers as [n, k] float64. Raises PruneAuditError for another shape, and says how many
    are missing."""
    answers = np.asarray(probabilities, dtype=float)
    if answers.shape != (n, k):
        raise PruneAuditError(
            f"{where}: answers of shape {answers.shape}; {n} images of {k} classes need {(n, k)}."
        )
    if bad := int((~np.isfinite(answers)).any(axis=1).sum()):
        raise PruneAuditError(
            f"{where}: the probabilities of {bad} of {n} images are missing or not finite."
        )
    return answers


def predicted(probabilities: np.ndarray) -> np.ndarray:
    """Predicted class per image, [images] int, of probabilities [images, classes].

    The likeliest class, the first of equals; with two classes, 1 where p_1 > 0.5.
    """
    return (
        (probabilities[:, 1] > 0.5).astype(int)
        if probabilities.shape[1] == 2
        else probabilities.argmax(axis=1)
    )


def degenerate(probabilities: np.ndarray) -> bool:
    """True when the same class is predicted for every image of probabilities [images, classes]."""
    return len(np.unique(predicted(probabilities))) < 2


def cross_entropy(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """-log of each image's probability of its true class, in nats, [images]; below SMALLEST counts
    as SMALLEST.

    probabilities [images, classes], labels [images] int.
    """
    return -np.log(np.maximum(probabilities[np.arange(len(labels)), labels], SMALLEST))


def mean_of(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted mean of values [images] for weights [images, sets]: [sets] float64."""
    width = max(1, BLOCK // len(values))
    blocks = [weights[:, start : start + width] for start in range(0, weights.shape[1], width)]
    return np.concatenate([values @ block.astype(float) for block in blocks]) / weights.sum(
        axis=0, dtype=float
    )


def of_images(
    probabilities: np.ndarray, labels: np.ndarray, weights: np.ndarray, multi_class: str = OVO
) -> np.ndarray:
    """METRICS of a set of images, [sets, 4], for weights [images, sets]. NaN where a metric is
    undefined.

    probabilities [images, classes], labels [images] int; multi_class: the AUC of more than two
    classes.
    """
    if probabilities.shape[1] > 2:
        area = MULTI_CLASS[multi_class](probabilities, labels, weights)
        counts = confusion(labels, predicted(probabilities), probabilities.shape[1], weights)
        tpr, fpr = (_mean_known(rates) for rates in _rates(counts))
    else:
        area = auc(probabilities[:, 1], labels == 1, weights)
        counts = confusion(labels, predicted(probabilities), 2, weights)
        tpr, fpr = (rates[1] for rates in _rates(counts))
    return np.stack([area, _ratio(np.trace(counts), counts.sum(axis=(0, 1))), tpr, fpr], axis=-1)


def of_classes(
    probabilities: np.ndarray, labels: np.ndarray, weights: np.ndarray, classes: np.ndarray
) -> np.ndarray:
    """METRICS of each of `classes` [n] int against the rest of a set of images, [sets, n, 4].

    probabilities [images, k], labels [images] int, weights [images, sets]. Accuracy is that of the
    class's own images, so it equals the true positive rate (recall).
    """
    areas = np.stack(
        [auc(probabilities[:, cls], labels == cls, weights) for cls in classes], axis=-1
    )
    tpr, fpr = _rates(confusion(labels, predicted(probabilities), probabilities.shape[1], weights))
    return np.stack([areas, tpr[classes].T, tpr[classes].T, fpr[classes].T], axis=-1)


def confusion(labels: np.ndarray, guesses: np.ndarray, k: int, weights: np.ndarray) -> np.ndarray:
    """Weight of each true class (first) and predicted class (second), [k, k, sets] float64.

    labels and guesses [images] int, weights [images, sets].
    """
    cell = labels * k + guesses
    order = np.argsort(cell, kind="stable")
    present, starts = np.unique(cell[order], return_index=True)
    counts = np.zeros((k * k, weights.shape[1]))
    for code, part in zip(present, np.split(order, starts[1:]), strict=True):
        # The dtype to add weights [images, sets] in: whole numbers are added as such, several
        # times faster.
        counts[code] = weights[part].sum(
            axis=0, dtype=np.uint32 if weights.dtype == np.uint8 else np.float64
        )
    return counts.reshape(k, k, -1)


def _rates(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """True and false positive rate of each class, [k, sets] each, from a confusion matrix [k, k,
    sets].

    Both are NaN for a class that is not there.
    """
    own = np.einsum("ccs->cs", counts)
    actual, said = counts.sum(axis=1), counts.sum(axis=0)
    there = actual > 0
    rest = actual.sum(axis=0) - actual
    return _ratio(own, actual), np.where(
        there | (len(counts) == 2), _ratio(said - own, rest), np.nan
    )


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """part / whole, of shapes that broadcast to [..., sets]; NaN where the whole is not above
    zero."""
    return np.divide(
        part, whole, out=np.full(np.broadcast(part, whole).shape, np.nan), where=whole > 0
    )


def _mean_known(rates: np.ndarray) -> np.ndarray:
    """Mean of rates [k, sets] over the known classes, [sets]."""
    known = np.isfinite(rates)
    return _ratio(np.where(known, rates, 0.0).sum(axis=0), known.sum(axis=0))


# Gaps between the groups of a classifier's images, their null band, and what happened at the two
# ends.
#
# A gap is the highest minus the lowest value among the groups that may be compared, so it is
# above zero even when all groups are equal. The band holds the gaps that come from exchanging
# group labels between images of the same class.


GAPS = tuple(f"{metric}_gap" for metric in METRICS)


@dataclass(frozen=True)
class Band:
    """Gaps under exchanged labels: mean, 2.5 % and 97.5 % points, and the share at least as large
    as the measured."""

    mean: float
    low: float
    high: float
    p: float


def gaps(groups: np.ndarray) -> np.ndarray:
    """Highest minus lowest over the groups: [sets, groups, metrics] -> [sets, metrics]. NaN below
    two groups."""
    if groups.shape[1] < 2:
        return np.full((len(groups), groups.shape[2]), np.nan)
    return groups.max(axis=1) - groups.min(axis=1)


class Exchange:
    """The exchanged labels of one axis, drawn once and used for the dense model and all variants.

    rows [images in groups] int, codes [images in groups, n_permutations] int16, as from
    `Axis.exchanges`; labels: true classes [images] int. There are none for groups that are classes:
    an image of one class cannot stand for another. There are none for groups that hold whole
    classes each, and for fewer than two groups that may be compared. multi_class: as in
    `of_images`.
    """

    def __init__(
        self, axis: Axis, labels: np.ndarray, n_permutations: int, seed: int, multi_class: str = OVO
    ) -> None:
        self.n_permutations, self.multi_class = n_permutations, multi_class
        self.n_counted = len(axis.counts)
        self.n_groups = 0 if axis.by_class or self.n_counted < 2 else self.n_counted
        if self.n_groups:
            self.rows, self.codes = axis.exchanges(labels, n_permutations, seed)
            self.labels = labels[self.rows]
            if all(
                len(np.unique(self.codes[self.labels == label, 0])) < 2
                for label in np.unique(self.labels)
            ):
                self.n_groups = 0

    def draws(self, probabilities: np.ndarray) -> np.ndarray:
        """What is measured of every group under each exchange, [n_permutations, groups, 4], of
        probabilities [images, classes]; NaN without exchanges."""
        if not self.n_groups:
            return np.full((self.n_permutations, self.n_counted, len(METRICS)), np.nan)
        answers = probabilities[self.rows]
        groups = [
            of_images(answers, self.labels, (self.codes == group).view(np.uint8), self.multi_class)
            for group in range(self.n_groups)
        ]
        return np.stack(groups, axis=1)


def band(value: float, draws: np.ndarray) -> Band:
    """Null band of a measured gap from its draws [n_permutations]; NaN where there are none."""
    if not np.isfinite(value) or not np.isfinite(draws).all():
        return NO_BAND
    low, high = np.quantile(draws, TAILS)
    p = (1 + (draws >= value - 1e-12).sum()) / (1 + len(draws))
    return Band(float(draws.mean()), float(low), float(high), float(p))


def words_of(worst: Values, best: Values) -> str:
    """Words of engine.stats.resampling for the changes of the two ends, rows of a table; here a
    higher value is better."""
    turned = (
        Difference(-row["delta"], -row["delta_high"], -row["delta_low"], row["delta_p"], row["n"])
        for row in (worst, best)
    )
    return verdict_of(*turned)


RESULTS = (
    "variant",
    "split",
    "axis",
    "metric",
    "value",
    "low",
    "high",
    "n",
    "null_mean",
    "null_low",
    "null_high",
    "null_p",
    "delta",
    "delta_low",
    "delta_high",
    "delta_p",
    "group",
    "verdict",
)
GROUPS = (
    "variant",
    "split",
    "axis",
    "metric",
    "group",
    "value",
    "low",
    "high",
    "n",
    "n_positive",
    "delta",
    "delta_low",
    "delta_high",
    "verdict",
)
NO_BAND = Band(np.nan, np.nan, np.nan, np.nan)


@dataclass(frozen=True, eq=False)
class Measured:
    """Rows of the tables `results` and `groups` of one variant, columns RESULTS and GROUPS."""

    results: pd.DataFrame
    groups: pd.DataFrame


def in_order(
    rows: pd.DataFrame, classes: Sequence[str], key: str, many: str
) -> tuple[np.ndarray, np.ndarray]:
    """Places of the rows by their `key`, and labels in that order, [rows] int each; many: what rows
    are called. The draws belong to items, so they are made in an order that does not depend on the
    table's. PruneAuditError for labels that are no class."""
    order = np.argsort(rows[key].to_numpy(dtype=object), kind="stable")
    labels = rows["label"].to_numpy(dtype=np.int64)[order]
    if len(rows) == 0 or labels.min() < 0 or labels.max() >= len(classes):
        raise PruneAuditError(
            f"{len(rows)} {many} whose labels do not all belong to {len(classes)} classes."
        )
    return order, labels


def each_checked(
    trials: Mapping[int, np.ndarray] | Sequence[np.ndarray], n: int, k: int
) -> dict[int, np.ndarray]:
    """Answers [n, k] float64 of every trial by number, in order from 0 where they have none.
    PruneAuditError where there is no trial, and as of `checked`."""
    found = numbered(trials)
    if not found:
        raise PruneAuditError("A variant without trials cannot be measured.")
    return {
        number: checked(part, n, k, "dense" if number == FIXED else f"trial {number}")
        for number, part in found.items()
    }


def own_dense(trials: Trials, dense: Trials) -> Trials:
    """What trials are compared with: one that was cut from its own dense model with that one."""
    return dense.only(*trials.numbers) if {*trials.numbers} <= {*dense.numbers} else dense


class Further(ABC):
    """Cells that a track measures besides those of every classifier, on the same redrawn items."""

    @abstractmethod
    def cells(self, axes: Sequence[Axis], labels: np.ndarray) -> list[tuple]:
        """The cells in the columns of `cells_of`; labels [items] int."""

    @abstractmethod
    def values(
        self,
        axes: Sequence[Axis],
        labels: np.ndarray,
        answers: np.ndarray,
        weights: Sequence[Sequence[np.ndarray]],
    ) -> list[np.ndarray]:
        """Every cell, [sets] each, of answers [items, classes].

        weights: per axis and stratum, [items of the stratum, sets].
        """


class GroupMeasure:
    """Measures the dense model and its variants on one set of images.

    images: one row per item (`items`: images, or texts) with its key (unique), label (int, 0 ..
    k-1) and the str columns of the axes; axes: those columns, "class", or parts joined by "+".
    dense: answers [items, classes] of one fixed model, or of trials when it was trained several
    times. multi_class: as in `of_images`. further: measured besides. `notes` are sentences for the
    screen. Raises RequestError for unknown axes and PruneAuditError for answers that are missing or
    of another shape.
    """

    def __init__(
        self,
        images: pd.DataFrame,
        classes: Sequence[str],
        axes: Sequence[str],
        dense: np.ndarray | Mapping[int, np.ndarray] | Sequence[np.ndarray],
        n_boot: int = 400,
        seed: int = 0,
        n_permutations: int = 200,
        split: str = "test",
        items: Items = IMAGES,
        multi_class: str = OVO,
        further: Sequence[Further] = (),
    ) -> None:
        self._order, self._labels = in_order(images, classes, items.key, items.many)
        self.split, self.classes, self.multi_class = split, tuple(classes), multi_class
        self.further = further
        self.axes, self.notes = lay_out(
            images.iloc[self._order].reset_index(drop=True), classes, axes, items
        )
        self._weights = [axis.weights(n_boot, seed) for axis in self.axes]
        self.exchanges = [
            Exchange(axis, self._labels, n_permutations, seed, multi_class)
            for axis in self.axes[1:]
        ]
        more = [cell for one in further for cell in one.cells(self.axes, self._labels)]
        self.cells = cells_of(self.axes, items, more)
        self.n_further = len(more)
        judged = (self.cells["group"] != "") & (self.cells["verdict"] == "")
        kinds = self.cells.groupby(["axis", "metric"]).ngroup()
        self._alike = kinds.where(judged, -1).to_numpy()
        self.dense_arm = self.variant({FIXED: dense} if isinstance(dense, np.ndarray) else dense)
        self.ends = ends_of(self.axes, self.dense_arm.trials.values.mean(axis=0))

    def __len__(self) -> int:
        """How many items are measured."""
        return len(self._labels)

    def dense(self) -> Measured:
        """The dense model's rows; its changes are NaN."""
        return self.dense_arm.pooled("dense")

    def variant(self, trials: Mapping[int, np.ndarray] | Sequence[np.ndarray]) -> Arm:
        """Measure the trials of one variant: answers [images, classes] by trial number, or in order
        from 0."""
        answers = each_checked(trials, len(self._labels), len(self.classes))
        parts = [self._trial(part) for part in answers.values()]
        values, draws, nulls = (np.stack(part) for part in zip(*parts, strict=True))
        flat = tuple(number for number, part in answers.items() if degenerate(part))
        right = np.stack(
            [part[self._order].argmax(axis=1) == self._labels for part in answers.values()]
        )
        shares, units, most = (self.cells[name].to_numpy() for name in ("share", "units", "most"))
        ranks = self.cells["metric"].str.contains("auc").to_numpy()
        level = values.mean(axis=0)
        of_groups = self._alike, (level * (1 - level)) ** 2
        found = Trials(tuple(answers), values, draws, shares, units, most, ranks, *of_groups)
        return Arm(self, found, nulls, flat, right)

    def level(self, trials: Trials) -> Estimate:
        """Means over trials with their intervals; gaps are those between the groups' means."""
        found, sides = level(trials), sides_of(trials)
        reach = np.maximum(found.value - found.low, found.high - found.value) / Z
        least = np.where(trials.draws.mean(axis=0).std(axis=0) == 0, reach, 0.0)
        for ends in self.ends:
            at, of = [*ends.gaps], ends.groups
            parts = trials.values[:, of], trials.draws[..., of]
            gap = gaps_of_means(*parts, 1.0, sides[:, of], least[of])
            found.value[at], found.low[at], found.high[at] = gap
        return found

    def difference(self, one: Trials, other: Trials) -> Estimate:
        """`one` minus `other`, of gaps between the groups' means too."""
        return difference(self._between_ends(one), self._between_ends(other))

    def _between_ends(self, trials: Trials) -> Trials:
        """The trials with every gap taken between the groups at the ends of the means, as the
        difference of two shares that it is."""
        values, draws = trials.values.copy(), trials.draws.copy()
        shares, units = trials.shares.copy(), trials.units.copy()
        for ends in self.ends:
            at, of = [*ends.gaps], ends.groups
            shares[at] = True
            values[:, at], draws[..., at], units[at] = at_ends(
                values[:, of], draws[..., of], units[of]
            )
        return replace(trials, values=values, draws=draws, shares=shares, units=units)

    def members(self) -> dict[tuple[str, str], np.ndarray]:
        """Row positions [members], in the table as given, of every group that may be compared, by
        (axis, group)."""
        found = {}
        for axis in self.axes[1:]:
            strata = list(axis.strata.values())
            for group in axis.groups.iloc[axis.counts].itertuples():
                rows = strata[group.stratum]
                found[axis.name, str(group.group)] = self._order[
                    rows if group.cls < 0 else rows[self._labels[rows] == group.cls]
                ]
        return found

    def _trial(self, answers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Measures of answers [images, classes], in the order of the table as given.

        Values [cells], the same on redrawn images [n_boot, cells], and what is measured of groups
        under exchanged labels [n_permutations, 4 per group that may be compared].
        """
        answers = answers[self._order]
        ones = [[np.ones((len(weights), 1)) for weights in parts] for parts in self._weights]
        nulls = [
            exchange.draws(answers).reshape(exchange.n_permutations, -1)
            for exchange in self.exchanges
        ]
        none = np.empty((self.exchanges[0].n_permutations if self.exchanges else 0, 0))
        return (
            self._on(answers, ones)[0],
            self._on(answers, self._weights),
            np.concatenate([none, *nulls], axis=1),
        )

    def _on(self, answers: np.ndarray, weights: list[list[np.ndarray]]) -> np.ndarray:
        """All cells, [sets, cells], of answers [images, classes] in the order of the labels.

        weights: per axis and stratum, [images of the stratum, sets].
        """
        whole = weights[0][0]
        loss = mean_of(cross_entropy(answers, self._labels), whole)
        columns = [of_images(answers, self._labels, whole, self.multi_class)[:, :2], loss[:, None]]
        for axis, parts in zip(self.axes[1:], weights[1:], strict=True):
            groups = of_axis(axis, answers, self._labels, parts, self.multi_class)
            columns += [groups.reshape(len(groups), -1), gaps(groups[:, axis.counts])]
        for one in self.further:
            found = one.values(self.axes, self._labels, answers, weights)
            columns += [cell[:, None] for cell in found]
        return np.concatenate(columns, axis=1)


MATTHEWS = "matthews"
"""A correlation: its cell holds (1 + r) / 2, so that its intervals stay inside [-1, 1]."""
_LEVELS, _CHANGES = ["value", "low", "high"], ["delta", "delta_low", "delta_high"]


@dataclass(frozen=True, eq=False)
class Arm:
    """One variant's trials, measured.

    nulls: METRICS of groups under exchanged labels, [trials, n_permutations, 4 per group that may
    be compared]. degenerate: numbers of the trials whose model predicts one class only. right:
    whether each item's class was predicted, [trials, items] bool. seeds: of how many seeds the
    trials are, draw by draw, where there are fewer.
    """

    measure: GroupMeasure
    trials: Trials
    nulls: np.ndarray
    degenerate: tuple[int, ...]
    right: np.ndarray
    seeds: int | None = None

    @property
    def by_seed(self) -> Trials:
        """The draws of one seed as one trial, their mean. They share its batches, and what other
        training they rest on: they are no seeds of their own."""
        trials, seeds = self.trials, self.seeds or len(self.trials.numbers)
        if len(trials.numbers) == seeds:
            return trials
        values, draws = (
            part.reshape(-1, seeds, *part.shape[1:]).mean(axis=0)
            for part in (trials.values, trials.draws)
        )
        return replace(trials, numbers=tuple(range(seeds)), values=values, draws=draws)

    def pooled(self, variant: str) -> Measured:
        """The rows of the mean over all trials."""
        return self._rows(variant, self.by_seed, self.nulls)

    def trial(self, number: int, variant: str) -> Measured:
        """The rows of one trial, by its number; the intervals are about the images only."""
        return self._rows(
            variant, self.trials.only(number), self.nulls[[self.trials.numbers.index(number)]]
        )

    def without_degenerate(self, variant: str) -> Measured | None:
        """The rows of the mean over trials whose model predicts more than one class; None where
        that leaves out none, or all."""
        kept = [number for number in self.trials.numbers if number not in self.degenerate]
        if not self.degenerate or not kept:
            return None
        places = [self.trials.numbers.index(number) for number in kept]
        return self._rows(variant, self.trials.only(*kept), self.nulls[places])

    def _rows(self, variant: str, trials: Trials, nulls: np.ndarray) -> Measured:
        """The two tables for some of the trials.

        nulls: as of the arm, [trials, n_permutations, 4 per group that may be compared].
        """
        cells, dense = self.measure.cells, self.measure.dense_arm.trials
        shown, change = self.measure.level(trials), unknown(len(cells))
        if self is not self.measure.dense_arm:
            change = self.measure.difference(trials, own_dense(trials, dense))
        found = {**shown.columns(), **change.columns("delta")}
        table = cells.assign(variant=variant, split=self.measure.split, **found)
        table.loc[cells["metric"] == MATTHEWS, _LEVELS + _CHANGES] *= 2
        table.loc[cells["metric"] == MATTHEWS, _LEVELS] -= 1
        groups = table.loc[table["group"] != "", list(GROUPS)].reset_index(drop=True)
        return Measured(self._results(table.to_dict("records"), nulls.mean(axis=0)), groups)

    def _results(self, rows: list[Values], nulls: np.ndarray) -> pd.DataFrame:
        """Rows of `results`, columns RESULTS: the whole, then per axis the gaps and the dense
        model's two ends.

        rows: one dict per cell; nulls: means over trials, [n_permutations, 4 per group that may be
        compared].
        """
        found = [{**rows[cell], **_band_columns(NO_BAND)} for cell in range(len(OVERALL))]
        start = 0
        for ends in self.measure.ends:
            stop = start + ends.groups.size
            drawn = gaps(nulls[:, start:stop].reshape(len(nulls), *ends.groups.shape))
            start = stop
            for cell, draws in zip(ends.gaps, drawn.T, strict=True):
                found.append(with_band(rows[cell], band(rows[cell]["value"], draws)))
            if ends.named and self is not self.measure.dense_arm:
                both = (rows[ends.named[end]] for end in ("worst_auc", "best_auc"))
                found[-len(GAPS)]["verdict"] = words_of(*both)
            for end, cell in ends.named.items():
                found.append({**rows[cell], **_band_columns(NO_BAND), "metric": end})
        more = rows[len(rows) - self.measure.n_further :]
        found += [{**row, **_band_columns(NO_BAND)} for row in more if row["group"] == ""]
        return pd.DataFrame(found, columns=list(RESULTS))


def of_axis(
    axis: Axis, answers: np.ndarray, labels: np.ndarray, weights: list[np.ndarray], multi_class: str
) -> np.ndarray:
    """METRICS of every group of an axis, [sets, groups, 4].

    answers [images, classes], labels [images] int, weights [images of the stratum, sets] per
    stratum; multi_class: as in `of_images`.
    """
    found = []
    for place, (rows, part) in enumerate(zip(axis.strata.values(), weights, strict=True)):
        classes = axis.groups.loc[axis.groups["stratum"] == place, "cls"].to_numpy()
        if axis.by_class:
            found.append(of_classes(answers[rows], labels[rows], part, classes))
        else:
            found.append(of_images(answers[rows], labels[rows], part, multi_class)[:, None])
    return np.concatenate(found, axis=1)


def with_band(row: Values, chance: Band) -> dict[str, Any]:
    """The row of a gap with its null band. Groups of very unequal size are apart by their noise: a
    gap that exchanged labels explain may be none."""
    least = {"low": 0.0} if chance.p > MISSED and row["low"] > 0 else {}
    return {**row, **least, **_band_columns(chance)}


def _band_columns(found: Band) -> dict[str, float]:
    return {f"null_{name}": value for name, value in vars(found).items()}


def arm_difference(one: Arm, other: Arm) -> pd.DataFrame:
    """One arm minus another at the same speedup, e.g. with the PW loss minus without: one row per
    measured quantity.

    Columns axis, metric (those of `groups`, and GAPS and OVERALL), group, value, low, high, p, n
    (images), verdict (that of the group) and paired. Trials are paired by number when both arms
    hold the same numbers, else taken as independent; an arm of one trial adds nothing for trials.
    Raises PruneAuditError when the arms were not measured on the same images.
    """
    cells = one.measure.cells
    if one.measure is not other.measure:
        raise PruneAuditError(
            "The two variants were not measured in the same way, so they cannot be compared."
        )
    found = one.measure.difference(one.trials, other.trials)
    return cells[["axis", "metric", "group"]].assign(
        **found.columns(),
        n=cells["n"],
        verdict=cells["verdict"],
        paired=one.trials.numbers == other.trials.numbers,
    )


def group_warnings(groups: pd.DataFrame) -> list[str]:
    """Groups that get no verdict, by axis; groups: the table `groups`."""
    dense = groups[
        (groups["variant"] == "dense") & (groups["metric"] == "auc") & (groups["verdict"] != "")
    ]
    named = dense.assign(
        said=[f"{row.group} ({row.verdict}, n = {row.n:.0f})" for row in dense.itertuples()]
    )
    return [
        f"{axis}: no verdict on {', '.join(rows['said'])}." for axis, rows in named.groupby("axis")
    ]


# Which quantities are measured on a classifier's images, in what order, and where each axis has
# its gaps and ends.


OVERALL = ("auc", "accuracy", "cross_entropy")
ENDS = (
    ("worst_auc", "auc", np.argmin),
    ("best_auc", "auc", np.argmax),
    ("worst_accuracy", "accuracy", np.argmin),
    ("best_accuracy", "accuracy", np.argmax),
)


@dataclass(frozen=True)
class Ends:
    """Positions of one axis among the cells: its four gaps, and by name of ENDS the dense model's
    worst and best group. groups: of METRICS of those that may be compared, [groups, 4] int.

    named is empty when fewer than two groups may be compared.
    """

    gaps: tuple[int, ...]
    named: dict[str, int]
    groups: np.ndarray


def cells_of(
    axes: Sequence[Axis], items: Items = IMAGES, further: Sequence[tuple] = ()
) -> pd.DataFrame:
    """One row per cell: axis, metric, group, n, n_positive, verdict, units, share (True when
    between 0 and 1), most; at the end those that are measured besides.

    First the whole (OVERALL), then per axis METRICS of each group and GAPS. n counts what the cell
    is a share of: the true positive rate of two classes has the positives for its denominator. most
    is the largest value it can have.
    """
    rows = _whole(axes[0].groups.iloc[0])
    for axis in axes[1:]:
        for group in axis.groups.itertuples():
            for metric, n, unit in zip(METRICS, group.counted, group.units, strict=True):
                counted = (n, group.n_positive, group.verdict, unit, True, 1.0)
                rows.append((axis.name, metric, group.group, *counted))
        totals = np.sum(
            [axis.groups["counted"].iloc[place] for place in axis.counts],
            axis=0,
            initial=0,
            dtype=int,
        )
        for gap, total in zip(GAPS, np.broadcast_to(totals, len(GAPS)).tolist(), strict=True):
            said = items.too_few if gap == GAPS[0] and len(axis.counts) < 2 else ""
            rows.append((axis.name, gap, "", total, np.nan, said, np.nan, False, 1.0))
    columns = ["axis", "metric", "group", "n", "n_positive", "verdict", "units", "share", "most"]
    return pd.DataFrame([*rows, *further], columns=columns)


def _whole(group: pd.Series) -> list[tuple]:
    """The cells of all images together, in the columns of `cells_of`; only the AUC can be undefined
    there.

    group: the one row of the whole's groups, see `layout.Axis`.
    """
    (area, right, *_), verdict = group["units"], group["verdict"]
    ends = ((verdict, area, True, 1.0), ("", right, True, 1.0), ("", np.nan, False, np.inf))
    n = group["n"], group["n_positive"]
    return [("", metric, "", *n, *end) for metric, end in zip(OVERALL, ends, strict=True)]


def ends_of(axes: Sequence[Axis], values: np.ndarray) -> list[Ends]:
    """Gaps and ends of every axis but the whole; values [cells] are the dense model's."""
    start, found = len(OVERALL), []
    for axis in axes[1:]:
        counts, size = axis.counts, len(METRICS)
        groups = values[start : start + size * len(axis.groups)].reshape(-1, size)
        named = {}
        for end, metric, pick in ENDS if len(counts) > 1 else ():
            column = METRICS.index(metric)
            named[end] = start + size * int(counts[pick(groups[counts, column])]) + column
        places = start + size * counts[:, None] + np.arange(size)
        start += groups.size
        found.append(Ends(tuple(range(start, start + len(GAPS))), named, places))
        start += len(GAPS)
    return found
