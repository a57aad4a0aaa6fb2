"""The bench: which heads a reader switched off, and what that is said to do, predicted beside measured."""

from __future__ import annotations

from typing import Any

import pandas as pd
from scipy import stats

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice, Panel, nothing
from engine.store.runs import Run
from engine.tracks.language_models.hand_sets import tried
from engine.tracks.language_models.panels.heads import critical_units, picture, pooled_scores
from engine.tracks.language_models.predicted import Guess, predicted
from engine.tracks.language_models.tables import TEST, VALIDATION
from engine.tracks.language_models.words import is_by_hand


def bench_map(run: Run, choice: Choice, off: tuple[int, ...]) -> Panel:
    """Every head's effect on bias; protected ones black (white when dark), those that are off crossed. off: units."""
    question = f"Which heads are off, and what does each do to the bias of {words.axis_name(choice.measured)}?"
    table = pooled_scores(run, "z_bias", choice.measured)
    if table.empty:
        return nothing("bench_map", question, "This run has no effects on bias for this axis.")
    critical = table["unit"].isin(critical_units(run, choice))
    table = table.assign(critical=critical, cut=table["unit"].isin(off))
    shown = table[["layer", "head", "value", "low", "high", "critical", "cut"]].rename(columns={"cut": "off"})
    answer = f"{_off_said(len(off), len(table))} Click a head to switch it."
    if both := int((table["critical"] & table["cut"]).sum()):
        answer += f" {phrasing.count(both, 'head')} of these {'is' if both == 1 else 'are'} needed to predict text."
    return Panel("bench_map", question, answer, picture(run, choice, table), shown, words.COUNTING)


def _off_said(off: int, total: int) -> str:
    return f"{phrasing.count(off, 'head')} of {total} off ({phrasing.percent(off / total)})." if off else "None is off."


def on_validation(run: Run, choice: Choice, off: tuple[int, ...]) -> Panel | None:
    """A set that was measured on validation prompts: what was predicted beside what came out. None where it was not."""
    variant = _validated(run, off)
    rows = [lookup.result(run, variant, metric, axis, VALIDATION) for metric, axis in _shown(choice)] if variant else []
    if not rows or rows[0] is None:
        return None
    found, (bias, text) = predicted(run, off, choice.measured), rows
    lines = [{"number": "change of bias", **_guess(found.change), **_came(bias, "delta")}]
    dense = lookup.result(run, "dense", "perplexity", "", VALIDATION)
    if text is not None and dense is not None:
        lines.append({"number": "change of perplexity", "measured": text["value"] - dense["value"]})
    inside = found.change.low <= bias["delta"] <= found.change.high
    answer = (
        f"On validation prompts the bias changes by {phrasing.change(bias)}; {phrasing.signed(found.change.value)} was "
        f"predicted, and what came out lies {'inside' if inside else 'outside'} the predicted interval."
    )
    note = (
        f"n = {int(bias['n'])} validation prompts. The effects on the map come from these prompts too: a set chosen by "
        "them looks better here than it is. What is predicted is the change on test prompts, which are others."
    )
    return Panel("on_validation", "Does it do what was predicted?", answer, None, pd.DataFrame(lines), note)


def _shown(choice: Choice) -> tuple[tuple[str, str], ...]:
    return (f"bias:{choice.reading}", choice.measured), ("perplexity", "")


def _validated(run: Run, off: tuple[int, ...]) -> str | None:
    """The variant of this very set."""
    rows = [row for row in lookup.frame(run, "variants").to_dict("records") if is_by_hand(row["method"])]
    return next((row["variant"] for row in rows if lookup.cut_units(row) == sorted(off)), None)


def _guess(guess: Guess) -> dict[str, float]:
    return {"predicted": guess.value, "predicted low": guess.low, "predicted high": guess.high}


def _came(row: dict[str, Any], what: str) -> dict[str, float]:
    return {"measured": row[what], "measured low": row[f"{what}_low"], "measured high": row[f"{what}_high"]}


def tried_said(run: Run, choice: Choice) -> str:
    """How many sets were tried by hand on this audit, and how good the best of as many looks by chance alone."""
    count, error = tried(run), _error(run, choice)
    if count < 2 or not error > 0:
        return f"{phrasing.count(count, 'set')} tried by hand on this audit so far." if count else ""
    luck = float(stats.norm.ppf((count - 0.375) / (count + 0.25))) * error  # Blom 1958: expected largest of n normals
    return (
        f"{count} sets tried by hand on this audit: of as many that do nothing, the best would look up to "
        f"about {phrasing.number(luck)} better on validation prompts by chance, and still better where the map led to "
        f"it. So a set chosen here is measured once more, on test prompts.{_again_on_test(run, choice)}"
    )


def _again_on_test(run: Run, choice: Choice) -> str:
    """Said where a reader could choose again, among sets measured on test prompts."""
    count = len(_rows_by_hand(run, choice, TEST))
    if count < 2:
        return ""
    return f" {count} were: the best of these is the best of several again, which its interval does not allow for."


def _error(run: Run, choice: Choice) -> float:
    """Standard error of a change of bias on validation prompts: the median of what was measured by hand there."""
    rows = _rows_by_hand(run, choice, VALIDATION)
    return float(((rows["delta_high"] - rows["delta_low"]) / (2 * stats.norm.ppf(0.975))).median())


def _rows_by_hand(run: Run, choice: Choice, split: str) -> pd.DataFrame:
    """Biases of the axis that were measured for sets chosen by hand."""
    results, variants = lookup.frame(run, "results"), lookup.frame(run, "variants")
    mine = variants.loc[variants["method"].map(is_by_hand), "variant"]
    rows = results[results["variant"].isin(mine) & (results["split"] == split)]
    return rows[(rows["metric"] == f"bias:{choice.reading}") & (rows["axis"] == choice.measured)]
