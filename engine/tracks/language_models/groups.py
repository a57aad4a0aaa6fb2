"""Every subgroup on its own: toxicity or perplexity with an interval, and its paired change against
the dense model.

Errors are those of `engine.stats.clustered`, over descriptors and templates, never below those of
single prompts. In simulation (`python -m benchmarks.calibration --only groups`) intervals cover .95
to .97 with three words or more and three templates or more. With one word no method holds (.83),
and with two only where words hardly differ (.93). So there is no verdict then, and the numbers are
about these words, or these templates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from engine.core.errors import RequestError, unknown
from engine.stats.clustered import Covariance, Student
from engine.stats.resampling import TOO_FEW, Difference, Interval, verdict_of
from engine.tracks.language_models.bias_intervals import BiasErrors, PromptOrder

MIN_GROUP = 10
"""Prompts below which a group gets no verdict."""
MIN_WORDS = MIN_TEMPLATES = 3
"""Words of a group, and templates, below which it gets no verdict."""
TOO_FEW_WORDS, TOO_FEW_TEMPLATES = "too few words", "too few templates"
FEW = "prompts, words or templates"
"""What there are too few of where no interval holds."""
UNUSABLE = "unusable"
"""Why no group gets a verdict: the model predicts text worse than a uniform guess."""
METRICS = ("toxicity", "perplexity")
COLUMNS = (
    "metric",
    "group",
    "value",
    "low",
    "high",
    "n",
    "delta",
    "delta_low",
    "delta_high",
    "verdict",
)


def group_table(
    dense: pd.DataFrame,
    variant: pd.DataFrame | None = None,
    *,
    metric: str = "toxicity",
    errors: BiasErrors | None = None,
) -> pd.DataFrame:
    """`group_rows` as a table. Errors made from any table of the same prompts can be shared by many
    calls."""
    if errors is None:
        errors = BiasErrors(dense if "toxicity" in dense.columns else dense.assign(toxicity=0.0))
    return pd.DataFrame(group_rows(dense, variant, metric, errors), columns=list(COLUMNS))


def group_rows(
    dense: pd.DataFrame, variant: pd.DataFrame | None, metric: str, errors: BiasErrors
) -> list[dict[str, object]]:
    """One row per subgroup of one axis, columns COLUMNS; values are the variant's (the dense
    model's when None).

    metric "toxicity" reads a column toxicity; "perplexity" reads nll (nats) and tokens per prompt
    and gives exp(Σ nll / Σ tokens). n counts prompts, delta = variant - dense with a paired
    interval. verdict is "" or a reason of `verdicts`; tables.py has UNUSABLE. Raises RequestError
    for another metric.
    """
    if metric not in METRICS:
        raise RequestError(unknown("metric", metric, METRICS))
    found = _measured(errors, dense, dense if variant is None else variant, metric)
    shown, rows = found.levels(found.each, errors.sizes), []
    change = found.changes(found.each, found.each, errors.sizes)
    for place, verdict in enumerate(verdicts(errors)):
        delta = (np.nan, np.nan, np.nan)
        if variant is not None:
            delta = change[place].value, change[place].low, change[place].high
        level, group = shown[place], errors.subgroups[place]
        row = (metric, group, level.value, level.low, level.high, level.n, *delta, verdict)
        rows.append(dict(zip(COLUMNS, row, strict=True)))
    return rows


def verdicts(order: PromptOrder) -> list[str]:
    """Why each subgroup gets no verdict: too few prompts, words or templates; "" where it gets one.

    Prompts that name no word count as words, and an axis of one template is about that template.
    """
    layout, found = order.layout, []
    for code, n in enumerate(order.sizes):
        rows = layout.subgroup == code
        words = (
            len(np.unique(layout.descriptor[rows])) if layout.named_descriptor[rows].all() else n
        )
        templates = len(np.unique(layout.template[rows])) if layout.template.any() else n
        few = (n < MIN_GROUP, words < MIN_WORDS, templates < MIN_TEMPLATES)
        reasons = (TOO_FEW, TOO_FEW_WORDS, TOO_FEW_TEMPLATES, "")
        found.append(next(why for why, so in zip(reasons, (*few, True), strict=True) if so))
    return found


@dataclass(frozen=True, eq=False)
class _Means:
    """Means before and after, [subgroups] each, with the covariance of both; `slope`s [parts,
    subgroups] of what is shown along them, which is at most `most`."""

    sizes: np.ndarray
    means: np.ndarray
    shown: np.ndarray
    slopes: np.ndarray
    covariance: Covariance
    most: float

    @cached_property
    def each(self) -> np.ndarray:
        """Every subgroup alone, as contrasts [subgroups, subgroups]."""
        return np.eye(len(self.sizes))

    def levels(self, after: np.ndarray, sizes: np.ndarray) -> list[Interval]:
        """Of contrasts of the subgroups afterwards, [contrasts, subgroups]; sizes: their
        prompts."""
        found = self._tested(np.stack([np.zeros_like(after), after], axis=1))
        low, high = np.clip((found.low, found.high), 0.0, self.most)
        columns = (part.tolist() for part in (found.value, low, high, sizes))
        return [Interval(*row) for row in zip(*columns, strict=True)]

    def changes(self, after: np.ndarray, before: np.ndarray, sizes: np.ndarray) -> list[Difference]:
        """Of contrasts afterwards minus others before, [contrasts, subgroups] each."""
        found = self._tested(np.stack([-before, after], axis=1))
        low, high = np.clip((found.low, found.high), -self.most, self.most)
        columns = (part.tolist() for part in (found.value, low, high, found.p, sizes))
        return [Difference(*row) for row in zip(*columns, strict=True)]

    def _tested(self, weights: np.ndarray) -> Student:
        """Σ weights · shown of weights [contrasts, parts, subgroups]; a subgroup of one prompt has
        no error."""
        variance, freedom = self.covariance.of(weights * self.slopes, least=True)
        lone = ((self.sizes < 2) & weights.any(axis=1)).any(axis=1)
        error = np.where(lone, np.nan, np.sqrt(variance))
        return Student((weights * self.shown).sum(axis=(1, 2)), error, freedom)


def _measured(
    errors: BiasErrors, dense: pd.DataFrame, variant: pd.DataFrame, metric: str
) -> _Means:
    """Mean toxicity before and after, or perplexity: the exponential of a mean over tokens."""
    tables, toxicity = (dense, variant), metric == "toxicity"
    if toxicity:
        clusters, parts = errors.clusters(errors.rows), [errors.toxicities(one) for one in tables]
    else:
        tokens = errors.in_order(dense, "tokens")
        scored = np.maximum(tokens, 1)
        parts = [errors.in_order(one, "nll") / scored * (tokens > 0) for one in tables]
        clusters = errors.clusters(tokens)
    columns = [part[:, None] for part in parts]
    means = np.stack([clusters.means(part)[0] for part in columns])
    shown = means if toxicity else np.exp(means)
    slopes = np.ones_like(means) if toxicity else shown
    most = 1.0 if toxicity else np.inf
    return _Means(errors.sizes, means, shown, slopes, clusters.covariance(*columns), most)


# The gap between subgroups of an axis, split at its two ends: paired changes of the worst-off
# and the best-off.


@dataclass(frozen=True)
class Levelling:
    """The gap (highest minus lowest mean toxicity of a subgroup) and what happened at its two ends.

    worst_group and best_group are the dense model's most and least toxic subgroups among those that
    get a verdict. They are picked and measured on the same prompts, so their changes lean a little
    towards the middle.
    """

    worst_group: str
    worst: Interval
    worst_change: Difference
    best_group: str
    best: Interval
    best_change: Difference
    gap: Interval
    gap_change: Difference
    verdict: str


def levelling(
    dense: pd.DataFrame, variant: pd.DataFrame, errors: BiasErrors | None = None
) -> Levelling:
    """Split the change of the gap; worst, best and gap are the variant's, intervals are paired.

    An end counts as changed when its 95 % interval leaves out zero. With fewer than two subgroups
    that get a verdict the names are empty, the numbers NaN, and the verdict is why.
    """
    errors = errors or BiasErrors(dense)
    why = verdicts(errors)
    able = np.flatnonzero([not reason for reason in why])
    n = int(errors.sizes[able].sum())
    if len(able) < 2:
        change = Difference(np.nan, np.nan, np.nan, np.nan, n)
        level = Interval(np.nan, np.nan, np.nan, n)
        return Levelling("", level, change, "", level, change, level, change, _most(why))
    found = _measured(errors, dense, variant, "toxicity")
    (best, *_, worst), (low, *_, high) = (able[np.argsort(part[able])] for part in found.means)
    one, sizes = found.each, np.append(errors.sizes, n)
    after = np.vstack([one, one[high] - one[low]])
    levels = found.levels(after, sizes)
    changes = found.changes(after, np.vstack([one, one[worst] - one[best]]), sizes)
    return Levelling(
        worst_group=errors.subgroups[worst],
        worst=levels[worst],
        worst_change=changes[worst],
        best_group=errors.subgroups[best],
        best=levels[best],
        best_change=changes[best],
        gap=levels[-1],
        gap_change=changes[-1],
        verdict=verdict_of(changes[worst], changes[best]),
    )


def _most(why: Sequence[str]) -> str:
    """The reason that most subgroups have for no verdict."""
    return (Counter(reason for reason in why if reason).most_common(1) or [(TOO_FEW, 0)])[0][0]
