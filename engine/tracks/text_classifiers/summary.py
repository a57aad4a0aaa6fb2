"""Heads cut from a text classifier in lines: the task's metric of every arm, and which are tickets
for whom."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import accuracy_score, matthews_corrcoef

from engine.classifiers.verification import again_from_answers, again_from_tried, pooled_are_means
from engine.core.types import Values
from engine.core.words import AXES
from engine.report.summary import Summary, ends, number, paid_most
from engine.store.runs import Run, where
from engine.tracks.text_classifiers.tables import MIN_SEEDS, ROUNDING, by_spread_only


class Tickets(Summary):
    """Mean and spread over seeds against the full model, the largest ticket per group, and
    accuracy's gap per axis."""

    parts = ("track", "request", "model", "data", "warnings", "spent")
    columns = (
        "method",
        "base",
        "score",
        "sparsity",
        "realised",
        "retrained",
        "degenerate",
        "ticket",
    )
    more = ("group", "verdict")

    def lines(self, run: Run) -> list[str]:
        levels, tickets = run.table("ticket_levels"), run.table("tickets")
        whole = levels[levels["axis"] == ""]
        metric = run.data["metric"]
        full = whole.iloc[0]
        seeds = f"{full.n_seeds} seeds, n = {full.n} test texts"
        found = [
            f"\n{metric} as mean ± standard deviation over {seeds}; full model"
            f" {_spread(full, 'full_')}"
        ]
        whole = whole.assign(by_spread=by_spread_only(whole))
        found += [_level(row) for row in whole.to_dict("records")]
        found += [*_compared(run, metric), *_classes(run)]
        for axis in run.request["axes"]:
            found.append(
                f"\n{AXES.get(axis, axis)}  (largest share of heads cut that still matches, per"
                " group)"
            )
            found += _largest(tickets, axis) + _gaps(run, axis)
        return found


def _compared(run: Run, metric: str) -> list[str]:
    """What choosing by one score rather than another is worth, at every sparsity."""
    table = run.table("arm_differences")
    table = table[(table["axis"] == "") & (table["metric"] == "accuracy")]
    lines = [
        f"  {row.base}, {row.sparsity:.1%} cut: {row.score} minus {row.other} {row.value:+.3f} "
        f"{ends(row.low, row.high, '+.3f')}"
        for row in table.itertuples()
    ]
    return (
        [
            "\naccuracy with heads chosen by one score minus another, 95 % over texts and seeds",
            *lines,
        ]
        if lines
        else []
    )


def _classes(run: Run) -> list[str]:
    """Whether heads that matter for texts of one class matter for the other, in tasks of two
    classes."""
    table = run.table("importance")
    pooled = table[
        (table["axis"] == "class") & (table["seed"] == -1) & (table["stage"] == "fine-tuned")
    ]
    found = []
    for score, rows in pooled.groupby("score"):
        wide = rows.pivot(index="unit", columns="group", values="value")
        if wide.shape[1] == 2:
            one, other = wide.columns
            r = wide[one].corr(wide[other])
            found.append(
                f"  {score}: Pearson {r:+.2f} over heads between texts of {one} and of {other}"
            )
    return (
        ["\nimportance of heads after fine-tuning, by class of the texts", *found] if found else []
    )


def _level(row: Values) -> str:
    """One arm at one sparsity."""
    flat = f"  ! {row['degenerate']} predict one class only" if row["degenerate"] else ""
    word = row["word"] or "too few seeds"
    word += ", by its spread only" if row["by_spread"] else ""
    return f"  {row['method']:<26} {row['sparsity']:>6.1%} cut  {_spread(row, '')}  {word}{flat}"


def _spread(row: pd.Series | dict, prefix: str) -> str:
    mean, std = row[f"{prefix}mean"], row[f"{prefix}std"]
    return f"{mean:.3f}" if math.isnan(std) else f"{mean:.3f} ± {std:.3f}"


def _largest(tickets: pd.DataFrame, axis: str) -> list[str]:
    """One line per arm: every group with its largest matching sparsity."""
    lines = []
    for method, rows in tickets[tickets["axis"].isin(["", axis])].groupby("method", sort=False):
        said = [
            f"{row.group or 'all'} {'none' if math.isnan(row.sparsity) else f'{row.sparsity:.0%}'}"
            for row in rows.itertuples()
        ]
        lines.append(f"  {method:<26} {', '.join(said)}")
    return lines


def _gaps(run: Run, axis: str) -> list[str]:
    """The gap of accuracy of the full model and of every reported variant."""
    variants, test = run.table("variants"), {"axis": axis, "split": "test"}
    rows = where(run.table("results"), metric="accuracy_gap", **test).set_index("variant")
    groups = where(run.table("groups"), metric="accuracy", verdict="", **test)
    lines = []
    for name in variants.loc[variants["chosen"], "variant"]:
        if name in rows.index and not math.isnan(rows.loc[name].value):
            row = rows.loc[name]
            change = (
                ""
                if math.isnan(row.delta)
                else f"{row.delta:+.3f} {ends(row.delta_low, row.delta_high, '+.3f')}"
            )
            level = f"{row.value:.3f} {ends(row.low, row.high, '.3f')}"
            paid = paid_most(groups[groups["variant"] == name])
            lines.append(
                f"  {name:<32} gap of accuracy {level}  {change:<24}  null"
                f" {number(row.null_high, '.3f')}{paid}"
            )
    return lines


# Do the numbers of a text run follow from its stored answers? Metrics, means and tickets are
# computed again.


TOLERANCE = 1e-6


def recomputed(run: Run) -> list[dict[str, Any]]:
    """One check per metric, the means, and the winning tickets by their definition."""
    texts = run.table("texts").set_index("text_id")
    stored = run.table("predictions")
    trials = (
        stored[stored["variant"] != "dense"] if (stored["variant"] == "dense#0").any() else stored
    )
    checks = again_from_answers(run.table("results"), trials, texts, "text_id")
    return [
        *checks,
        *again_from_tried(run, "text_id"),
        pooled_are_means(run),
        _tickets(run, stored, texts),
    ]


def _tickets(run: Run, stored: pd.DataFrame, texts: pd.DataFrame) -> dict[str, Any]:
    """full mean <= subnetwork mean + its standard deviation, from the answers of every seed."""
    levels = run.table("ticket_levels")
    levels, variants = levels[levels["axis"] == ""], run.table("variants")
    values = {
        str(name): _value(run, part, texts) for name, part in stored.groupby("variant", sort=False)
    }
    several = [value for name, value in values.items() if name.startswith("dense#")]
    full = float(np.mean(several or [values["dense"]]))
    wrong = 0
    for row in levels.itertuples():
        mine = variants[(variants["method"] == row.method) & (variants["sparsity"] == row.sparsity)]
        mine = mine[mine["seed"] >= 0]
        seeds = [values[name] for name in mine["variant"]]
        spread = np.std(seeds, ddof=1) if len(seeds) > 1 else np.nan
        again = _models(run, mine) >= MIN_SEEDS and full <= np.mean(seeds) + spread + ROUNDING
        wrong += int(
            bool(again) != bool(row.matching) or abs(np.mean(seeds) - row.mean) > TOLERANCE
        )
    what = f"{len(levels)} ticket verdicts follow from the stored answers ({wrong} do not)"
    return {"what": what, "ok": wrong == 0}


def _models(run: Run, seeds: pd.DataFrame) -> int:
    """How many different models the seeds came to: a fixed full model with the same heads masked is
    one."""
    tuned = seeds["retrained"] | run.model["retuned"]
    return len(set(zip(seeds["cut"], seeds["seed"].where(tuned, -1), strict=True)))


def _value(run: Run, part: pd.DataFrame, texts: pd.DataFrame) -> float:
    truth = texts.loc[part["text_id"], "label"].to_numpy()
    answers = part[[name for name in part if name.startswith("p_")]].to_numpy(dtype=float)
    guess = answers.argmax(axis=1)
    matthews = run.data["metric"] == "matthews"
    return float(matthews_corrcoef(truth, guess) if matthews else accuracy_score(truth, guess))
