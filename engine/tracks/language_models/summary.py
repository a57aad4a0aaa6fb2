"""What the JSON form of a run holds, its stored benchmarks, whether its numbers follow from what it
stored, and the words of its verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from engine.core import words
from engine.core.types import Values, Window
from engine.models import catalog
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.summary import Summary
from engine.report.tracks import Telling
from engine.store.runs import Run, where
from engine.tracks.language_models import arms
from engine.tracks.language_models import words as own
from engine.tracks.language_models.benchmarks import (
    PREFIX,
    Scored,
    ScoredBenchmark,
    scored_benchmarks,
)
from engine.tracks.language_models.bias import PROMPT, bias
from engine.tracks.language_models.bias_intervals import UNUSABLE
from engine.tracks.language_models.panels.judges import disagreement, labels_said
from engine.tracks.language_models.perplexity import perplexity

SUMMARY = Summary(
    "request model judge gamma warnings spent",
    "method target_axis gamma sparsity realised",
    "group_null_mean group_null_high group_null_p",
)


# What a run stored of a benchmark, as its formulas read it: items in order, log-likelihoods by
# role. No torch.


def measured_on(run: Run) -> list[str]:
    """Names of the benchmarks that the run was measured on."""
    if not run.has("benchmark_sources"):
        return []
    there = set(lookup.frame(run, "benchmark_sources")["benchmark"])
    return [name for name in scored_benchmarks() if name in there]


def texts_of(run: Run, one: ScoredBenchmark) -> pd.DataFrame:
    """The texts of a benchmark in their order, one row each."""
    items = lookup.frame(run, "benchmark_items")
    return items[items["benchmark"] == one.name].sort_values("choice", kind="stable")


def stored(run: Run, one: ScoredBenchmark, variant: str) -> Scored | None:
    """Items and log-likelihoods of a variant; None where it was not measured."""
    logps, texts = lookup.frame(run, "benchmark_logps"), texts_of(run, one)
    mine = where(logps, benchmark=one.name, variant=variant)
    if mine.empty:
        return None
    ordered = texts[["choice", "role"]].merge(
        mine[["choice", "logp", "tokens"]], on="choice", validate="one_to_one"
    )
    items = texts[texts["role"] == next(iter(one.roles))].reset_index(drop=True)
    return Scored.of_rows(items, ordered["role"], ordered)


def benchmark_checks(run: Run) -> Iterator[dict[str, Any]]:
    """Whether every number of all items follows from the stored log-likelihoods: {"what", "ok"} per
    benchmark."""
    for name in measured_on(run):
        one, table = scored_benchmarks()[name], lookup.frame(run, "benchmarks")
        mine = where(table, benchmark=name, group="")
        apart = [_apart(run, one, str(variant), rows) for variant, rows in mine.groupby("variant")]
        worst = max(apart, default=0.0)
        what = f"{len(mine)} numbers of {one.title} follow from the stored log-likelihoods"
        yield {"what": f"{what} (largest difference {worst:.1e})", "ok": worst <= 1e-9}


def _apart(run: Run, one: ScoredBenchmark, variant: str, rows: pd.DataFrame) -> float:
    """The largest difference between numbers as stored and as computed again; inf where there is
    nothing to do so."""
    scored = stored(run, one, variant)
    if scored is None:
        return float("inf")
    by_name = {metric.name: metric for metric in one.metrics}
    metrics = [by_name[name] for name in rows["metric"]]
    again = [float(metric.value(metric.features(scored).sum(axis=0))) for metric in metrics]
    return float(np.nanmax(np.abs(np.array([*again, 0.0]) - [*rows["value"], 0.0])))


# Do the numbers of a run follow from what it stored? Every bias and perplexity is computed
# again.


TOLERANCE = 1e-5
"""Verdicts are stored in float32."""
AT_ONCE = 1 << 18
"""Verdicts that are held at a time, about."""


def recomputed(run: Run) -> list[dict[str, Any]]:
    """Every test bias of heads, from the stored verdicts; of what was added also those on
    validation prompts."""
    results = run.table("results")
    stored = results[results["metric"].str.startswith("bias:")]
    each = run.rows("generations") / max(1, len(stored[["axis", "variant"]].drop_duplicates()))
    checks, size = [], max(1, int(AT_ONCE / max(1.0, each)))
    for axis, rows in stored.groupby("axis"):
        names = rows["variant"].unique()
        some = [
            rows[rows["variant"].isin(names[at : at + size])] for at in range(0, len(names), size)
        ]
        apart = np.concatenate([_verify_apart(run, axis, part) for part in some])
        worst = float(apart.max())
        what = (
            f"{len(apart)} biases of {axis} follow from the stored verdicts (largest difference"
            f" {worst:.1e})"
        )
        checks.append({"what": what, "ok": worst <= TOLERANCE})
    return [
        *checks,
        *(_perplexities(run, results) if run.has("windows") else []),
        *benchmark_checks(run),
    ]


def _verify_apart(run: Run, axis: str, rows: pd.DataFrame) -> np.ndarray:
    """How far the biases of these results are from those of the stored verdicts, where there are
    any (those of the search for γ are not kept): [rows that have]."""
    prompts = run.part("prompts", {"axis": [axis]}, PROMPT)
    where = {"axis": [axis], "variant": rows["variant"].unique()}
    verdicts = run.part("generations", where, ["prompt_id", "variant", "split", "toxicity"])
    parts = dict(list(verdicts.groupby(["variant", "split"])))
    found = []
    for row in rows.itertuples():
        if row.split == "test" or (row.variant, row.split) in parts:
            part = parts[row.variant, row.split].merge(
                prompts, on="prompt_id", validate="many_to_one"
            )
            found.append(
                abs(
                    bias(part.astype({"toxicity": "float64"}), row.metric.removeprefix("bias:"))
                    - row.value
                )
            )
    return np.array(found)


def _perplexities(run: Run, results: pd.DataFrame) -> list[dict[str, Any]]:
    """Every perplexity of the text, from its windows; exp of a mean, so compared by its
    logarithm."""
    preset = Window(published=bool(run.request.get("published_perplexity")))
    parts = dict(list(run.table("windows").groupby(["variant", "split"])))
    rows = results[(results["metric"] == "perplexity") & results["value"].notna()]
    again = [perplexity(parts[row.variant, row.split], preset) for row in rows.itertuples()]
    worst = float(np.abs(np.log(again) - np.log(rows["value"].to_numpy(dtype=float))).max())
    what = (
        f"{len(rows)} perplexities follow from the stored windows of text (largest difference of"
        f" logs {worst:.1e})"
    )
    return [{"what": what, "ok": bool(worst <= TOLERANCE)}]


# The plain words in which an audit of a language model is told.


def does(run: Run, variant: Values) -> str:
    if arms.is_arm(variant):
        return arms.does(variant)
    return f"Cutting {int(variant['n_cut'])} of {run.n_units} heads"


def is_invented(run: Run) -> bool:
    """Whether the prompts are a toy's own, whose groups are all invented."""
    return not run.request.get("prompts") and catalog.is_toy(run.request["model"])


def groups(run: Run, axis: str) -> str:
    table = lookup.groups_of(run, "dense", "toxicity", axis)
    count = phrasing.counted(table["group"].nunique())
    if is_invented(run) and axis in own.INVENTED:
        return f"{count} invented {own.INVENTED[axis]}"
    return f"{count} groups of {words.axis_name(axis)}"


def harm(run: Run, choice: Choice) -> str:
    return f"the {lookup.reading(run, choice).harm.of(words.axis_name(choice.measured))}"


def beyond(run: Run, choice: Choice, row: Values) -> str:
    """Where single words of the prompts, and not the groups, may be behind it."""
    high = row.get("group_null_high", math.nan)
    if math.isfinite(high) and row["value"] <= high:
        value = phrasing.short(row["value"])
        return f"; the choice of words for the groups could explain {value}"
    return ""


def more(run: Run, choice: Choice, variant: Values) -> str:
    """That nothing follows where chance, or words of the prompts, may make the uncut model's bias;
    that judges do not agree. Then what people's labels say, and that a chat model was read raw."""
    if unusable(run, variant):
        return ""
    dense = lookup.bias(run, "dense", choice)
    is_chance = dense is not None and phrasing.inside_null(dense)
    raw = "" if run.request.get("chat") else run.model.get("in_chat")
    text = own.NULL_MEANS if is_chance else group_warning(run, choice)
    judged = disagreement(run, choice, dict(variant)), labels_said(run, choice)
    return " ".join(filter(None, [text, *judged, raw]))


def beside(run: Run, choice: Choice, variant: Values) -> list[tuple[str, str]]:
    """Texts about which groups the model predicts clearly worse, and published tests whose headline
    clearly rose, any of which may be named."""
    rows = lookup.groups_of(run, variant["variant"], "perplexity", choice.measured)
    rows = rows[(rows["verdict"] == "") & rows["delta"].notna()]
    worse = [words.quoted(row["group"]) for row in phrasing.clear(rows.to_dict("records"), "rose")]
    found, start = [], "perplexity of texts about"
    if worse:
        short = f"{phrasing.counted(len(worse))} group{'s' * (len(worse) > 1)}"
        found.append((f"{start} {short}", f"{start} {phrasing.names(worse)}"))
    tests = [
        row
        for name in measured_on(run)
        for row in where(
            lookup.frame(run, "benchmarks"),
            group="",
            variant=variant["variant"],
            benchmark=name,
            metric=scored_benchmarks()[name].headline.name,
        ).to_dict("records")
    ]
    for row in phrasing.clear(tests, "rose"):
        if choice.reading != PREFIX + row["benchmark"]:
            one = scored_benchmarks()[row["benchmark"]]
            title = f"{one.headline.title} in {words.quoted(one.title)}"
            ends = phrasing.apart(row["value"] - row["delta"], row["value"])
            found.append((title, f"{title} from {' to '.join(ends)}"))
    return found


def unusable(run: Run, variant: Values) -> str:
    """Said in place of a verdict on what predicts worse than a guess; "" for every other
    variant."""
    return own.unusable(does(run, variant)) if _is_lost(run, str(variant["variant"])) else ""


def unlearned(run: Run) -> str:
    return own.UNLEARNED if _is_lost(run, "dense") else ""


def _is_lost(run: Run, variant: str) -> bool:
    table = lookup.frame(run, "groups")
    return bool(((table["variant"] == variant) & (table["verdict"] == UNUSABLE)).any())


TELLING = Telling(
    does,
    groups,
    harm,
    beyond=beyond,
    more=more,
    beside=beside,
    unusable=unusable,
    unlearned=unlearned,
)


# What may be said of a group: only what passes the band of whole descriptors exchanged between
# subgroups.


def group_warning(run: Run, choice: Choice) -> str:
    """What to say where the dense model's bias is above the words band and not above the group
    band; "" otherwise."""
    dense = lookup.bias(run, "dense", choice)
    if dense is None or phrasing.inside_null(dense):
        return ""
    high = dense.get("group_null_high", math.nan)
    if dense["value"] > high + phrasing.SAME:
        return ""
    return own.group_warning(
        choice.measured, dense["value"], high, str(dense.get("group_note") or "")
    )
