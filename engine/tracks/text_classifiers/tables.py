"""From finished trials to the tables of a text classifier's run. Their columns are described in
docs/TABLES.md."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import spearmanr, t

from engine.audit.session import Session
from engine.classifiers.groups import (
    MATTHEWS,
    Arm,
    Further,
    GroupMeasure,
    arm_difference,
    confusion,
    degenerate,
    predicted,
)
from engine.classifiers.layout import TEXTS
from engine.classifiers.tables import (
    answers_table,
    curve_of,
    curves_table,
    differences_table,
    measured_arms,
    numbers_of,
    over_repeats,
    variant_row,
    weights_table,
)
from engine.core.types import POOLED, Values, rng
from engine.data.texts.load import CLASS, TextSet
from engine.stats.clustered import MISSED, TAILS, benjamini_hochberg
from engine.stats.gap_of_means import FIXED, Estimate, Trials, difference
from engine.store.runs import where, within
from engine.tracks.text_classifiers.context import TEST, TRAIN, TextContext, TextShard
from engine.tracks.text_classifiers.metrics import METRICS, Borkan, Matthews, task_metric
from engine.tracks.text_classifiers.procedures import (
    DENSE,
    ArmLevel,
    Finished,
    TextArm,
    cost_shards,
    dense_trials,
    importance_shards,
    lens_shards,
    null_shards,
    truth_shards,
)
from engine.tracks.text_classifiers.request import TextPlan
from engine.tracks.text_classifiers.scores.base import (
    DRAWS,
    HeadImportance,
    aggregate,
    head_importance,
    says_nothing,
    values_under,
)

# Winning tickets: does a subnetwork do as well as the full model, over several seeds?
#
# The thesis' definition (Sec. 6.6.4, after Chen et al. 2020): a subnetwork is *matching* when the
# full model's mean is no higher than the subnetwork's mean plus its standard deviation, both over
# seeds. It is a *winning ticket* when it was trained from the pre-trained weights. The standard
# deviation is that of a sample (n - 1), so one seed matches nothing.


MIN_SEEDS = 3
"""Seeds below which nothing is called a ticket."""
ROUNDING = 1e-9
"""Means of equal numbers may differ in their last digits."""
WON, MATCHING, LOST, UNJUDGED = "winning", "matching", "no", ""
"""What a subnetwork is; the last where there are too few seeds."""


@dataclass(frozen=True)
class Ticket:
    """One subnetwork against the full model, over seeds."""

    mean: float
    std: float
    full_mean: float
    full_std: float
    n_seeds: int

    @property
    def matching(self) -> bool:
        """ε(full) ≤ ε(subnetwork) + σ(subnetwork): means and standard deviation of the task's
        metric ε over seeds.

        False with fewer than MIN_SEEDS seeds, and where a value is missing.
        """
        return bool(self.n_seeds >= MIN_SEEDS and self.full_mean <= self.mean + self.std + ROUNDING)

    def word(self, retrained: bool) -> str:
        """WON, MATCHING, LOST or UNJUDGED."""
        if self.n_seeds < MIN_SEEDS:
            return UNJUDGED
        return (WON if retrained else MATCHING) if self.matching else LOST


def ticket_of(
    subnetwork: Sequence[float], full: Sequence[float], distinct: int | None = None
) -> Ticket:
    """From one value per seed of each; a full model that is one fixed model has one value and no
    spread.

    distinct: models behind the subnetwork's values, where some seeds came to the same one; only
    these count as seeds.
    """
    n_seeds = len(subnetwork) if distinct is None else distinct
    return Ticket(*_mean_and_std(subnetwork), *_mean_and_std(full), n_seeds)


def by_spread_only(levels: pd.DataFrame) -> pd.Series:
    """Which levels match only because their seeds differ widely, bool. Their mean is then below the
    full model's by more than the full model's own standard deviation (0 where that is one fixed
    model).

    levels: columns matching, mean, full_mean and full_std.
    """
    least = levels["full_mean"] - levels["full_std"].fillna(0.0) - ROUNDING
    return levels["matching"].astype(bool) & (levels["mean"] < least)


def _mean_and_std(values: Sequence[float]) -> tuple[float, float]:
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else np.nan


def largest(sparsities: Sequence[float], matching: Sequence[bool]) -> tuple[float, float]:
    """The largest matching sparsity, and the largest up to which every one matches; NaN where there
    is none."""
    pairs = sorted(zip(sparsities, matching, strict=True))
    every = [share for share, holds in pairs if holds]
    unbroken = float("nan")
    for share, holds in pairs:
        if not holds:
            break
        unbroken = share
    return (every[-1] if every else float("nan")), unbroken


# What every arm is worth on all texts and for every group: which are tickets, and where those
# that train nothing stand among random masks.
#
# A rank is of one mask per trial; the value is the mean over trials. Two nulls bracket how alike
# an arm's masks are: heads that are the same in every trial, and heads of its own in each. Both
# are made of the same measured masks. The larger of their p-values is reported, so an arm whose
# trials agree on bad heads is not taken for lucky.


MASKS = ["sparsity", "seed", "mask", "axis", "group", "metric", "value", "n_cut", "units"]
RANKS = [
    *("method", "sparsity", "axis", "group", "metric", "value", "percentile", "p", "q"),
    *("null_mean", "null_low", "null_high", "n_masks", "n_seeds", "n"),
]
NUMBERS = ("mean", "std", "full_mean", "full_std", "n_seeds", "n")
SAME = 1e-12
"""Means of equal numbers may differ in their last digits."""


class Cell(NamedTuple):
    """What is measured: the metric, on all texts ("", "") or on those of a group of an axis."""

    axis: str
    group: str
    metric: str


def ticket_tables(
    context: TextContext, finished: Finished, dense: Sequence[TextShard], measure: GroupMeasure
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """ticket_levels (every arm, sparsity and group) and tickets (every arm and group: the largest
    sparsity)."""
    cells = cells_of(context, measure)
    full = {cell: values_of(context, dense, rows, cell) for cell, rows in cells.items()}
    levels = []
    for level in finished.levels:
        shards = level.shards()
        distinct = len({_model(context, shard) for shard in shards})
        flat = sum(degenerate(context.answers(shard)) for shard in shards)
        for cell, rows in cells.items():
            found = ticket_of(values_of(context, shards, rows, cell), full[cell], distinct)
            levels.append(
                {
                    "method": level.arm.name,
                    "sparsity": level.sparsity,
                    **cell._asdict(),
                    **asdict(found),
                    "matching": found.matching,
                    "n": len(rows),
                    "word": found.word(level.arm.procedure.retrains),
                    "degenerate": flat,
                }
            )
    table = pd.DataFrame(levels)
    return table, tickets_of(table)


def _model(context: TextContext, shard: TextShard) -> tuple[object, ...]:
    """What makes a model another one: heads, and the seed it was fine-tuned with if any was."""
    tuned_here = bool(shard.trained) or context.settings.retune
    return shard.trained, shard.off, shard.trial if tuned_here else 0


def cells_of(context: TextContext, measure: GroupMeasure) -> dict[Cell, np.ndarray]:
    """The positions of each cell's test texts, [texts] int. Groups too small for a verdict are left
    out."""
    found = {Cell("", "", context.texts.metric): np.arange(len(context.table(TEST)))}
    return found | {Cell(*group, "accuracy"): rows for group, rows in measure.members().items()}


def values_of(
    context: TextContext, shards: Sequence[TextShard], rows: np.ndarray, cell: Cell
) -> list[float]:
    """One value per trial of a cell, whose test texts are `rows` [texts] int."""
    labels = context.table(TEST)["label"].to_numpy()
    answers = context.exact(shards)
    if not cell.axis:
        return [task_metric(cell.metric, part, labels) for part in answers]
    return [float((predicted(part)[rows] == labels[rows]).mean()) for part in answers]


def tickets_of(levels: pd.DataFrame) -> pd.DataFrame:
    """The largest matching sparsity of every arm and group, with the numbers at that sparsity."""
    rows = []
    key = ["method", "axis", "group", "metric"]
    for values, part in levels.groupby(key, sort=False):
        most, unbroken = largest(part["sparsity"].tolist(), part["matching"].tolist())
        at = part[part["sparsity"] == most]
        row = at.iloc[0] if len(at) else part.iloc[0].to_dict() | {"mean": np.nan, "std": np.nan}
        rows.append(
            {
                **dict(zip(key, values, strict=True)),
                "sparsity": most,
                "unbroken": unbroken,
                **{name: row[name] for name in NUMBERS},
            }
        )
    return pd.DataFrame(rows)


def null_tables(
    context: TextContext, finished: Finished, measure: GroupMeasure
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """random_masks (a mask of a seed, of all texts or a group) and random_ranks (an arm at a
    sparsity among them).

    q: Benjamini-Hochberg over arms and sparsities, per group of texts.
    """
    shards, cells = null_shards(context, finished.arms), cells_of(context, measure)
    worth = {key: _worth(context, shard, cells) for key, shard in shards.items()}
    masks = [
        row for key, shard in shards.items() for row in _mask_rows(context, key, shard, worth[key])
    ]
    ranks = list(_rank_rows(context, finished, worth, cells)) if shards else []
    found = pd.DataFrame(ranks, columns=[name for name in RANKS if name != "q"])
    q = (
        found.groupby(["axis", "group"])["p"].transform(benjamini_hochberg)
        if len(found)
        else np.nan
    )
    return pd.DataFrame(masks, columns=MASKS), found.assign(q=q)[RANKS]


def _worth(
    context: TextContext, shard: TextShard, cells: dict[Cell, np.ndarray]
) -> dict[Cell, np.ndarray]:
    """The metric of every random mask, [masks], of all texts and of every group."""
    predicted = context.without_weights(shard)[0]["predicted"].astype(np.int64)
    labels, k = context.table(TEST)["label"].to_numpy(), len(context.any_model.classes)
    return {
        cell: worth_of(predicted[:, rows], labels[rows], cell.metric, k)
        for cell, rows in cells.items()
    }


def worth_of(predicted: np.ndarray, labels: np.ndarray, metric: str, k: int) -> np.ndarray:
    """One of task_metric.METRICS of predicted [masks, texts], classes of k, against labels [texts]:
    [masks]."""
    ones = np.ones((len(labels), 1), dtype=np.uint8)
    counts = np.concatenate([confusion(labels, guesses, k, ones) for guesses in predicted], axis=2)
    return METRICS[metric](counts)


def _mask_rows(
    context: TextContext,
    key: tuple[float, int],
    shard: TextShard,
    worth: Mapping[Cell, np.ndarray],
) -> Iterator[Values]:
    """A row per mask and group of texts; the units stand with the row of all texts."""
    units = [json.dumps(row) for row in context.without_weights(shard)[0]["units"].tolist()]
    for cell, values in worth.items():
        for mask, value in enumerate(values):
            yield {
                "sparsity": key[0],
                "seed": key[1],
                "mask": mask,
                **cell._asdict(),
                "value": float(value),
                "n_cut": shard.n_cut,
                "units": "" if cell.axis else units[mask],
            }


def _rank_rows(
    context: TextContext,
    finished: Finished,
    worth: Mapping[tuple[float, int], Mapping[Cell, np.ndarray]],
    cells: Mapping[Cell, np.ndarray],
) -> Iterator[Values]:
    for level in finished.levels:
        if level.arm.procedure.retrains:
            continue
        for cell, rows in cells.items():
            values = np.array(values_of(context, level.shards(), rows, cell))
            trials = range(level.arm.n_trials)
            chance = np.stack([worth[level.sparsity, trial][cell] for trial in trials])
            found = rank_among(values, chance)
            yield {
                "method": level.arm.name,
                "sparsity": level.sparsity,
                **cell._asdict(),
                "value": float(values.mean()),
                **asdict(found),
                "n_masks": chance.shape[1],
                "n_seeds": len(values),
                "n": len(rows),
            }


@dataclass(frozen=True)
class Rank:
    """percentile: share of random masks below the arm's, ties half, mean over trials, 0 to 1. p:
    one-sided, of a value as high; null_mean, null_low, null_high: of random masks' means over
    trials and the band of 95 % (same heads in each trial).
    """

    percentile: float
    p: float
    null_mean: float
    null_low: float
    null_high: float


def rank_among(values: np.ndarray, chance: np.ndarray) -> Rank:
    """values: the arm's, [trials]; chance: of random masks, [trials, masks], mask by mask the same
    heads in each trial.

    p = (1 + masks at least as high) / (1 + masks), which is valid for any number of masks (Phipson
    and Smyth 2010).
    """
    apart = chance - values[:, None]
    percentile = np.mean((apart < -SAME) + 0.5 * (np.abs(apart) <= SAME))
    same = chance.mean(axis=0)
    low, high = np.quantile(same, TAILS)
    p = max(_p(values.mean(), same), _p(values.mean(), _apart(chance)))
    return Rank(float(percentile), p, float(same.mean()), float(low), float(high))


def _apart(chance: np.ndarray) -> np.ndarray:
    """Mean over trials with heads of its own in each: every trial's masks in an order of its own,
    [masks]."""
    draw = rng("random masks apart", chance.shape)
    return np.mean([row[draw.permutation(len(row))] for row in chance], axis=0)


def _p(value: float, chance: np.ndarray) -> float:
    return float((1 + (chance >= value - SAME).sum()) / (1 + len(chance)))


# Importance of every head before and after fine-tuning, for all texts and per group of texts, and
# what silencing each costs.


Found = tuple[pd.DataFrame, np.ndarray]
"""Numbers per text (index: text_id, or 0 where a score reads none) and unit; n_constant [units]."""
MIN_TEXTS = 10
"""Scored texts below which a group has no importance of its own."""
IMPORTANCE_COLUMNS = "stage score seed axis group unit layer head value low high n n_constant"


def importance_table(context: TextContext, arms: Sequence[TextArm], trials: int) -> pd.DataFrame:
    """One row per stage, score, seed, group of texts and head; seed -1: all seeds together,
    interval over texts."""
    by_text = context.table(TRAIN).set_index("text_id")
    by_text[CLASS] = [context.any_model.classes[label] for label in by_text["label"]]
    axes = (*context.texts.groups, CLASS)
    parts: list[pd.DataFrame] = []
    pools: dict[tuple[str, str], list[Found]] = {}
    for shard in importance_shards(context, arms, trials):
        arrays, plain = context.without_weights(shard)
        found = (
            pd.DataFrame(arrays["per_text"], index=plain["text_ids"] or None),
            arrays["n_constant"],
        )
        pools.setdefault((shard.stage, shard.score), []).append(found)
        parts += _importance_rows(
            context, (shard.stage, shard.score, shard.trial), found, by_text[list(axes)]
        )
    for (stage, score), of_trials in pools.items():
        tables = [table for table, _ in of_trials]
        parts += _importance_rows(
            context, (stage, score, POOLED), _together(of_trials), by_text[list(axes)], tables
        )
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    return table.reindex(columns=IMPORTANCE_COLUMNS.split())


def _together(trials: Sequence[Found]) -> Found:
    """The mean over trials of every text: a text read in several trials is one text, not several.

    A trial is the table of texts (rows) and units (columns) float32, and n_constant [units].
    """
    tables, n_constant = zip(*trials, strict=True)
    together = pd.concat(tables)
    return together.groupby(level=0).mean().astype(np.float32), np.max(n_constant, axis=0)


def over_trials(method: HeadImportance, trials: Sequence[pd.DataFrame], n_layers: int) -> Estimate:
    """Mean over trials of each trial's value, with a 95 % interval that holds trials as well as
    texts.

    trials: tables of texts (rows, by text_id) and units (columns). Texts are redrawn together in
    all trials, trials by the model of `engine.stats.gap_of_means`; a head that a trial's texts say
    nothing about counts as 0 there. A score that reads no texts varies with the trials only.
    """
    known = [part for part in trials if len(part)]
    texts = pd.Index(sorted(set().union(*(part.index for part in known))))
    n = len(texts)
    counts = (
        rng("importance over trials", n)
        .multinomial(n, np.full(n, 1 / n), size=DRAWS)
        .astype(np.float64)
    )
    values, draws = [], []
    for part in known:
        per_text, weights = part.to_numpy(), counts[:, texts.get_indexer(part.index)]
        value = values_under(method, per_text, n_layers, np.ones((1, len(part))))[0]
        silent = np.isnan(value)
        values.append(np.where(silent, 0.0, value))
        draws.append(np.where(silent, 0.0, values_under(method, per_text, n_layers, weights)))
    units = values[0].shape[0]
    shares, size = np.zeros(units, dtype=bool), np.full(units, float(n))
    return against_zero(
        Trials(tuple(range(len(known))), np.stack(values), np.stack(draws), shares, size)
    )


def against_zero(trials: Trials) -> Estimate:
    """How far the mean over trials is from 0, a cell per head."""
    values, draws = np.zeros_like(trials.values[:1]), np.zeros_like(trials.draws[:1])
    return difference(trials, replace(trials, numbers=(FIXED,), values=values, draws=draws))


def _importance_rows(
    context: TextContext,
    which: tuple[str, str, int],
    found: Found,
    groups: pd.DataFrame,
    trials: Sequence[pd.DataFrame] = (),
) -> Iterator[pd.DataFrame]:
    """Rows of one score in one trial, or in all of them together.

    which: stage, score, seed; found: the table of texts (rows) and units (columns) float32, and
    n_constant [units].
    trials: the tables behind it, where it stands for several.
    """
    method, model = head_importance(which[1]), context.any_model
    table, n_constant = found
    per_text = table.to_numpy()
    for axis, group, rows in _text_groups(
        groups.loc[table.index] if method.reads_texts else None, len(table)
    ):
        if len(trials) > 1:
            shown = over_trials(
                method,
                [part[part.index.isin(table.index[rows])] for part in trials],
                model.n_layers,
            )
        else:
            shown = aggregate(method, per_text[rows], model.n_layers)
        constant = n_constant if axis == "" else np.isnan(per_text[rows]).sum(axis=0)
        silent = says_nothing(np.isnan(per_text[rows]).sum(axis=0), len(rows))
        yield _by_head(
            context,
            **dict(zip(("stage", "score", "seed"), which, strict=True)),
            axis=axis,
            group=group,
            value=np.where(silent, 0.0, shown.value),
            low=shown.low,
            high=shown.high,
            n=len(rows) if method.reads_texts else 0,
            n_constant=constant,
        )


def _by_head(context: TextContext, **columns: Any) -> pd.DataFrame:
    """A row per head: unit, layer, head, and these columns, [units] or one value for all."""
    units = np.arange(context.n_units)
    layer, head = np.divmod(units, context.any_model.n_heads)
    return pd.DataFrame({"unit": units, "layer": layer, "head": head, **columns})


def _text_groups(table: pd.DataFrame | None, n: int) -> Iterator[tuple[str, str, np.ndarray]]:
    """Axis, group and rows [texts] int: of all texts, then of every group of texts that is large
    enough.

    A score that reads no texts (None) has no groups.
    """
    yield "", "", np.arange(n)
    if table is None:
        return
    for axis in table.columns:
        for group in sorted(table[axis].unique()):
            rows = np.flatnonzero((table[axis] == group).to_numpy())
            if group and len(rows) >= MIN_TEXTS:
                yield axis, str(group), rows


TRUTH_DRAWS = 400
COSTS = ("loss", "accuracy")
TRUTH = "metric seed unit layer head cost low high n"
OF_TRUTH = ("pearson", "spearman", "slope", "slope_low", "slope_high")
AGREEMENT = ["score", "metric", "seed", *OF_TRUTH, "n_heads"]


def truth_table(context: TextContext, trials: int) -> pd.DataFrame:
    """A row per head, metric and seed (-1: mean over seeds): what silencing it costs on the test
    texts.

    cost: mean cross-entropy without the head minus with it (nats), accuracy with the head minus
    without it: positive where the head helps. Intervals are 95 %, of a single seed over texts, of
    the mean over texts and seeds.
    """
    parts = []
    for metric in COSTS if truth_shards(context, trials) else ():
        found = _cost_trials(context, metric, trials)
        each = {number: found.only(number) for number in found.numbers}
        parts += [
            _head_truth_rows(context, some, metric, seed)
            for seed, some in {**each, POOLED: found}.items()
        ]
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    return table.reindex(columns=TRUTH.split())


def _cost_trials(context: TextContext, metric: str, trials: int) -> Trials:
    """Costs of every head in every trial, the same redrawn texts in all."""
    shards = truth_shards(context, trials)
    per_text = [_costs(context.without_weights(shard)[0], metric) for shard in shards]
    n, units = per_text[0].shape
    weights = rng("leave one out", n).multinomial(n, np.full(n, 1 / n), size=TRUTH_DRAWS) / n
    draws = np.stack([weights @ costs for costs in per_text])
    values = np.stack([costs.mean(axis=0) for costs in per_text])
    numbers = tuple(shard.trial for shard in shards)
    return Trials(
        numbers,
        values,
        draws,
        np.full(units, metric != "loss"),
        np.full(units, float(n)),
        most=np.inf if metric == "loss" else 1.0,
    )


def _costs(arrays: dict[str, np.ndarray], metric: str) -> np.ndarray:
    """Cost of every head for every text, [texts, units] float64."""
    found = arrays["loss" if metric == "loss" else "right"].astype(np.float64)
    return ((found[1:] - found[0]) * (1.0 if metric == "loss" else -1.0)).T


def _head_truth_rows(context: TextContext, trials: Trials, metric: str, seed: int) -> pd.DataFrame:
    found = against_zero(trials)
    ends = {"cost": found.value, "low": found.low, "high": found.high}
    n = trials.units.astype(int)
    return _by_head(context, metric=metric, seed=seed, **ends, n=n)


def agreement_table(importance: pd.DataFrame, truth: pd.DataFrame) -> pd.DataFrame:
    """How each score of the fine-tuned model goes with the cost of its heads, over heads, seed by
    seed and pooled.

    slope: of the cost on the score in standard deviations of the score, least squares: what a head
    that stands one deviation higher costs more. Its interval is 95 %, of the regression over heads.
    It is the wider of two: costs scatter alike, or with the score (HC3, MacKinnon and White 1985).
    """
    rows, mine = [], where(importance, stage="fine-tuned", group="")
    for (score, seed), part in mine.groupby(["score", "seed"]):
        for metric, costs in where(truth, seed=seed).groupby("metric"):
            both = part[["unit", "value"]].merge(costs[["unit", "cost"]]).dropna()
            found = agreement(both["value"], both["cost"])
            rows.append({"score": score, "metric": metric, "seed": seed, **found})
    return pd.DataFrame(rows, columns=AGREEMENT)


def agreement(score: Sequence[float], cost: Sequence[float]) -> dict[str, float]:
    """Pearson, Spearman and slope (see `agreement_table`) of scores and costs [heads]; NaN where
    one never varies."""
    x, y = np.asarray(score, dtype=float), np.asarray(cost, dtype=float)
    found = [np.nan] * len(OF_TRUTH)
    if len(x) >= 3 and np.ptp(x) and np.ptp(y):
        z, freedom = (x - x.mean()) / x.std(ddof=1), len(x) - 1
        slope, rho = z @ y / freedom, spearmanr(x, y).statistic
        off = y - y.mean() - slope * z
        alike = np.linalg.norm(off) * np.sqrt(freedom / (freedom - 1))
        apart = np.linalg.norm(z * off / np.maximum(1 - 1 / len(x) - z**2 / freedom, 1e-9))
        half = t.isf(MISSED / 2, freedom - 1) * max(alike, apart) / freedom
        found = [np.corrcoef(x, y)[0, 1], rho, slope, slope - half, slope + half]
    return {**dict(zip(OF_TRUTH, map(float, found), strict=True)), "n_heads": len(x)}


DIFFERENCES = ("auc", "accuracy", "auc_gap", "accuracy_gap")
"""What is compared between two scores of the same procedure."""
REFERENCES = ("random", "magnitude", "michel")
"""Scores that another is compared with, where both were asked for."""


def measure_of(
    about: TextSet,
    texts: pd.DataFrame,
    axes: Sequence[str],
    dense: np.ndarray | Sequence[np.ndarray] | Mapping[int, np.ndarray],
    split: str = TEST,
    n_boot: int = 400,
) -> GroupMeasure:
    """What measures answers [texts, classes] to the same texts.

    about: what the texts are, their classes and metric. dense: answers of the full model, or of
    that of every trial.
    """
    further: list[Further] = [Matthews()] if about.metric == MATTHEWS else []
    return GroupMeasure(
        texts,
        about.classes,
        axes,
        dense,
        n_boot,
        n_permutations=n_boot // 2,
        split=split,
        items=TEXTS,
        further=[*further, *([Borkan()] if len(about.classes) == 2 else [])],
    )


def text_tables(
    audit: Session[TextPlan, TextContext], finished: Finished
) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """All tables of the run, and sentences about the groups that a screen must show."""
    context, request = audit.context, audit.request
    check, texts = context.hooks.check, context.table(TEST)
    dense = dense_trials(context, request.trials)
    answers = context.exact(dense)
    is_several = context.settings.retune
    given = answers if is_several else answers[0]
    measure = measure_of(context.texts, texts, request.axes, given)
    measured = measured_arms(context.answers, finished.levels, measure, check)
    levels, tickets = ticket_tables(context, finished, dense, measure)
    masks, ranks = null_tables(context, finished, measure)
    importance = importance_table(context, finished.arms, request.trials)
    truth = truth_table(context, request.trials)
    check()
    full = {f"{DENSE}#{shard.trial}": shard for shard in dense} if is_several else {}
    numbers = {name: shard.trial for name, shard in full.items()}
    results, groups = numbers_of(measure, measured, check, numbers)
    tables = {
        "variants": variants_table(context, finished, dense, full, levels),
        "results": results,
        "groups": groups,
        "arm_differences": differences_table(
            score_differences(measured), "base", "score", "other", "sparsity"
        ),
        "texts": texts[["text_id", "split", "label", *context.texts.groups, "text", "text_b"]],
        "predictions": predictions_table(context, finished, dense, full, texts),
        "importance": importance,
        "iterations": iterations_table(context, finished),
        "iteration_scores": iteration_scores(finished),
        "ticket_levels": levels,
        "tickets": tickets,
        "random_masks": masks,
        "random_ranks": ranks,
        "head_truth": truth,
        "truth_agreement": agreement_table(importance, truth),
        "lens": _fetched(context, lens_shards(context, finished), "stage"),
        "costs": _fetched(context, cost_shards(finished), "variant"),
        "curves": _curves(context, finished, dense),
    }
    weights = weights_table(
        (name, within(context.fetch_arrays(shard)[0], "weights/"))
        for name, shard in [*full.items(), *finished.trained()]
        if request.keep_weights == "all" or (request.keep_weights == "first" and not shard.trial)
    )
    return tables | ({"weights": weights} if len(weights) else {}), list(measure.notes)


def score_differences(measured: Mapping[ArmLevel, Arm]) -> Iterator[pd.DataFrame]:
    """Every score minus its references, by procedure and sparsity: conductance minus each, any
    other score minus random."""
    for one, mine in measured.items():
        wanted = REFERENCES if one.arm.score == "conductance" else ("random",)
        for other, theirs in measured.items():
            same = one.arm.procedure is other.arm.procedure and one.sparsity == other.sparsity
            if not same or one is other or other.arm.score not in wanted:
                continue
            table = arm_difference(mine, theirs)
            yield table[table["metric"].isin(DIFFERENCES)].assign(
                base=one.arm.procedure.name,
                score=one.arm.score,
                other=other.arm.score,
                sparsity=one.sparsity,
                n_trials=one.arm.n_trials,
            )


def variants_table(
    context: TextContext,
    finished: Finished,
    dense: Sequence[TextShard],
    full: Mapping[str, TextShard],
    levels: pd.DataFrame,
) -> pd.DataFrame:
    """The full model, every pooled variant, every trial; levels: the table `ticket_levels`."""
    flat = {shard: int(degenerate(context.answers(shard))) for shard in dense}
    same = {"parameters": context.any_model.n_parameters}
    retune = context.settings.retune
    rows = [_row(DENSE, None, retrained=retune, degenerate=sum(flat.values()), **same)]
    for name, shard in full.items():
        one = {"seed": shard.trial, "pooled": DENSE, "chosen": False, "degenerate": flat[shard]}
        rows.append(_row(name, None, retrained=True, **one, **same))
    words = levels[levels["axis"] == ""].set_index(["method", "sparsity"])["word"]
    for level in finished.levels:
        trials = [_trial_row(context, level, trial) for trial in range(level.arm.n_trials)]
        pooled = {
            **over_repeats(trials, "realised", "parameters"),
            **{name: trials[0][name] for name in ("n_cut", "retrained")},
        }
        pooled |= {
            "sparsity": level.sparsity,
            "parameters": int(pooled["parameters"]),
            "ticket": words.get((level.arm.name, level.sparsity), ""),
        }
        rows += [_row(level.pooled, level.arm, **pooled), *trials]
    return pd.DataFrame(rows)


def _row(name: str, arm: TextArm | None, **more: Any) -> Values:
    first = {"base": arm.procedure.name if arm else "", "score": arm.score if arm else ""}
    usual = {
        "retrained": False,
        "cut": "[]",
        "mask_digest": "",
        "parameters": 0,
        "max_logit_difference": 0.0,
        "ticket": "",
    }
    row = variant_row(name, arm.name if arm else DENSE, first)
    return {**row, **usual, **more}


def _trial_row(context: TextContext, level: ArmLevel, trial: int) -> Values:
    found, shard = level.rounds[trial], level.shards()[trial]
    mask, (_, plain) = context.mask(found.cut), context.without_weights(shard)
    return _row(
        level.id_of(shard),
        level.arm,
        sparsity=level.sparsity,
        realised=mask.sparsity,
        n_cut=len(found.cut),
        seed=trial,
        pooled=level.pooled,
        chosen=False,
        degenerate=int(degenerate(context.answers(shard))),
        retrained=found.retrained,
        cut=json.dumps(list(mask.units)),
        mask_digest=mask.digest,
        parameters=context.parameters_after(found.cut),
        max_logit_difference=float(plain.get("max_logit_difference", np.nan)),
    )


def predictions_table(
    context: TextContext,
    finished: Finished,
    dense: Sequence[TextShard],
    full: Mapping[str, TextShard],
    texts: pd.DataFrame,
) -> pd.DataFrame:
    """Answers of every trial; "dense" is the mean of the full models' probabilities where there are
    several."""
    cut = {level.id_of(one): one for level in finished.levels for one in level.shards()}
    mean = np.mean([context.answers(shard) for shard in dense], axis=0)
    answers = {name: context.answers(shard) for name, shard in {**full, **cut}.items()}
    return answers_table({DENSE: mean, **answers}, texts, "text_id")


def iterations_table(context: TextContext, finished: Finished) -> pd.DataFrame:
    """Every round of every procedure: what it cut, the task's metric of the model after it, how far
    its attributions are from complete, and on how many texts they rest."""
    labels, rows = context.table(TEST)["label"].to_numpy(), []
    for name, trial, one in finished.each_round():
        metric = float("nan")
        if one.answers is not None:
            metric = task_metric(context.texts.metric, context.answers(one.answers), labels)
        arrays, plain = context.without_weights(one.importance)
        delta = np.abs(arrays["delta"])
        known = delta[np.isfinite(delta)]
        rows.append(
            {
                "method": name,
                "seed": trial,
                "iteration": one.number,
                "n_cut": len(one.cut),
                "sparsity": len(one.cut) / context.n_units,
                "units": json.dumps(list(one.cut)),
                "newly": json.dumps(list(one.newly)),
                "metric": metric,
                "delta": float(known.mean()) if len(known) else np.nan,
                "n_texts": len(plain["text_ids"]),
                "parameters": context.parameters_after(one.cut),
                "retrained": one.retrained,
            }
        )
    return pd.DataFrame(rows)


def iteration_scores(finished: Finished) -> pd.DataFrame:
    """The importance that each round cut by; NaN for heads that were gone."""
    parts = [
        pd.DataFrame({"unit": np.arange(len(one.values)), "value": one.values}).assign(
            method=name, seed=trial, iteration=one.number
        )
        for name, trial, one in finished.each_round()
    ]
    columns = ["method", "seed", "iteration", "unit", "value"]
    return pd.concat(parts, ignore_index=True)[columns]


def _fetched(context: TextContext, shards: Mapping[str, TextShard], column: str) -> pd.DataFrame:
    """The tables of some measurements, one below the other; `column` says whose."""
    tables = context.fetch(list(shards.values()))
    named = [table.assign(**{column: name}) for name, table in zip(shards, tables, strict=True)]
    return pd.concat([part for part in named if len(part)] or named[:1], ignore_index=True)


def _curves(context: TextContext, finished: Finished, dense: Sequence[TextShard]) -> pd.DataFrame:
    """Loss per epoch of every fine-tuning that ends at an asked sparsity, and of the full
    models."""
    fits = [*((f"{DENSE}#{shard.trial}", shard) for shard in dense), *finished.trained()]
    parts = (curve_of(context.without_weights(shard)[0], name, "tune") for name, shard in fits)
    return curves_table(parts, ["variant", "phase", "step", "loss", "rate"])
