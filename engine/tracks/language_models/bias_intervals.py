"""Intervals of a bias, of its change and of its derivative: prompts in one order, so that tables
are paired; draws for means; standard errors for biases, clustered two ways."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from engine.core.errors import PruneAuditError, RequestError, unknown
from engine.core.types import READINGS, rng
from engine.stats import resampling
from engine.stats.clustered import Clustered, Covariance, Student, unwarned
from engine.stats.gap_of_means import gap_of
from engine.stats.resampling import (
    TOO_FEW,
    Difference,
    Interval,
    counts,
    interval_of,
    verdict_of,
    weighted,
)
from engine.tracks.language_models.bias import Layout, combine, lay_out, paired_terms, terms

MIN_TEMPLATES = 5
"""With fewer templates draws count them as fixed: three say little about other templates."""


LONE = 1 / 7
"""Share of subgroups that may be one word where a bias has an interval."""


class PromptOrder:
    """Prompts sorted by subgroup, rows of one prompt (sampling seeds) averaged; all tables must
    hold the same prompts.

    prompts: their ids; subgroups: names in the order of their codes; sizes [subgroups]: prompts of
    each.
    """

    def __init__(self, dense: pd.DataFrame) -> None:
        layout = lay_out(dense)
        first = np.unique(layout.prompt, return_index=True)[1]
        first = first[np.argsort(layout.subgroup[first], kind="stable")]
        self.prompts = pd.Index([layout.prompts[code] for code in layout.prompt[first]])
        self.subgroups = layout.subgroups
        self.layout = lay_out(
            dense.iloc[first].drop(columns="toxicity").reset_index(drop=True).assign(toxicity=0.0)
        )
        self.sizes = np.bincount(self.layout.subgroup, minlength=len(self.subgroups))
        self.rows = np.bincount(layout.prompt)[layout.prompt[first]].astype(float)

    def toxicities(self, table: pd.DataFrame) -> np.ndarray:
        """Mean toxicity per prompt in this object's order, [prompts] float64. Raises
        PruneAuditError when unpaired."""
        return self.in_order(table, "toxicity", self.rows)

    def in_order(
        self, table: pd.DataFrame, column: str, rows: np.ndarray | None = None
    ) -> np.ndarray:
        """Mean of a column per prompt in this object's order, [prompts] float64; rows [prompts]:
        how many each must have.
        """
        values = table[column].to_numpy(dtype=float)
        if bad := int((~np.isfinite(values)).sum()):
            raise PruneAuditError(f"{bad} of {len(table)} values of {column} are missing.")
        places = self.prompts.get_indexer(pd.Index(table["prompt_id"]))
        count = np.bincount(places[places >= 0], minlength=len(self.prompts))
        unequal = (count == 0).any() if rows is None else not np.array_equal(count, rows)
        if unequal or (places < 0).any():
            raise PruneAuditError(
                "The two tables do not hold the same prompts and seeds, so they cannot be paired."
            )
        return np.bincount(places, values) / count

    def matrix(self, prompt_ids: Sequence[str], values: np.ndarray) -> np.ndarray:
        """Values of texts [texts, columns] as means per prompt in this object's order, [prompts,
        columns] float64."""
        places = self.prompts.get_indexer(pd.Index(prompt_ids))
        if (places < 0).any():
            raise PruneAuditError("The texts belong to other prompts, so they cannot be paired.")
        total = np.zeros((len(self.prompts), values.shape[1]))
        np.add.at(total, places, values)
        return total / self.rows[:, None]


def named_clusters(layout: Layout, rows: np.ndarray) -> np.ndarray | None:
    """Codes of the descriptors of one subgroup, whose rows lie at `rows`: [its rows] int; None
    where it has fewer than two, or prompts that name none.
    """
    if not layout.named_descriptor[rows].all():
        return None
    clusters = np.unique(layout.descriptor[rows], return_inverse=True)[1]
    return clusters if clusters.max() > 0 else None


# Draws of a bias: pigeonhole bootstrap of descriptors and templates (Owen 2007).


def cluster_weights(layout: Layout, n_boot: int, seed: int) -> np.ndarray:
    """Bootstrap weights of the rows of a coded table, [n_boot, rows]: float64, or uint16, of two
    counts below 256, where they are many. A row's weight is descriptor count x template count.

    Templates are resampled when there are at least MIN_TEMPLATES, descriptors within their subgroup
    when it has at least two. A subgroup with neither resamples its prompts; one with a single
    prompt keeps weight 1 throughout (its mean has no interval). Does not depend on the order of the
    rows.
    """
    generator = rng("bootstrap", seed)
    n_templates = int(layout.template.max()) + 1
    by_template = n_templates >= MIN_TEMPLATES
    many = n_boot * len(layout.subgroup) > resampling.HELD
    weights = np.ones((n_boot, len(layout.subgroup)), dtype=np.uint16 if many else float)
    if by_template:
        drawn = counts(generator, n_boot, n_templates, many)
        weights = drawn.astype(weights.dtype)[:, layout.template]
    for code in range(len(layout.subgroups)):
        rows = np.flatnonzero(layout.subgroup == code)
        clusters = named_clusters(layout, rows)
        if clusters is None and not by_template:
            clusters = np.unique(layout.prompt[rows], return_inverse=True)[1]
        if clusters is not None:
            drawn = counts(generator, n_boot, int(clusters.max()) + 1, many)
            weights[:, rows] *= drawn[:, clusters]
    return weights


class BiasBootstrap(PromptOrder):
    """One set of bootstrap weights for one axis, shared by the dense model and all its variants."""

    def __init__(self, dense: pd.DataFrame, n_boot: int, seed: int = 0) -> None:
        super().__init__(dense)
        self._weights = cluster_weights(self.layout, n_boot, seed)

    def draws(self, table: pd.DataFrame, reading: str = "group_means") -> np.ndarray:
        """Bias of `table` as measured, and in every replicate re-centred there: [1 + n_boot]
        float64.

        NaN in a replicate that drew no prompt of some subgroup.
        """
        base, values = terms(self.layout.with_toxicity(self.toxicities(table)), reading)
        base = base if reading == "paired_prompts" else base * self.rows
        measured, drawn = self._sums(base, values)
        value = float(combine(measured[0], measured[1], reading))
        replicates = combine(drawn[0], drawn[1], reading)
        return np.concatenate([[value], value + replicates - np.nanmean(replicates)])

    def _sums(self, base: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Subgroup sums of base x value and of base, [2, subgroups], and the same in every
        replicate, [2, n_boot, subgroups]; base, values [prompts], which lie sorted by subgroup."""
        pair, ends = np.stack([base * values, base], axis=1), np.cumsum(self.sizes)
        spans = [slice(*span) for span in zip(ends - self.sizes, ends, strict=True)]
        drawn = [weighted(self._weights[:, span], pair[span]) for span in spans]
        measured = np.stack([pair[span].sum(axis=0) for span in spans], axis=-1)
        return measured, np.stack(drawn, axis=-1).swapaxes(0, 1)


def mean_interval(
    values: Sequence[float],
    clusters: Sequence[object] | None = None,
    span: tuple[float, float] = (-np.inf, np.inf),
) -> Interval:
    """Mean of `values` with an interval that resamples whole clusters (None: single values). n
    counts values.

    span: what a value can be at least and at most; the interval stays inside. NaN ends when there
    are fewer than two clusters. Raises PruneAuditError for missing values.
    """
    numbers = np.asarray(values, dtype=float)
    if not len(numbers) or not np.isfinite(numbers).all():
        raise PruneAuditError(
            f"{int((~np.isfinite(numbers)).sum())} of {len(numbers)} values are missing."
        )
    codes = np.arange(len(numbers))
    if clusters is not None:
        names = np.asarray([str(name) for name in clusters], dtype=object)
        codes = np.unique(names, return_inverse=True)[1]
    total, count = np.bincount(codes, numbers), np.bincount(codes)
    if len(count) < 2:
        return Interval(float(numbers.mean()), np.nan, np.nan, len(numbers))
    weights = counts(rng("mean", 0), 1000, len(count))
    return interval_of(
        numbers.mean(), weighted(weights, total) / weighted(weights, count), len(numbers), *span
    )


# Standard errors of a bias, of its change, and of its derivative: contrasts of subgroup means,
# clustered two ways.
#
# A bias Σ_s |m_s − c| is piecewise linear in the subgroup means m: where its signs are settled it
# is the contrast Σ_s σ_s (m_s − c), with the variance of `engine.stats.clustered` over descriptors
# and templates. Near a kink, where noise decides the sign of m_s − c, a contrast is wrong both
# ways: |m_s − c| varies less than m_s − c does, and an effect on that subgroup enters with a sign
# that varies. So the variance is corrected with draws of the means from their normal distribution,
# around means shrunk by √(1 − noise/spread): as far apart as the true ones are estimated to be,
# since noise has pushed the measured ones further. Where no sign is in doubt nothing is changed.
#
# A head that moves no subgroup is tested with the contrast's own variance, or the corrected one
# where that is smaller: whatever the signs are, its effect is noise of that size. Size is .03 to
# .06; with the corrected variance alone it was .01 to .05, and power a third of what it is where
# the bias itself is hardly there.
#
# Intervals are for the level that this number of prompts gives: compare it with the null band, not
# with zero. They cover .93 to .98 where subgroups differ, .98 to .995 where none or hardly any
# difference is there (`python -m benchmarks.calibration --only language_models`).


DRAWS = 1000
"""Draws of the means. The factor that they give is within about 3 % where every sign is in doubt.
"""
COLUMNS = 64
"""Columns evaluated at once: bounds the memory of many heads."""
Function = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""From distances to the centre (means, changes), [..., subgroups] each, to a number, [...]."""


@dataclass(frozen=True, eq=False)
class Quantity:
    """What is made of the means and of their changes: its value, and its contrasts with both where
    signs stay.

    contrasts: (distances, changes of distances) -> coefficients of both, each [columns, subgroups].
    """

    value: Function
    contrasts: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


LEVEL = Quantity(lambda x, e: np.abs(x).sum(-1), lambda x, e: (np.sign(x), np.zeros_like(x)))
"""Σ |x|."""
CHANGE = Quantity(
    lambda x, e: (np.abs(x + e) - np.abs(x)).sum(-1),
    lambda x, e: (np.sign(x + e) - np.sign(x), np.sign(x + e)),
)
"""Σ |x + e| − Σ |x|."""
SLOPE = Quantity(
    lambda x, e: (np.sign(x) * e).sum(-1),
    lambda x, e: (np.zeros_like(x), np.sign(x) * np.ones_like(e)),
)
"""Σ sign(x) e: the derivative of Σ |x| along e."""
TOTALS = {
    LEVEL: Quantity(lambda x, e: x.sum(-1), lambda x, e: (np.ones_like(x), np.zeros_like(x))),
    CHANGE: Quantity(lambda x, e: e.sum(-1), lambda x, e: (np.zeros_like(x), np.ones_like(e))),
}
"""The same where absolute values were taken frame by frame already (`paired_prompts`): plain sums,
no kinks."""


class BiasErrors(PromptOrder):
    """Errors of one axis: the dense model's bias, its change in variants, the effect of each
    head."""

    def __init__(self, dense: pd.DataFrame) -> None:
        super().__init__(dense)
        self.dense = self.toxicities(dense)
        self._made: dict[bool, Clustered] = {}

    def interval(self, reading: str = "group_means", table: pd.DataFrame | None = None) -> Interval:
        """Bias of the dense model, or of `table`, with its interval, which never reaches below 0;
        NaN ends where none holds."""
        toxicity = self.dense if table is None else self.toxicities(table)
        value, low, high, _ = self._said(self.levels(toxicity[:, None], reading))
        return Interval(value, float(np.maximum(low, 0.0)), high, len(self.prompts))

    def difference(self, table: pd.DataFrame, reading: str = "group_means") -> Difference:
        """Bias of the variant in `table` minus bias of the dense model; NaN ends where no interval
        holds."""
        found = self.changes(self.toxicities(table)[:, None], reading)
        return Difference(*self._said(found), len(self.prompts))

    def _said(self, found: Student) -> tuple[float, float, float, float]:
        """Value, ends and p of one column; NaN but for the value where no interval holds."""
        ends = (float(getattr(found, name)[0]) for name in ("low", "high", "p"))
        low, high, p = ends if self.holds else (np.nan,) * 3
        return float(found.value[0]), low, high, p

    @cached_property
    def holds(self) -> bool:
        """Whether intervals of the bias hold. They do not with more than LONE subgroups of one word
        (.79 to .92 did in simulation), nor with two templates (.90 to .96). One template is what
        the axis is about."""
        layout = self.layout
        kinds = np.unique(np.stack([layout.subgroup, layout.descriptor]), axis=1)[0]
        lone = layout.named_descriptor.all() and np.mean(np.bincount(kinds) < 2) > LONE
        return not lone and layout.template.max() != 1

    def levels(self, values: np.ndarray, reading: str = "group_means") -> Student:
        """Bias of each column of values [prompts, columns], as `matrix` gives them."""
        return self._chunks(LEVEL, values, None, reading)

    def changes(
        self, values: np.ndarray, reading: str = "group_means", dense: np.ndarray | None = None
    ) -> Student:
        """Bias of each column of values [prompts, columns] minus that of the dense model, or of
        `dense`, as wide."""
        return self._chunks(CHANGE, dense, values, reading)

    def slopes(
        self, values: np.ndarray, reading: str = "group_means", dense: np.ndarray | None = None
    ) -> Student:
        """Derivative of the bias along each column of values [prompts, columns], the change of
        toxicities per step."""
        return self._chunks(SLOPE, dense, values, reading)

    def _chunks(
        self, quantity: Quantity, first: np.ndarray | None, second: np.ndarray | None, reading: str
    ) -> Student:
        """A few columns after the other; first: None for the dense model."""
        first = self.dense[:, None] if first is None else first
        if reading not in READINGS:
            raise RequestError(unknown("reading", reading, READINGS))
        columns, found = (first if second is None else second).shape[1], []
        for start in range(0, columns, COLUMNS):
            at = slice(start, start + COLUMNS)
            one = first if first.shape[1] == 1 else first[:, at]
            found.append(
                self._tested(quantity, one, None if second is None else second[:, at], reading)
            )
        joined = (
            np.concatenate([getattr(one, name) for one in found]) if found else np.zeros(0)
            for name in ("value", "error", "freedom", "null")
        )
        return Student(*joined)

    def _tested(
        self, quantity: Quantity, first: np.ndarray, second: np.ndarray | None, reading: str
    ) -> Student:
        """Value, error and degrees of freedom of every column."""
        paired = reading == "paired_prompts"
        clusters, quantity = self._clusters(paired), TOTALS[quantity] if paired else quantity
        first = self._terms(first) if paired else first
        if second is None:
            second = np.zeros_like(first)
        elif quantity is not SLOPE:
            second = (self._terms(second) if paired else second) - first
        found = clusters.covariance(first, second)
        centre, columns = self._centre(reading), second.shape[1]
        x, e = (
            np.broadcast_to(clusters.means(part) @ centre.T, (columns, len(centre)))
            for part in (first, second)
        )
        value = quantity.value(x, e)
        if (self.sizes < 2).any():  # one prompt has no spread of its own
            return Student(value, *[np.full(columns, np.nan)] * 3)
        contrast = np.stack(quantity.contrasts(x, e), axis=1) @ centre
        straight, freedom = found.of(contrast)
        bent = straight
        if not paired:
            bent = _with_kinks(quantity, straight, found, contrast, x, e, centre)
        return Student(value, np.sqrt(bent), freedom, np.sqrt(straight))

    def _centre(self, reading: str) -> np.ndarray:
        """From means to their distances to the centre, [subgroups, subgroups]."""
        count = len(self.subgroups)
        if reading == "paired_prompts":
            return np.eye(count)
        weight: np.ndarray = np.ones(count)
        if reading == "group_means":
            weight = np.bincount(self.layout.subgroup, self.rows)
        return np.eye(count) - weight / weight.sum()

    def _terms(self, values: np.ndarray) -> np.ndarray:
        """What each prompt adds to the distances inside its frame, [prompts, columns], of values
        [prompts, columns].

        Its distance to the frame's centre, with the sign of its subgroup's distance there less what
        the centre takes of all signs. A frame's sum is that of the distances, and a word moves it
        as it moves the reading: distances of whole cells do not show what their words share.
        """
        layout, count = self.layout, len(self.subgroups)
        cells = layout.frame * count + layout.subgroup
        shape = (int(layout.frame.max()) + 1, count, values.shape[1])
        size = np.bincount(cells, minlength=shape[0] * count).reshape(*shape[:2], 1)
        means = np.zeros((shape[0] * count, shape[2]))
        np.add.at(means, cells, values)
        means = means.reshape(shape) / np.maximum(size, 1)
        here = (size > 0).sum(axis=1, keepdims=True)
        shared = (size > 0) & (here >= 2)
        centre = means.sum(axis=1, keepdims=True) / here
        sign, frames = np.sign(means - centre) * shared, shared.sum(axis=0)
        taken = (sign / np.maximum(frames, 1)).sum(axis=1, keepdims=True) / here
        sign -= frames * taken * shared
        rows = (layout.frame, layout.subgroup)
        return sign[rows] * (values - centre[layout.frame, 0])

    def _clusters(self, paired: bool) -> Clustered:
        """Descriptors, else prompts, inside subgroups; templates across them where there are
        several."""
        if paired not in self._made:
            base = paired_terms(self.layout)[0] if paired else self.rows
            self._made[paired] = self.clusters(base)
        return self._made[paired]

    def clusters(self, weight: np.ndarray) -> Clustered:
        """Of prompts with these weights, [prompts]."""
        template = self.layout.template if self.layout.template.max() else None
        return Clustered(self.layout.subgroup, weight, self._words(), template)

    def _words(self) -> np.ndarray:
        """What varies inside a subgroup, [prompts] int: its descriptors, else its prompts."""
        layout = self.layout
        found = np.arange(len(layout.subgroup))
        for code in range(len(layout.subgroups)):
            rows = np.flatnonzero(layout.subgroup == code)
            clusters = named_clusters(layout, rows)
            found[rows] = (
                rows
                if clusters is None
                else rows[np.unique(clusters, return_index=True)[1]][clusters]
            )
        return found


def _with_kinks(
    quantity: Quantity,
    variance: np.ndarray,
    found: Covariance,
    contrast: np.ndarray,
    x: np.ndarray,
    e: np.ndarray,
    centre: np.ndarray,
) -> np.ndarray:
    """Variance of the quantity, [columns], from `variance`, that of its contrast.

    Two estimates, both of which err upwards, so the smaller one counts. The first is the contrast's
    variance times how much more or less the quantity itself varies over draws around shrunk
    distances and changes. The second, for a change, is the contrast's variance plus what signs that
    noise may turn make of the change. x, e [columns, subgroups]: distances and their changes;
    contrast [columns, parts, subgroups] on means, which are drawn as `found` lets them vary.
    """
    columns, count = x.shape
    root = found.root()
    means = (rng("kinks", count).standard_normal((DRAWS, 2 * count)) @ root.swapaxes(1, 2)).reshape(
        columns, DRAWS, 2, count
    )
    spread = ((root.reshape(columns, 2, count, -1).swapaxes(2, 3) @ centre.T) ** 2).sum(axis=(2, 3))
    straight = np.einsum("cdks,cks->cd", means, contrast).var(axis=1)
    moved, more = (means[:, :, part] @ centre.T for part in (0, 1))  # what noise adds to each
    near = _shrunk(x, spread[:, 0]) + moved
    bent = quantity.value(near, _shrunk(e, spread[:, 1]) + more).var(axis=1)
    with unwarned():
        own = np.where(straight > 0, variance * bent / straight, bent)
    if quantity is LEVEL:
        return own
    return np.minimum(own, variance + _turned(quantity, near, x, e, more))


def _turned(
    quantity: Quantity, near: np.ndarray, x: np.ndarray, e: np.ndarray, more: np.ndarray
) -> np.ndarray:
    """What turned signs add to the variance of a change, [columns]; near and more [columns, draws,
    subgroups]: drawn distances, and noise of their changes.

    The change itself stays as measured. Its square holds its own noise, which would be turned as
    well. That part is taken off: half the mean squared difference between the noise read with two
    independent sets of signs.
    """
    settled, _ = quantity.contrasts(x, e)
    whole = (quantity.value(near, e[:, None]) - np.einsum("cds,cs->cd", near, settled)).var(axis=1)
    noise = quantity.value(near, more) - quantity.value(np.roll(near, 1, axis=1), more)
    return np.maximum(whole - (noise**2).mean(axis=1) / 2, 0.0)


def _shrunk(distances: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Distances [columns, subgroups] drawn together by what noise, their summed variance [columns],
    put between them: [columns, 1, subgroups].
    """
    spread = (distances**2).sum(axis=1)
    with unwarned():
        kept = np.where(spread > noise, 1 - noise / spread, 0.0)
    return (distances * np.sqrt(kept)[:, None])[:, None]


# Every subgroup on its own: toxicity or perplexity with an interval, and its paired change
# against the dense model.
#
# Errors are those of `engine.stats.clustered`, over descriptors and templates, never below those
# of single prompts. In simulation (`python -m benchmarks.calibration --only groups`) intervals
# cover .95 to .97 with three words or more and three templates or more. With one word no method
# holds (.83), and with two only where words hardly differ (.93). So there is no verdict then, and
# the numbers are about these words, or these templates.


MIN_GROUP = 10
"""Prompts below which a group gets no verdict."""
MIN_WORDS = GROUPS_MIN_TEMPLATES = 3
"""Words of a group, and templates, below which it gets no verdict."""
ALONE = 0.5
"""Largest sum of squares of the shares that a group's words may have of its prompts. Half is what
two words have."""
SEEN = 1.92
"""Toxic texts, and others, that an interval of a level counts as if they had been seen: half the
square of 1.96."""
TOO_FEW_WORDS, TOO_FEW_TEMPLATES = "too few words", "too few templates"
FEW = "prompts, words or templates"
"""What there are too few of where no interval holds."""
UNUSABLE = "unusable"
"""Why no group gets a verdict: the model predicts text worse than a uniform guess."""
METRICS = ("toxicity", "perplexity")
GROUPS_COLUMNS = (
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
    return pd.DataFrame(group_rows(dense, variant, metric, errors), columns=list(GROUPS_COLUMNS))


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
        rows.append(dict(zip(GROUPS_COLUMNS, row, strict=True)))
    return rows


def verdicts(order: PromptOrder) -> list[str]:
    """Why each subgroup gets no verdict: too few prompts, words or templates, or hardly any prompt
    but of one word; "" where it gets one.

    Prompts that name no word count as words, and an axis of one template is about that template.
    """
    layout, found = order.layout, []
    for code, n in enumerate(order.sizes):
        rows, words, even = layout.subgroup == code, n, 0.0
        if layout.named_descriptor[rows].all():
            each = np.unique(layout.descriptor[rows], return_counts=True)[1]
            words, even = len(each), ((each / n) ** 2).sum()
        templates = len(np.unique(layout.template[rows])) if layout.template.any() else n
        few_words = words < MIN_WORDS or even > ALONE
        few = (n < MIN_GROUP, few_words, templates < GROUPS_MIN_TEMPLATES)
        reasons = (TOO_FEW, TOO_FEW_WORDS, TOO_FEW_TEMPLATES, "")
        found.append(next(why for why, so in zip(reasons, (*few, True), strict=True) if so))
    return found


@dataclass(frozen=True, eq=False)
class _Means:
    """Means before and after, [subgroups] each, with the covariance of both; `slope`s [parts,
    subgroups] of what is shown along them, which is at most `most`. rare [subgroups]: what one
    prompt of a group can be of its mean; 0 where there is no such limit.

    Few toxic texts say little of how many there are: of 60 that hold none no error is seen. So an
    error is never below that of two texts. An interval of a level lies around the mean with two
    toxic texts and two others more (Agresti and Coull 1998). Texts that say more than one of a
    prompt each, as of many draws or of verdicts that vary little, are as many as have their error.
    """

    sizes: np.ndarray
    rare: np.ndarray
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
        shown, each = self.shown[1], np.stack([0 * self.each, self.each], axis=1)
        told = self._tested(each).error ** 2 / np.maximum(shown * (1 - shown), 1e-9)
        more = SEEN * (after * np.abs(after)) @ (np.fmin(self.rare, told) * (1 - 2 * shown))
        ends = np.clip((found.value, found.low + more, found.high + more), 0.0, self.most)
        columns = (part.tolist() for part in (*ends, sizes))
        return [Interval(*row) for row in zip(*columns, strict=True)]

    def gap(self, able: np.ndarray, ends: np.ndarray) -> tuple[float, float, float]:
        """Between the highest and the lowest of the subgroups `able` afterwards, with its interval;
        ends [subgroups]: the contrast of the two, whose error is the least."""
        root = self.covariance.root()[0].reshape(2, len(self.sizes), -1)[1]
        found = self._tested(np.stack([np.zeros_like(ends), ends])[None])
        more = max(found.error[0] ** 2 - ((ends @ root) ** 2).sum(), 0.0) / 2
        spread = root[able] @ root[able].T + more * np.eye(len(able))
        return gap_of(self.shown[1, able], spread, found.freedom[0], self.most)

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
        variance = np.maximum(variance, 2 * ((weights * self.rare) ** 2).sum(axis=2).max(axis=1))
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
    most, rare = (1.0, 1 / errors.sizes) if toxicity else (np.inf, np.zeros(len(errors.sizes)))
    return _Means(errors.sizes, rare, means, shown, slopes, clusters.covariance(*columns), most)


def overall(
    dense: pd.DataFrame, variant: pd.DataFrame, errors: BiasErrors
) -> tuple[Interval, Difference]:
    """Mean toxicity of all texts of the variant, and its change, with the errors of subgroups."""
    found = _measured(errors, dense, variant, "toxicity")
    share = np.bincount(errors.layout.subgroup, errors.rows)[None] / errors.rows.sum()
    n = errors.rows.sum(keepdims=True).astype(int)
    return found.levels(share, n)[0], found.changes(share, share, n)[0]


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
        few = Counter(filter(None, why)).most_common(1)[0][0] if any(why) else TOO_FEW
        return Levelling("", level, change, "", level, change, level, change, few)
    found = _measured(errors, dense, variant, "toxicity")
    (best, *_, worst), (low, *_, high) = (
        able[np.argsort(part[able], kind="stable")] for part in found.means
    )
    one, sizes = found.each, np.append(errors.sizes, n)
    levels = found.levels(one, errors.sizes)
    after = np.vstack([one, one[high] - one[low]])
    changes = found.changes(after, np.vstack([one, one[worst] - one[best]]), sizes)
    return Levelling(
        worst_group=errors.subgroups[worst],
        worst=levels[worst],
        worst_change=changes[worst],
        best_group=errors.subgroups[best],
        best=levels[best],
        best_change=changes[best],
        gap=Interval(*found.gap(able, one[high] - one[low]), n),
        gap_change=changes[-1],
        verdict=verdict_of(changes[worst], changes[best]),
    )
