"""Do people agree with the judge? What their labels make of its numbers: a sentence, a chart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from engine.core import words
from engine.report import in_words, phrasing
from engine.report.charts import lookup
from engine.report.charts.kinds import dots, looks_of
from engine.report.charts.panel import Choice, Panel, nothing, plain
from engine.report.schema import hovers, readable
from engine.stats.labels import FEWEST, KINDS, TIMES
from engine.store.runs import Run
from engine.tracks.language_models.benchmarks.base import PREFIX
from engine.tracks.language_models.labels import ALL, GAP, Told, kept, told

KEY, QUESTION = "labels", "Do people agree with the judge?"
NOBODY = "Nobody has labelled texts of this variant. The page Examples has a tab for it."
HOW = (
    "Texts are drawn by chance: "
    + ", ".join(f"{kind} × {times:g}" for kind, times in zip(KINDS, TIMES, strict=True))
    + ". The correction is prediction-powered: the judge's mean over all texts, plus the weighted"
    " mean of label minus judge. 95 % intervals with Student's t, clustered by descriptor and"
    f" template. Groups with fewer than {FEWEST} labelled pairs have none. Texts that people were"
    " unsure of count as not labelled. Where two people differ, their mean counts."
)
ALL_READ = "All texts are labelled, so no judge is needed."
COLUMNS = "group n judge value judge_delta delta errs"
TITLES = {
    "n": "labelled pairs",
    "judge": "judge, after the cut",
    "value": "people, after the cut",
    "judge_delta": "change by the judge",
    "delta": "change, corrected",
    "errs": "judge shown to err",
}


def found_of(run: Run, choice: Choice) -> Told | None:
    """What people said of the chosen variant; None where nobody did."""
    variant = lookup.variant_of(run, choice)["variant"]
    if choice.reading.startswith(PREFIX) or kept(run, variant, choice.measured).empty:
        return None
    return told(run, variant, choice.measured)


def has_labels(run: Run, choice: Choice) -> bool:
    return found_of(run, choice) is not None


def labels_said(run: Run, choice: Choice) -> str:
    """The figure that people corrected, in a line; "" where nobody labelled a text."""
    found = found_of(run, choice)
    return "" if found is None else said(found)


def labels(run: Run, choice: Choice) -> Panel:
    """Each group's change by the judge, and corrected by people."""
    found = found_of(run, choice)
    if found is None:
        return nothing(KEY, QUESTION, NOBODY)
    rows = found.rows.assign(group=[row_name(found, group) for group in found.rows["group"]])
    shown = readable(rows, f"{COLUMNS} delta_low delta_high low high", group=str, **TITLES)
    figure = None
    if len(rows):
        hover = hovers(rows, COLUMNS, group=str, **TITLES)
        judge = rows[["group"]].assign(delta=rows["judge_delta"], by="judge", hover=hover)
        both = pd.concat([rows.assign(by="corrected by people", hover=hover), judge])
        looks = looks_of(choice, list(dict.fromkeys(both["by"])))
        names = {group: plain(group) for group in rows["group"]}
        title = "change of the share of harmful texts"
        figure = dots(choice, both, "delta", names, looks, title, row="group", by="by", named=str)
    more = " ".join(filter(None, (agreement_said(found), missing_said(found))))
    return Panel(KEY, QUESTION, said(found), figure, shown, HOW, mind=more)


def row_name(found: Told, group: str) -> str:
    """A row of `Told` in words."""
    if group == GAP:
        return " minus ".join(map(words.quoted, found.ends))
    return words.group_name(group) if group != ALL else "all texts"


def said(found: Told) -> str:
    """Who labelled how many, what clearly changes by their labels, and whether the judge errs."""
    number = len(found.people)
    who = f"{in_words.counted(number).capitalize()} {'person' if number == 1 else 'people'}"
    start = f"{who} labelled {found.read:,} of {found.texts:,} texts."
    if found.holes:
        holes = phrasing.count(found.holes, "text")
        return f"{start} They passed over {holes}, so nothing follows for the others."
    rows = [row for row in found.rows.to_dict("records") if row["group"] != GAP]
    if not rows:
        return f"{start} That is too few for any figure."
    judged = ALL_READ if found.read == found.texts else _judge(rows)
    return f"{start} {_changes(rows)} {judged}"


def _changes(rows: list[dict[str, Any]]) -> str:
    among = sum(row["group"] != ALL for row in rows)
    moved = {
        way: [
            _name(row)
            for row in rows
            if phrasing.direction(row, 1 if row["group"] == ALL else among) == way
        ]
        for way in ("rose", "fell")
    }
    told = [
        f"{verb} {in_words.names(names)}"
        for verb, names in zip(("rises for", "falls for"), moved.values(), strict=True)
        if names
    ]
    if told:
        return f"Corrected by their labels, harm clearly {' and '.join(told)}."
    whole = rows[-1]
    change, judge = phrasing.signed(whole["delta"]), phrasing.signed(whole["judge_delta"])
    span = phrasing.span(whole["delta_low"], whole["delta_high"])
    if whole["group"] != ALL:
        return "Corrected by their labels, harm clearly changes for no group."
    start = f"Corrected by their labels, the harmful share changes by {change} ({span})"
    return f"{start}; the judge says {judge}."


def _name(row: dict[str, Any]) -> str:
    return words.quoted(row["group"]) if row["group"] != ALL else "all texts together"


def _judge(rows: list[dict[str, Any]]) -> str:
    """About whom the judge is shown to err."""
    wrong = [_name(row) for row in rows if row["errs"]]
    if not wrong:
        return "So few labels do not beat the judge alone."
    rest = "" if len(wrong) == len(rows) else "; elsewhere they are too few to beat it"
    return f"The labels show that the judge errs about {in_words.names(wrong)}{rest}."


def agreement_said(found: Told) -> str:
    """How far two labellers agree; "" where one labelled."""
    same = found.agreement
    if same is None:
        return ""
    if not same["n"]:
        return "The labellers have no text in common, so nothing is known of their agreement."
    share, low, high = (
        phrasing.percent(round(same[f"same{end}"], 3)) for end in ("", "_low", "_high")
    )
    start = (
        f"Two people agree on {share} ({low} to {high}) of {phrasing.count(int(same['n']), 'text')}"
    )
    if np.isnan(same["kappa"]):
        return f"{start}; kappa is undefined, since both gave all of them one label."
    kappa, low, high = (phrasing.correlation(same[f"kappa{end}"]) for end in ("", "_low", "_high"))
    return f"{start}; Cohen's kappa is {kappa} ({low} to {high})."


def missing_said(found: Told) -> str:
    """What is drawn and not labelled; "" where nothing is."""
    parts = []
    for row in found.people.itertuples():
        missing, unsure = f"{row.missing} not labelled yet", f"{row.unsure} unsure"
        left = [missing] * bool(row.missing) + [unsure] * bool(row.unsure)
        parts += [f"{row.labeller}: {', '.join(left)}"] if left else []
    return f"{'; '.join(parts)}." if parts else ""
