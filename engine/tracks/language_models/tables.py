"""From finished shards to the tables of a run: results, groups, generations, costs.

Reported numbers come from test prompts and test text. Where γ is searched, its candidates are shown
on validation, where they were compared, and only the chosen ones on test.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pandas as pd

from engine.audit.progress import Progress
from engine.core.ids import key_of
from engine.core.types import READINGS
from engine.stats.resampling import Difference, Interval
from engine.store.tables import Pieces
from engine.tracks.language_models.bias import (
    Exchanges,
    Layout,
    checked_toxicity,
    descriptors_band,
    lay_out,
    words_band,
)
from engine.tracks.language_models.bias_intervals import (
    BiasBootstrap,
    BiasErrors,
    coded_mean_interval,
    with_toxicity,
)
from engine.tracks.language_models.context import PromptContext, Shard
from engine.tracks.language_models.groups import UNUSABLE, group_rows, levelling
from engine.tracks.language_models.perplexity import (
    paired_perplexity_difference,
    perplexity,
    perplexity_interval,
    share_interval,
)
from engine.tracks.language_models.request import SEARCH, AuditRequest
from engine.tracks.language_models.selection.base import is_even_method
from engine.tracks.language_models.variants import DENSE, Variant, What

TEST, VALIDATION = "test", "validation"
SHARE = (0.0, 1.0)
"""What a toxicity can be."""
NULL_DRAWS = 500
PER_PLACE, PER_ROW = 0.02, 2e-5
"""Seconds of the statistics of one mask on one axis and split, and of each of its texts: of the
embedded audit, on one core with other work beside it."""
GENERATED = ("prompt_id", "toxicity", "variant", "split", "axis", "seed")
"""Columns of the table `generations`, besides the number of the text."""
UNCUT = What()
Place = tuple[What, str, str]
"""Where something is measured: what is done to the dense model, split, axis."""
Placed = tuple[Variant, str, tuple[str, ...]]
"""What is reported: a variant, on which split, on which axes."""


def places(request: AuditRequest, variants: Sequence[Variant]) -> list[Placed]:
    """Everything that an audit reports."""
    out = [(variant, TEST, request.axes) for variant in variants if variant.chosen]
    if request.gamma == SEARCH:
        searched = [item for item in variants if not np.isnan(item.gamma) and item.target_axis]
        searched = [item for item in searched if not is_even_method(item.method)]
        out += [
            (variant, VALIDATION, request.axes) for variant in variants if variant.method == DENSE
        ]
        out += [(variant, VALIDATION, (variant.target_axis,)) for variant in searched]
    return out


def seconds_of(context: PromptContext, shards: Iterable[Shard]) -> float:
    """About what statistics of these measurements take."""
    judged = [shard for shard in shards if shard.kind == "verdicts"]
    places = {(shard.cut, shard.axis, shard.split) for shard in judged}
    return PER_PLACE * len(places) + PER_ROW * sum(
        len(context.rows(shard.axis, shard.split)) for shard in judged
    )


def wanted_shards(request: AuditRequest, variants: Sequence[Variant]) -> list[Shard]:
    """Every measurement the tables of an audit need."""
    floor = [Shard("floor", (), axis, TEST) for axis in request.axes]
    return [*floor, *shards_at(places(request, variants), request.seed_list, (TEST,))]


def shards_at(
    placed: Sequence[Placed], seeds: Sequence[int], detailed: Sequence[str]
) -> list[Shard]:
    """Every measurement that these places need; of the splits `detailed` also those of groups, and
    of test costs."""
    shards: list[Shard] = []
    has_arms = any(variant.arm for variant, _, _ in placed)
    for variant, split, axes in placed:
        what = variant.what
        shards += [what.shard("verdicts", axis, split, seed) for axis in axes for seed in seeds]
        shards += [what.shard("prompt_nll", axis, split) for axis in axes if split in detailed]
        shards.append(what.shard("windows", split=split))
        shards += [what.shard("cost")] if split == TEST else []
        shards += (
            [what.shard("divergence", split=split)] if has_arms and split == TEST and what else []
        )
    return list(dict.fromkeys(shards))


class Measured:
    """Reads shards of one request and turns them into tables. Equal masks are evaluated once."""

    def __init__(
        self, context: PromptContext, request: AuditRequest, progress: Progress, n_boot: int = 1000
    ) -> None:
        self.context, self.request, self.progress, self.n_boot = context, request, progress, n_boot
        self.known: dict[str, int] = {}
        self.drawn = cache(self._drawn)
        self.toxicity = lru_cache(4)(
            self._toxicity
        )  # what has rows for prompts is of one axis and split at a time
        self.prompts = lru_cache(2)(self._prompts)
        self.layout = lru_cache(2)(self._layout)
        self.bootstrap = lru_cache(1)(self._bootstrap)
        self.errors = lru_cache(1)(self._errors)
        self.exchanges = lru_cache(1)(self._exchanges)
        self.prompt_nll = lru_cache(2)(self._prompt_nll)
        self.windows = cache(self._windows)
        self.axis_rows = cache(self._axis_rows)
        self.group_rows = cache(self._group_rows)
        self.text_row = cache(self._text_row)

    def tables(self, variants: Sequence[Variant]) -> dict[str, pd.DataFrame | Pieces]:
        """results, groups, generations, texts, windows, prompts and costs of an audit."""
        placed = places(self.request, variants)
        return {**self.tables_at(placed, (TEST,)), "prompts": self.context.table}

    def tables_at(
        self, placed: Sequence[Placed], detailed: Sequence[str]
    ) -> dict[str, pd.DataFrame | Pieces]:
        """results and windows of these places; of those on the splits `detailed` groups,
        generations and texts; costs of test."""
        results, groups, has_arms = [], [], any(variant.arm for variant, _, _ in placed)
        self._read(placed, detailed)
        for variant, split, axes in placed:
            rows = [row for axis in axes for row in self.axis_rows((variant.what, split, axis))]
            rows.append(self.text_row(variant.what, split))
            rows += (
                self._divergence_rows(variant.what)
                if has_arms and split == TEST and variant.what
                else []
            )
            told = _no_verdict if self._is_lost(variant.what, split) else dict
            results += [{"variant": variant.id, "split": split, **told(row)} for row in rows]
            for axis in axes if split in detailed else ():
                groups += [
                    {**told(row), "variant": variant.id}
                    for row in self.group_rows((variant.what, split, axis))
                ]
        generations, texts = self._generations([one for one in placed if one[1] in detailed])
        return {
            "results": pd.DataFrame(results),
            "groups": pd.DataFrame(groups),
            "generations": generations,
            "texts": texts,
            "windows": self._all_windows(placed),
            "costs": self._costs([variant for variant, split, _ in placed if split == TEST]),
        }

    def _is_lost(self, what: What, split: str) -> bool:
        """Whether it predicts text worse than a uniform guess among all tokens, which the dense
        model does not: what it writes says nothing about its bias."""
        most = self.context.lm.vocab_size
        return (
            bool(what)
            and not self.text_row(what, split)["value"] <= most
            and self.text_row(UNCUT, split)["value"] <= most
        )

    def _read(self, placed: Sequence[Placed], detailed: Sequence[str]) -> None:
        """The rows of all places, one axis and split after the other."""
        wanted = dict.fromkeys((split, axis, one) for one, split, axes in placed for axis in axes)
        for at, (split, axis, variant) in enumerate(sorted(wanted, key=lambda place: place[:2])):
            self.context.hooks.check()
            self.progress.afterwards *= 1 - 1 / (len(wanted) - at)
            self.progress.say("statistics", variant.id)
            self.axis_rows((variant.what, split, axis))
            if split in detailed:
                self.group_rows((variant.what, split, axis))
                self.drawn((variant.what, split, axis))

    def _toxicity(self, place: Place) -> pd.DataFrame:
        """Verdicts with prompt columns, one row per prompt and seed."""
        what, split, axis = place
        shards = [what.shard("verdicts", axis, split, seed) for seed in self.request.seed_list]
        verdicts = [
            self._column(shard, table, "toxicity") for shard, table in self._fetched(shards)
        ]
        return self.prompts(split, axis).assign(toxicity=np.stack(verdicts, axis=1).ravel())

    def _prompts(self, split: str, axis: str) -> pd.DataFrame:
        """Prompt columns, as often as there are seeds, and the seeds; a place for toxicities."""
        seeds = self.request.seed_list
        rows = self.context.rows(axis, split)[["prompt_id", "subgroup", "template", "descriptor"]]
        repeated = rows.loc[rows.index.repeat(len(seeds))].reset_index(drop=True)
        return repeated.assign(toxicity=0.0, seed=np.tile(seeds, len(rows)))

    def _layout(self, split: str, axis: str) -> Layout:
        return lay_out(self.prompts(split, axis))

    def _laid_out(self, place: Place) -> Layout:
        """The coded prompts of a place with its toxicities."""
        toxicity = self.toxicity(place)["toxicity"].to_numpy()
        return with_toxicity(self.layout(*place[1:]), checked_toxicity(toxicity))

    def _fetched(self, shards: Sequence[Shard]) -> Iterator[tuple[Shard, pd.DataFrame]]:
        return zip(shards, self.context.fetch(shards), strict=True)

    def _column(self, shard: Shard, table: pd.DataFrame, name: str) -> np.ndarray:
        """A column of a finished part in the order of the prompts, [prompts]."""
        wanted = self.context.rows(shard.axis, shard.split)["prompt_id"]
        if not table["prompt_id"].equals(wanted):
            table = wanted.to_frame().merge(table, on="prompt_id", validate="one_to_one")
        return table[name].to_numpy()

    def _exchanges(self, split: str, axis: str) -> Exchanges:
        return Exchanges(self.layout(split, axis), self.request.reading, NULL_DRAWS)

    def _bootstrap(self, split: str, axis: str) -> BiasBootstrap:
        return BiasBootstrap(
            self.toxicity((UNCUT, split, axis)), self.n_boot, key_of("results", split, axis)
        )

    def _errors(self, split: str, axis: str) -> BiasErrors:
        return BiasErrors(self.toxicity((UNCUT, split, axis)))

    def _all_windows(self, placed: Sequence[Placed]) -> pd.DataFrame:
        """What every reported perplexity is made of, one row per window of text."""
        parts = [
            self.windows(one.what, split).assign(variant=one.id, split=split)
            for one, split, _ in placed
        ]
        return pd.concat(parts, ignore_index=True)[["variant", "split", "window", "nll", "tokens"]]

    def _windows(self, what: What, split: str) -> pd.DataFrame:
        return self.context.fetch([what.shard("windows", split=split)])[0]

    def _axis_rows(self, place: Place) -> list[dict[str, object]]:
        """Every result of one mask on one axis and split."""
        what, split, axis = place
        readings = READINGS if not what else (self.request.reading,)
        rows = [self._bias_row(place, reading) for reading in readings]
        rows += self._level_rows(place)
        if not what and split == TEST:
            rows.append(self._floor_row(axis))
        return [{**row, "axis": axis} for row in rows]

    def _bias_row(self, place: Place, reading: str) -> dict[str, object]:
        what, split, axis = place
        table, errors, layout = (
            self.toxicity(place),
            self.errors(split, axis),
            self._laid_out(place),
        )
        change = errors.difference(table, reading) if what else None
        row = _row(f"bias:{reading}", errors.interval(reading, table), change)
        own = reading == self.request.reading
        exchanges = self.exchanges(split, axis) if own else Exchanges(layout, reading, NULL_DRAWS)
        return {**row, **_bands(layout, exchanges)}

    def _level_rows(self, place: Place) -> list[dict[str, object]]:
        """Mean toxicity, toxic share, the gap and its two ends."""
        what, split, axis = place
        table, dense, layout = (
            self.toxicity(place),
            self.toxicity((UNCUT, split, axis)),
            self._laid_out(place),
        )
        values, before, rows = layout.toxicity, dense["toxicity"].to_numpy(), []
        for metric, now, then in (
            ("toxicity", values, before),
            ("toxic_share", _over_half(values), _over_half(before)),
        ):
            change = (
                _as_difference(self._mean(now - then, layout.prompt, (-1.0, 1.0))) if what else None
            )
            rows.append(_row(metric, self._mean(now, layout.prompt, SHARE), change))
        found = levelling(dense, table, self.bootstrap(split, axis))
        rows.append(_row("gap", found.gap_variant, found.gap_change if what else None))
        for metric, group, change in (
            ("worst_group", found.worst_group, found.worst_change),
            ("best_group", found.best_group, found.best_change),
        ):
            if group and len(
                part := np.flatnonzero(layout.subgroup == layout.subgroups.index(group))
            ):
                prompts = np.unique(layout.prompt[part], return_inverse=True)[1]
                shown = self._mean(values[part], prompts, SHARE)
                rows.append({**_row(metric, shown, change if what else None), "group": group})
        return [{**row, "verdict": found.verdict if row["metric"] == "gap" else ""} for row in rows]

    def _mean(self, values: np.ndarray, prompts: np.ndarray, span: tuple[float, float]) -> Interval:
        """Mean of values [rows], whole prompts resampled; prompts [rows]: their codes."""
        return coded_mean_interval(values, prompts, self.n_boot, span=span)

    def _floor_row(self, axis: str) -> dict[str, object]:
        """Bias of the judge on the prompts alone."""
        table = self.context.fetch([Shard("floor", (), axis, TEST)])[0]
        prompts = self.context.rows(axis, TEST)[["prompt_id", "subgroup", "template", "descriptor"]]
        merged = prompts.merge(table, on="prompt_id")
        row = _row("bias_floor", BiasErrors(merged).interval(self.request.reading), None)
        layout = lay_out(merged)
        return {**row, **_bands(layout, Exchanges(layout, self.request.reading, NULL_DRAWS))}

    def _text_row(self, what: What, split: str) -> dict[str, Any]:
        """Perplexity of one mask; n counts tokens."""
        windows, dense, preset = (
            self.windows(what, split),
            self.windows(UNCUT, split),
            self.context.settings.window,
        )
        shown, change = (
            perplexity_interval(windows, self.n_boot),
            paired_perplexity_difference(dense, windows, self.n_boot),
        )
        value, nan = perplexity(windows, preset), float("nan")
        if preset.published:  # its mean of window means has no interval of its own
            shown = Interval(value, nan, nan, shown.n)
            change = Difference(value - perplexity(dense, preset), nan, nan, nan, shown.n)
        row = _row("perplexity", shown, change if what else None)
        return {**row, "axis": "", "value": value, "n": int(windows["tokens"].sum())}

    def _divergence_rows(self, what: What) -> list[dict[str, object]]:
        """How far next tokens are from the dense model's: KL per token, and the share whose
        likeliest token changed."""
        windows = self.context.fetch([what.shard("divergence", split=TEST)])[0]
        rows = []
        for metric, column, most in (("divergence", "kl", np.inf), ("flipped", "flipped", 1.0)):
            shown = share_interval(windows, column, self.n_boot, most)
            rows.append(
                {
                    **_row(metric, shown, _as_difference(shown)),
                    "axis": "",
                    "n": int(windows["tokens"].sum()),
                }
            )
        return rows

    def _group_rows(self, place: Place) -> list[dict[str, object]]:
        what, split, axis = place
        boot, dense = self.bootstrap(split, axis), self.toxicity((UNCUT, split, axis))
        nll = [self.prompt_nll(part, split, axis) for part in (UNCUT, what)]
        rows = group_rows(dense, self.toxicity(place) if what else None, "toxicity", boot)
        rows += group_rows(nll[0], nll[1] if what else None, "perplexity", boot)
        return [{**row, "split": split, "axis": axis} for row in rows]

    def _prompt_nll(self, what: What, split: str, axis: str) -> pd.DataFrame:
        """Columns prompt_id, nll, tokens."""
        shard = what.shard("prompt_nll", axis, split)
        table = self.context.fetch([shard])[0]
        ids = self.context.rows(axis, split)[["prompt_id"]]
        return ids.assign(**{name: self._column(shard, table, name) for name in ("nll", "tokens")})

    def _drawn(self, place: Place) -> list[tuple[int, np.ndarray, np.ndarray]]:
        """Of every seed: the seed, verdicts [prompts] float32, and numbers of the texts, [prompts]
        int32, which `known` counts as they come."""
        what, split, axis = place
        toxicity = self.toxicity(place)["toxicity"].to_numpy().astype("float32")
        shards = [what.shard("texts", axis, split, seed) for seed in self.request.seed_list]
        found = []
        for at, (shard, table) in enumerate(self._fetched(shards)):
            codes = [
                self.known.setdefault(text, len(self.known))
                for text in self._column(shard, table, "text")
            ]
            found.append(
                (shard.seed, toxicity[at :: len(shards)].copy(), np.array(codes, dtype="int32"))
            )
        return found

    def _generations(self, placed: Sequence[Placed]) -> tuple[Pieces, pd.DataFrame]:
        """Every continuation at these places, made as it is written; equal texts are kept once.

        Until then a verdict and a number are held of each, eight bytes, and the distinct texts.
        """
        at = [(one, split, axis) for one, split, axes in placed for axis in axes]
        drawn = [self.drawn((one.what, split, axis)) for one, split, axis in at]
        distinct = sorted(self.known)
        rank = np.empty(len(distinct), dtype="int32")
        rank[[self.known[text] for text in distinct]] = np.arange(len(distinct), dtype="int32")

        def pieces() -> Iterator[pd.DataFrame]:
            for (variant, split, axis), parts in zip(at, drawn, strict=True):
                ids = self.context.rows(axis, split)["prompt_id"]
                for seed, toxicity, codes in parts:
                    row = (ids, toxicity, variant.id, split, axis, seed, rank[codes])
                    yield pd.DataFrame(dict(zip((*GENERATED, "text_id"), row, strict=True)))

        rows = sum(len(codes) for parts in drawn for _, _, codes in parts)
        texts = pd.DataFrame({"text_id": np.arange(len(distinct), dtype="int32"), "text": distinct})
        return Pieces(rows, pieces), texts

    def _costs(self, variants: Sequence[Variant]) -> pd.DataFrame:
        tables = self.context.fetch([variant.what.shard("cost") for variant in variants])
        named = [
            table.assign(variant=variant.id)
            for variant, table in zip(variants, tables, strict=True)
        ]
        return pd.concat(named, ignore_index=True) if named else pd.DataFrame()


def _bands(layout: Layout, exchanges: Exchanges) -> dict[str, object]:
    """Both null bands of a bias: null_* (words), group_null_* (whole descriptors), and why the
    second is missing."""
    words, group = words_band(layout, exchanges), descriptors_band(layout, exchanges)
    found = {
        f"{start}_{name}": getattr(band, name)
        for start, band in (("null", words), ("group_null", group))
        for name in ("mean", "low", "high", "p")
    }
    return {**found, "group_note": "; ".join(group.notes)}


def _no_verdict(row: Mapping[str, object]) -> dict[str, object]:
    """A row of an unusable model: its value without a change, but for how far it is from text and
    the dense model."""
    if row["metric"] in ("perplexity", "divergence", "flipped") and not row["group"]:
        return dict(row)
    nothing = {name: float("nan") for name in row if name.startswith("delta")}
    return {**row, **nothing, "verdict": UNUSABLE if row["group"] else ""}


def _over_half(values: np.ndarray) -> np.ndarray:
    """Verdicts as 0 or 1: above one half."""
    return (values > 0.5).astype(float)


def _as_difference(shown: Interval) -> Difference:
    """The mean of paired changes as a difference without a test."""
    return Difference(shown.value, shown.low, shown.high, float("nan"), shown.n)


def _row(metric: str, shown: Interval, change: Difference | None) -> dict[str, object]:
    nan = float("nan")
    row = {
        "metric": metric,
        "value": shown.value,
        "low": shown.low,
        "high": shown.high,
        "n": shown.n,
    }
    row |= {
        f"{start}_{name}": nan
        for start in ("null", "group_null")
        for name in ("mean", "low", "high", "p")
    }
    row |= {"group_note": "", "group": "", "verdict": ""}
    if change is None:
        return {**row, "delta": nan, "delta_low": nan, "delta_high": nan, "delta_p": nan}
    return {
        **row,
        "delta": change.value,
        "delta_low": change.low,
        "delta_high": change.high,
        "delta_p": change.p,
    }
