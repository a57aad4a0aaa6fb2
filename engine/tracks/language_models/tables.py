"""From finished shards to the tables of a run: results, groups, generations, costs.

Reported numbers come from test prompts and test text. Where γ is searched, its candidates are shown
on validation, where they were compared, and only the chosen ones on test.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np
import pandas as pd

from engine.audit.session import Progress
from engine.core.types import READINGS
from engine.stats.resampling import Difference, Interval
from engine.store.runs import Pieces
from engine.tracks.language_models.bias import (
    PROMPT,
    Exchanges,
    Layout,
    checked_toxicity,
    descriptors_band,
    lay_out,
    words_band,
)
from engine.tracks.language_models.bias_intervals import (
    UNUSABLE,
    BiasErrors,
    group_rows,
    levelling,
    overall,
)
from engine.tracks.language_models.context import PromptContext, Shard
from engine.tracks.language_models.perplexity import (
    paired_perplexity_difference,
    perplexity,
    perplexity_interval,
    share_interval,
)
from engine.tracks.language_models.request import SEARCH, AuditRequest
from engine.tracks.language_models.variants import DENSE, Variant, What, searched

TEST, VALIDATION = "test", "validation"
NULL_DRAWS = 500
PER_PLACE, PER_ROW = 0.02, 2e-5
"""Seconds of the statistics of one mask on one axis and split, and of each of its texts: of the
embedded audit, on one core with other work beside it."""
GENERATED = ("prompt_id", "toxicity", "variant", "split", "axis", "seed")
"""Columns of the table `generations`, besides the number of the text."""
BANDS = [
    f"{start}_{name}" for start in ("null", "group_null") for name in ("mean", "low", "high", "p")
]
UNCUT = What()
Place = tuple[What, str, str]
"""Where something is measured: what is done to the dense model, split, axis."""
Drawn = tuple[int, np.ndarray, np.ndarray]
"""A seed, verdicts of its texts, numbers of its texts."""
Placed = tuple[Variant, str, tuple[str, ...]]
"""What is reported: a variant, on which split, on which axes."""


def places(request: AuditRequest, variants: Sequence[Variant]) -> list[Placed]:
    """Everything that an audit reports."""
    out = [(variant, TEST, request.axes) for variant in variants if variant.chosen]
    if request.gamma == SEARCH:
        dense = [variant for variant in variants if variant.method == DENSE]
        out += [(variant, VALIDATION, request.axes) for variant in dense]
        out += [(one, VALIDATION, (one.target_axis,)) for one in searched(variants)]
    return out


def seconds_of(context: PromptContext, shards: Iterable[Shard]) -> float:
    """About what statistics of these measurements take."""
    judged = [shard for shard in shards if shard.kind == "verdicts"]
    places = {(shard.cut, shard.axis, shard.split) for shard in judged}
    rows = sum(len(context.rows(shard.axis, shard.split)) for shard in judged)
    return PER_PLACE * len(places) + PER_ROW * rows


def wanted_shards(request: AuditRequest, variants: Sequence[Variant]) -> list[Shard]:
    """Every measurement the tables of an audit need."""
    floor = [Shard("floor", (), axis, TEST) for axis in request.axes]
    return [*floor, *shards_at(places(request, variants), request.seed_list, (TEST,))]


def shards_at(
    placed: Sequence[Placed], seeds: Sequence[int], detailed: Sequence[str]
) -> list[Shard]:
    """Every measurement that these places need; of the splits `detailed` also those of groups, and
    of test costs."""
    shards = []
    for variant, split, axes in placed:
        what = variant.what
        shards += [what.shard("verdicts", axis, split, seed) for axis in axes for seed in seeds]
        shards += [what.shard("prompt_nll", axis, split) for axis in axes if split in detailed]
        shards.append(what.shard("windows", split=split))
        shards += [what.shard("cost")] if split == TEST else []
        if _diverges(placed, what, split):
            shards.append(what.shard("divergence", split=split))
    return list(dict.fromkeys(shards))


def _diverges(placed: Sequence[Placed], what: What, split: str) -> bool:
    """Whether a model's distance from the dense one is measured: where arms stand beside cuts."""
    return split == TEST and bool(what) and any(variant.arm for variant, _, _ in placed)


class OnAxis:
    """The texts of one axis and split: the dense model's, and those of whatever is done to it.

    table: prompt columns, as often as there are seeds, and the seeds; a place for toxicities.
    """

    def __init__(
        self, context: PromptContext, request: AuditRequest, axis: str, split: str
    ) -> None:
        self.context, self.request = context, request
        self.axis, self.split, self.seeds = axis, split, request.seed_list
        self.rows = context.rows(axis, split)
        table = self.rows[PROMPT]
        self.table = table.loc[table.index.repeat(len(self.seeds))].reset_index(drop=True)
        self.table = self.table.assign(toxicity=0.0, seed=np.tile(self.seeds, len(table)))
        self.layout = lay_out(self.table)
        self.dense = self._read(UNCUT)
        self._latest = (UNCUT, self.dense)

    @cached_property
    def errors(self) -> BiasErrors:
        return BiasErrors(self.dense)

    @cached_property
    def exchanges(self) -> Exchanges:
        return Exchanges(self.layout, self.request.reading, NULL_DRAWS)

    def toxicity(self, what: What) -> pd.DataFrame:
        """Verdicts with prompt columns, one row per prompt and seed; asked for several times in a
        row."""
        if not what:
            return self.dense
        if self._latest[0] != what:
            self._latest = (what, self._read(what))
        return self._latest[1]

    def _read(self, what: What) -> pd.DataFrame:
        verdicts = self._by_seed(what, "verdicts", "toxicity")
        return self.table.assign(toxicity=np.stack(verdicts, axis=1).ravel())

    def _by_seed(self, what: What, kind: str, name: str) -> list[np.ndarray]:
        """A column of a measurement in the order of the prompts, [prompts] for every seed."""
        shards = [what.shard(kind, self.axis, self.split, seed) for seed in self.seeds]
        return [self._column(table, name) for table in self.context.fetch(shards)]

    def _column(self, table: pd.DataFrame, name: str) -> np.ndarray:
        wanted = self.rows["prompt_id"]
        if not table["prompt_id"].equals(wanted):
            table = wanted.to_frame().merge(table, on="prompt_id", validate="one_to_one")
        return table[name].to_numpy()

    def results(self, what: What) -> list[dict[str, Any]]:
        """Every result of one mask."""
        readings = (self.request.reading,) if what else READINGS
        rows = [self._bias(what, reading) for reading in readings]
        rows += self._levels(what)
        rows += [self._floor()] if not what and self.split == TEST else []
        return [{**row, "axis": self.axis} for row in rows]

    def _bias(self, what: What, reading: str) -> dict[str, Any]:
        table = self.toxicity(what)
        layout = self.layout.with_toxicity(checked_toxicity(table["toxicity"].to_numpy()))
        change = self.errors.difference(table, reading) if what else None
        own = reading == self.request.reading
        exchanges = self.exchanges if own else Exchanges(layout, reading, NULL_DRAWS)
        shown = self.errors.interval(reading, table)
        return result_row(f"bias:{reading}", shown, change) | _bands(layout, exchanges)

    def _levels(self, what: What) -> list[dict[str, Any]]:
        """Mean toxicity, toxic share, the gap and its two ends."""
        dense, variant, rows = self.dense, self.toxicity(what), []
        for metric in ("toxicity", "toxic_share"):
            level, change = overall(dense, variant, self.errors)
            rows.append(result_row(metric, level, change if what else None))
            dense, variant = _over_half(dense), _over_half(variant)
        found = levelling(self.dense, self.toxicity(what), self.errors)
        gap = result_row("gap", found.gap, found.gap_change if what else None)
        rows.append(gap | {"verdict": found.verdict})
        for metric, group, shown, change in (
            ("worst_group", found.worst_group, found.worst, found.worst_change),
            ("best_group", found.best_group, found.best, found.best_change),
        ):
            if group:
                rows.append(result_row(metric, shown, change if what else None) | {"group": group})
        return rows

    def _floor(self) -> dict[str, Any]:
        """Bias of the judge on the prompts alone."""
        verdicts = self.context.fetch([Shard("floor", (), self.axis, TEST)])[0]
        merged = self.rows[PROMPT].merge(verdicts, on="prompt_id")
        shown, layout = BiasErrors(merged).interval(self.request.reading), lay_out(merged)
        exchanges = Exchanges(layout, self.request.reading, NULL_DRAWS)
        return result_row("bias_floor", shown) | _bands(layout, exchanges)

    def toxicity_by_group(self, what: What) -> list[dict[str, Any]]:
        changed = self.toxicity(what) if what else None
        return group_rows(self.dense, changed, "toxicity", self.errors)

    def groups(self, what: What) -> list[dict[str, Any]]:
        """Toxicity and perplexity of every group."""
        changed = self._prompt_nll(what) if what else None
        rows = self.toxicity_by_group(what)
        rows += group_rows(self._dense_nll, changed, "perplexity", self.errors)
        return [{**row, "split": self.split, "axis": self.axis} for row in rows]

    @cached_property
    def _dense_nll(self) -> pd.DataFrame:
        return self._prompt_nll(UNCUT)

    def _prompt_nll(self, what: What) -> pd.DataFrame:
        """Columns prompt_id, nll, tokens."""
        table = self.context.fetch([what.shard("prompt_nll", self.axis, self.split)])[0]
        return self.rows[["prompt_id"]].assign(
            **{name: self._column(table, name) for name in ("nll", "tokens")}
        )

    def drawn(self, what: What, known: dict[str, int]) -> list[Drawn]:
        """Of every seed: the seed, verdicts [prompts] float32, and numbers of the texts, [prompts]
        int32, which `known` counts as they come."""
        toxicity = self.toxicity(what)["toxicity"].to_numpy().astype("float32")
        found = []
        for at, texts in enumerate(self._by_seed(what, "texts", "text")):
            codes = [known.setdefault(text, len(known)) for text in texts]
            mine = toxicity[at :: len(self.seeds)].copy()
            found.append((self.seeds[at], mine, np.array(codes, dtype="int32")))
        return found


class Measured:
    """Reads shards of one request and turns them into tables. Equal masks are evaluated once."""

    def __init__(self, context: PromptContext, request: AuditRequest, progress: Progress) -> None:
        self.context, self.request, self.progress = context, request, progress
        self.on = lru_cache(1)(self._on)  # what has rows for prompts is of one axis at a time
        self.windows, self.text_row = cache(self._windows), cache(self._text_row)
        self.known: dict[str, int] = {}
        self.results: dict[Place, list[dict[str, Any]]] = {}
        self.groups: dict[Place, list[dict[str, Any]]] = {}
        self.drawn: dict[Place, list[Drawn]] = {}

    def _on(self, axis: str, split: str) -> OnAxis:
        return OnAxis(self.context, self.request, axis, split)

    def tables(self, variants: Sequence[Variant]) -> dict[str, pd.DataFrame | Pieces]:
        """results, groups, generations, texts, windows, prompts and costs of an audit."""
        placed = places(self.request, variants)
        return {**self.tables_at(placed, (TEST,)), "prompts": self.context.table}

    def tables_at(
        self, placed: Sequence[Placed], detailed: Sequence[str]
    ) -> dict[str, pd.DataFrame | Pieces]:
        """results and windows of these places; of those on the splits `detailed` groups,
        generations and texts; costs of test."""
        self._read(placed, detailed)
        results, groups = [], []
        for variant, split, axes in placed:
            what = variant.what
            rows = [row for axis in axes for row in self.results[what, split, axis]]
            rows.append(self.text_row(what, split))
            rows += self._divergence_rows(what) if _diverges(placed, what, split) else []
            shown = _no_verdict if self._is_lost(what, split) else dict
            results += [{"variant": variant.id, "split": split, **shown(row)} for row in rows]
            for axis in axes if split in detailed else ():
                rows = self.groups[what, split, axis]
                groups += [{**shown(row), "variant": variant.id} for row in rows]
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
            what, place = variant.what, (variant.what, split, axis)
            if place not in self.results:
                self.results[place] = self.on(axis, split).results(what)
            if split in detailed and place not in self.groups:
                self.groups[place] = self.on(axis, split).groups(what)
                self.drawn[place] = self.on(axis, split).drawn(what, self.known)

    def _all_windows(self, placed: Sequence[Placed]) -> pd.DataFrame:
        """What every reported perplexity is made of, one row per window of text."""
        parts = [
            self.windows(one.what, split).assign(variant=one.id, split=split)
            for one, split, _ in placed
        ]
        return pd.concat(parts, ignore_index=True)[["variant", "split", "window", "nll", "tokens"]]

    def _windows(self, what: What, split: str) -> pd.DataFrame:
        return self.context.fetch([what.shard("windows", split=split)])[0]

    def _text_row(self, what: What, split: str) -> dict[str, Any]:
        """Perplexity of one mask; n counts tokens. NaN where there is no text."""
        windows, dense = self.windows(what, split), self.windows(UNCUT, split)
        preset, nan = self.context.settings.window, float("nan")
        if windows.empty:
            return result_row("perplexity", Interval(nan, nan, nan, 0), None) | {"axis": ""}
        value, shown = perplexity(windows, preset), perplexity_interval(windows)
        change = paired_perplexity_difference(dense, windows)
        if preset.published:  # its mean of window means has no interval of its own
            shown = Interval(value, nan, nan, shown.n)
            change = Difference(value - perplexity(dense, preset), nan, nan, nan, shown.n)
        row = result_row("perplexity", shown, change if what else None)
        return row | {"axis": "", "value": value, "n": int(windows["tokens"].sum())}

    def _divergence_rows(self, what: What) -> list[dict[str, Any]]:
        """How far next tokens are from the dense model's: KL per token, and the share whose
        likeliest token changed."""
        windows = self.context.fetch([what.shard("divergence", split=TEST)])[0]
        rows = []
        for metric, column, most in (("divergence", "kl", np.inf), ("flipped", "flipped", 1.0)):
            shown = share_interval(windows, column, most)
            mean = Difference(shown.value, shown.low, shown.high, float("nan"), shown.n)
            row = result_row(metric, shown, mean)  # of paired changes, without a test
            rows.append(row | {"axis": "", "n": int(windows["tokens"].sum())})
        return rows

    def _generations(self, placed: Sequence[Placed]) -> tuple[Pieces, pd.DataFrame]:
        """Every continuation at these places, made as it is written; equal texts are kept once.

        Until then a verdict and a number are held of each, eight bytes, and the distinct texts.
        """
        at = [(one, split, axis) for one, split, axes in placed for axis in axes]
        drawn = [self.drawn[one.what, split, axis] for one, split, axis in at]
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


def _bands(layout: Layout, exchanges: Exchanges) -> dict[str, Any]:
    """Both null bands of a bias: null_* (words), group_null_* (whole descriptors), and why the
    second is missing."""
    words, group = words_band(layout, exchanges), descriptors_band(layout, exchanges)
    found = [*words.ends, *group.ends]
    return {**dict(zip(BANDS, found, strict=True)), "group_note": "; ".join(group.notes)}


def _no_verdict(row: Mapping[str, object]) -> dict[str, object]:
    """A row of an unusable model: its value without a change, but for how far it is from text and
    the dense model."""
    if row["metric"] in ("perplexity", "divergence", "flipped") and not row["group"]:
        return dict(row)
    nothing = {name: float("nan") for name in row if name.startswith("delta")}
    return {**row, **nothing, "verdict": UNUSABLE if row["group"] else ""}


def _over_half(table: pd.DataFrame) -> pd.DataFrame:
    """Verdicts as 0 or 1: above one half."""
    return table.assign(toxicity=(table["toxicity"] > 0.5).astype(float))


def result_row(metric: str, shown: Interval, change: Difference | None = None) -> dict[str, Any]:
    nan = float("nan")
    change = change or Difference(nan, nan, nan, nan, 0)
    return {
        "metric": metric,
        **vars(shown),
        **dict.fromkeys(BANDS, nan),
        "group_note": "",
        "group": "",
        "verdict": "",
        "delta": change.value,
        "delta_low": change.low,
        "delta_high": change.high,
        "delta_p": change.p,
    }
