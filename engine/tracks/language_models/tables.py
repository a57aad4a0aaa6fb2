"""From finished shards to the tables of a run: results, groups, generations, costs.

Reported numbers come from test prompts and test text. Where γ is searched, its candidates are shown on validation,
where they were compared, and only the chosen ones on test.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pandas as pd

from engine.audit.progress import Progress
from engine.core.seeds import key_of
from engine.core.types import READINGS
from engine.stats.resampling import Difference, Interval
from engine.tracks.language_models.bias import descriptors_band, words_band
from engine.tracks.language_models.bias_bootstrap import BiasBootstrap, mean_interval
from engine.tracks.language_models.bias_definitions import lay_out
from engine.tracks.language_models.bias_errors import BiasErrors
from engine.tracks.language_models.by_group import group_table
from engine.tracks.language_models.context import PromptContext, Shard
from engine.tracks.language_models.levelling import levelling
from engine.tracks.language_models.perplexity import perplexity
from engine.tracks.language_models.perplexity_intervals import paired_perplexity_difference, perplexity_interval
from engine.tracks.language_models.request import SEARCH, AuditRequest
from engine.tracks.language_models.variants import DENSE, Variant

TEST, VALIDATION = "test", "validation"
SHARE = (0.0, 1.0)
"""What a toxicity can be."""
NULL_DRAWS = 500
Place = tuple[tuple[int, ...], str, str]
"""Where something is measured: heads cut, split, axis."""
Placed = tuple[Variant, str, tuple[str, ...]]
"""What is reported: a variant, on which split, on which axes."""


def places(request: AuditRequest, variants: Sequence[Variant]) -> list[Placed]:
    """Everything that an audit reports."""
    out = [(variant, TEST, request.axes) for variant in variants if variant.chosen]
    if request.gamma == SEARCH:
        searched = [item for item in variants if not np.isnan(item.gamma) and item.target_axis]
        out += [(variant, VALIDATION, request.axes) for variant in variants if variant.method == DENSE]
        out += [(variant, VALIDATION, (variant.target_axis,)) for variant in searched]
    return out


def wanted_shards(request: AuditRequest, variants: Sequence[Variant]) -> list[Shard]:
    """Every measurement the tables of an audit need."""
    floor = [Shard("floor", (), axis, TEST) for axis in request.axes]
    return [*floor, *shards_at(places(request, variants), request.seed_list, (TEST,))]


def shards_at(placed: Sequence[Placed], seeds: Sequence[int], detailed: Sequence[str]) -> list[Shard]:
    """Every measurement that these places need; of the splits `detailed` also those of groups, and of test costs."""
    shards: list[Shard] = []
    for variant, split, axes in placed:
        shards += [Shard("verdicts", variant.cut, axis, split, seed) for axis in axes for seed in seeds]
        shards += [Shard("prompt_nll", variant.cut, axis, split) for axis in axes if split in detailed]
        shards.append(Shard("windows", variant.cut, split=split))
        shards += [Shard("cost", variant.cut)] if split == TEST else []
    return list(dict.fromkeys(shards))


class Measured:
    """Reads shards of one request and turns them into tables. Equal masks are evaluated once."""

    def __init__(self, context: PromptContext, request: AuditRequest, progress: Progress, n_boot: int = 1000) -> None:
        self.context, self.request, self.progress, self.n_boot = context, request, progress, n_boot
        self.toxicity = cache(self._toxicity)
        self.bootstrap = cache(self._bootstrap)
        self.errors = cache(self._errors)
        self.windows = cache(self._windows)
        self.axis_rows = cache(self._axis_rows)
        self.group_rows = cache(self._group_rows)
        self.text_row = cache(self._text_row)

    def tables(self, variants: Sequence[Variant]) -> dict[str, pd.DataFrame]:
        """results, groups, generations, texts, windows, prompts and costs of an audit."""
        placed = places(self.request, variants)
        return {**self.tables_at(placed, (TEST,)), "prompts": self.context.table}

    def tables_at(self, placed: Sequence[Placed], detailed: Sequence[str]) -> dict[str, pd.DataFrame]:
        """results and windows of these places; of those on the splits `detailed` groups, generations and texts; costs
        of test."""
        results, groups = [], []
        for variant, split, axes in placed:
            self.context.hooks.check()
            self.progress.say("statistics", variant.id)
            rows = [row for axis in axes for row in self.axis_rows((variant.cut, split, axis))]
            rows.append(self.text_row(variant.cut, split))
            results += [{"variant": variant.id, "split": split, **row} for row in rows]
            if split in detailed:
                groups += [self.group_rows((variant.cut, split, axis)).assign(variant=variant.id) for axis in axes]
        generations, texts = self._generations([one for one in placed if one[1] in detailed])
        return {
            "results": pd.DataFrame(results),
            "groups": pd.concat(groups, ignore_index=True),
            "generations": generations,
            "texts": texts,
            "windows": self._all_windows(placed),
            "costs": self._costs([variant for variant, split, _ in placed if split == TEST]),
        }

    def _toxicity(self, place: Place) -> pd.DataFrame:
        """Verdicts with prompt columns, one row per prompt and seed."""
        cut, split, axis = place
        parts = self.context.fetch([Shard("verdicts", cut, axis, split, seed) for seed in self.request.seed_list])
        verdicts = pd.concat([part.assign(seed=seed) for part, seed in zip(parts, self.request.seed_list, strict=True)])
        prompts = self.context.rows(axis, split)[["prompt_id", "subgroup", "template", "descriptor"]]
        return prompts.merge(verdicts, on="prompt_id", validate="one_to_many")

    def _bootstrap(self, split: str, axis: str) -> BiasBootstrap:
        return BiasBootstrap(self.toxicity(((), split, axis)), self.n_boot, key_of("results", split, axis))

    def _errors(self, split: str, axis: str) -> BiasErrors:
        return BiasErrors(self.toxicity(((), split, axis)))

    def _all_windows(self, placed: Sequence[Placed]) -> pd.DataFrame:
        """What every reported perplexity is made of, one row per window of text."""
        parts = [self.windows(one.cut, split).assign(variant=one.id, split=split) for one, split, _ in placed]
        return pd.concat(parts, ignore_index=True)[["variant", "split", "window", "nll", "tokens"]]

    def _windows(self, cut: tuple[int, ...], split: str) -> pd.DataFrame:
        return self.context.fetch([Shard("windows", cut, split=split)])[0]

    def _axis_rows(self, place: Place) -> list[dict[str, object]]:
        """Every result of one mask on one axis and split."""
        cut, split, axis = place
        table, boot, errors = self.toxicity(place), self.bootstrap(split, axis), self.errors(split, axis)
        readings = READINGS if not cut else (self.request.reading,)
        rows = [self._bias_row(table, errors, reading, bool(cut)) for reading in readings]
        rows += self._level_rows(table, self.toxicity(((), split, axis)), boot, bool(cut))
        if not cut and split == TEST:
            rows.append(self._floor_row(axis))
        return [{**row, "axis": axis} for row in rows]

    def _bias_row(self, table: pd.DataFrame, errors: BiasErrors, reading: str, paired: bool) -> dict[str, object]:
        change = errors.difference(table, reading) if paired else None
        row = _row(f"bias:{reading}", errors.interval(reading, table), change)
        return {**row, **_bands(table, reading)}

    def _level_rows(
        self, table: pd.DataFrame, dense: pd.DataFrame, boot: BiasBootstrap, paired: bool
    ) -> list[dict[str, object]]:
        """Mean toxicity, toxic share, the gap and its two ends."""
        rows = []
        for metric, values in (("toxicity", table), ("toxic_share", _over_half(table))):
            before = dense if metric == "toxicity" else _over_half(dense)
            shown = mean_interval(values["toxicity"], values["prompt_id"], self.n_boot, span=SHARE)
            rows.append(_row(metric, shown, _mean_difference(before, values, self.n_boot) if paired else None))
        split = levelling(dense, table, boot)
        rows.append(_row("gap", split.gap_variant, split.gap_change if paired else None))
        for metric, group, change in (
            ("worst_group", split.worst_group, split.worst_change),
            ("best_group", split.best_group, split.best_change),
        ):
            part = table[table["subgroup"] == group]
            if len(part):
                shown = mean_interval(part["toxicity"], part["prompt_id"], self.n_boot, span=SHARE)
                rows.append({**_row(metric, shown, change if paired else None), "group": group})
        return [{**row, "verdict": split.verdict if row["metric"] == "gap" else ""} for row in rows]

    def _floor_row(self, axis: str) -> dict[str, object]:
        """Bias of the judge on the prompts alone."""
        table = self.context.fetch([Shard("floor", (), axis, TEST)])[0]
        prompts = self.context.rows(axis, TEST)[["prompt_id", "subgroup", "template", "descriptor"]]
        merged = prompts.merge(table, on="prompt_id")
        row = _row("bias_floor", BiasErrors(merged).interval(self.request.reading), None)
        return {**row, **_bands(merged, self.request.reading)}

    def _text_row(self, cut: tuple[int, ...], split: str) -> dict[str, object]:
        """Perplexity of one mask; n counts tokens."""
        windows, dense, preset = self.windows(cut, split), self.windows((), split), self.context.settings.window
        shown, change = (
            perplexity_interval(windows, self.n_boot),
            paired_perplexity_difference(dense, windows, self.n_boot),
        )
        value, nan = perplexity(windows, preset), float("nan")
        if preset.published:  # its mean of window means has no interval of its own
            shown = Interval(value, nan, nan, shown.n)
            change = Difference(value - perplexity(dense, preset), nan, nan, nan, shown.n)
        row = _row("perplexity", shown, change if cut else None)
        return {**row, "axis": "", "value": value, "n": int(windows["tokens"].sum())}

    def _group_rows(self, place: Place) -> pd.DataFrame:
        cut, split, axis = place
        boot, dense = self.bootstrap(split, axis), self.toxicity(((), split, axis))
        nll = [self._prompt_nll(part, split, axis) for part in ((), cut)]
        tables = [
            group_table(dense, self.toxicity(place) if cut else None, metric="toxicity", bootstrap=boot),
            group_table(nll[0], nll[1] if cut else None, metric="perplexity", bootstrap=boot),
        ]
        return pd.concat(tables, ignore_index=True).assign(split=split, axis=axis)

    def _prompt_nll(self, cut: tuple[int, ...], split: str, axis: str) -> pd.DataFrame:
        rows = self.context.rows(axis, split)[["prompt_id", "subgroup", "template", "descriptor"]]
        return rows.merge(self.context.fetch([Shard("prompt_nll", cut, axis, split)])[0], on="prompt_id")

    def _generations(self, placed: Sequence[Placed]) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Every continuation at these places; equal texts are kept once."""
        rows = []
        for variant, split, axes in placed:
            shards = [
                Shard("verdicts", variant.cut, axis, split, seed) for axis in axes for seed in self.request.seed_list
            ]
            texts = self.context.fetch([Shard("texts", *_after_kind(shard)) for shard in shards])
            for shard, verdict, text in zip(shards, self.context.fetch(shards), texts, strict=True):
                part = verdict.merge(text[["prompt_id", "text"]], on="prompt_id")
                rows.append(part.assign(variant=variant.id, split=split, axis=shard.axis, seed=shard.seed))
        table = pd.concat(rows, ignore_index=True)
        table["toxicity"] = table["toxicity"].astype("float32")
        table["text_id"], distinct = pd.factorize(table.pop("text"), sort=True)
        table["text_id"] = table["text_id"].astype("int32")
        return table, pd.DataFrame({"text_id": np.arange(len(distinct), dtype="int32"), "text": distinct})

    def _costs(self, variants: Sequence[Variant]) -> pd.DataFrame:
        tables = self.context.fetch([Shard("cost", variant.cut) for variant in variants])
        named = [table.assign(variant=variant.id) for variant, table in zip(variants, tables, strict=True)]
        return pd.concat(named, ignore_index=True) if named else pd.DataFrame()


def _bands(table: pd.DataFrame, reading: str) -> dict[str, object]:
    """Both null bands of a bias: null_* (words), group_null_* (whole descriptors), and why the second is missing."""
    layout = lay_out(table)
    words, group = words_band(layout, reading, NULL_DRAWS), descriptors_band(layout, reading, NULL_DRAWS)
    found = {
        f"{start}_{name}": getattr(band, name)
        for start, band in (("null", words), ("group_null", group))
        for name in ("mean", "low", "high", "p")
    }
    return {**found, "group_note": "; ".join(group.notes)}


def _after_kind(shard: Shard) -> tuple[tuple[int, ...], str, str, int]:
    return shard.cut, shard.axis, shard.split, shard.seed


def _over_half(table: pd.DataFrame) -> pd.DataFrame:
    """Verdicts as 0 or 1: above one half."""
    return table.assign(toxicity=(table["toxicity"] > 0.5).astype(float))


def _mean_difference(dense: pd.DataFrame, table: pd.DataFrame, n_boot: int) -> Difference:
    """Paired change of the mean, whole prompts resampled."""
    if not all(np.array_equal(dense[name].to_numpy(), table[name].to_numpy()) for name in ("prompt_id", "seed")):
        both = dense[["prompt_id", "seed"]].merge(table[["prompt_id", "seed"]], validate="one_to_one")
        dense, table = (both.merge(one, on=["prompt_id", "seed"]) for one in (dense, table))
    change = table["toxicity"].to_numpy() - dense["toxicity"].to_numpy()
    shown = mean_interval(change, dense["prompt_id"], n_boot, span=(-1.0, 1.0))
    return Difference(shown.value, shown.low, shown.high, float("nan"), shown.n)


def _row(metric: str, shown: Interval, change: Difference | None) -> dict[str, object]:
    nan = float("nan")
    row = {"metric": metric, "value": shown.value, "low": shown.low, "high": shown.high, "n": shown.n}
    row |= {f"{start}_{name}": nan for start in ("null", "group_null") for name in ("mean", "low", "high", "p")}
    row |= {"group_note": "", "group": "", "verdict": ""}
    if change is None:
        return {**row, "delta": nan, "delta_low": nan, "delta_high": nan, "delta_p": nan}
    return {
        **row, "delta": change.value, "delta_low": change.low, "delta_high": change.high, "delta_p": change.p
    }  # fmt: skip
