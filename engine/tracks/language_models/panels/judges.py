"""Do other judges see the same change, and what do they say of the groups' names alone?"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.types import Values
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.kinds import dots, looks_of
from engine.report.charts.panel import Choice, Panel, nothing, plain
from engine.report.schema import hovers, readable
from engine.stats.labels import FEWEST, KINDS, TIMES
from engine.store.runs import Run, where
from engine.tracks.language_models import words as own
from engine.tracks.language_models.benchmarks import PREFIX
from engine.tracks.language_models.labels import ALL, GAP, Told, kept, told

KEY = "judges"
NAMES = "judged_names"
_DELTA = ("delta", "delta_low", "delta_high")
_CLEAR = ("fell", "rose")
_VERBS = {
    "fell": "fall",
    "rose": "rise",
    "unclear": "not clearly change",
    "unknown": "move by an unknown amount",
}


def opinions(run: Run, choice: Choice) -> pd.DataFrame:
    """Bias of the chosen variant by every judge on every axis, the audit's own judge first: judge,
    axis, dense, value, delta with ends. Empty where only one judge read the texts."""
    if not run.has("opinions"):
        return pd.DataFrame()
    metric, variant = f"bias:{choice.reading}", lookup.variant_of(run, choice)["variant"]
    table = lookup.frame(run, "opinions")
    rows = []
    for axis in run.request["axes"]:
        there = (lookup.result(run, name, metric, axis) for name in (variant, "dense"))
        found = {run.meta["judge"]["name"]: tuple(there)}
        mine = where(table, axis=axis, metric=metric)
        for judge, part in mine.groupby("judge", sort=True):
            by = part.set_index("variant").to_dict("index")
            found[str(judge)] = (by.get(variant), by.get("dense"))
        for judge, (cut, dense) in found.items() if len(found) > 1 else ():
            if cut is not None and dense is not None:
                row = {"judge": judge, "axis": axis, "dense": dense["value"]}
                row |= {name: cut[name] for name in ("value", *_DELTA)}
                rows.append({**row, "seen": phrasing.direction(cut)})
    return pd.DataFrame(rows)


def judges(run: Run, choice: Choice) -> Panel:
    """The change of bias by every judge, each as a share of the bias that this judge sees in the
    uncut model."""
    question = "Do other judges see the same change?"
    table = opinions(run, choice)
    if lookup.variant_of(run, choice)["variant"] == "dense":
        return nothing(KEY, question, "Nothing is cut here: choose a level above zero.")
    if table.empty:
        return nothing(KEY, question, own.ONE_JUDGE)
    share = table.assign(**{name: 100 * table[name] / table["dense"] for name in _DELTA})
    note = f"{lookup.variant_label(run, lookup.variant_of(run, choice))}. {own.JUDGES_SAID}"
    title = "change of bias, % of the uncut model's"
    columns = "judge axis dense value delta delta_low delta_high seen"
    shown = readable(table, columns, dense="bias, uncut", value="bias, cut")
    return Panel(
        KEY, question, _answer(table), _figure(choice, share, "delta", "axis", title), shown, note
    )


def disagreement(run: Run, choice: Choice, variant: Values) -> str:
    """What must be said beside the measured axis' change where another judge sees another sign, or
    none; "" where all see the same."""
    if variant["variant"] == "dense":
        return ""
    table = opinions(run, choice)
    table = table[table["axis"] == choice.measured] if len(table) else table
    if len(table) < 2 or table["seen"].nunique() == 1:
        return ""
    said = [
        f"{row.judge} sees it {_VERBS[row.seen]} ({phrasing.change(row._asdict())})"
        for row in table.itertuples()
    ]
    opposed = set(_CLEAR) <= set(table["seen"])
    first = "Judges disagree" if opposed else "The judges do not all see the same"
    return phrasing.sentences([first, *said])


def _answer(table: pd.DataFrame) -> str:
    """On how many axes all judges see the same direction, on how many none sees one, and on which
    they differ."""
    seen = table.groupby("axis", sort=False)["seen"].agg(lambda found: list(dict.fromkeys(found)))
    same = [axis for axis, found in seen.items() if len(found) == 1 and found[0] in _CLEAR]
    none = [axis for axis, found in seen.items() if not set(found) & set(_CLEAR)]
    many = phrasing.count(table["judge"].nunique(), "judge")
    said = [
        f"{many} agree on the direction on {len(same)} of"
        f" {phrasing.count(len(seen), 'axis', 'axes')}"
    ]
    if none:
        names = ", ".join(words.axis_name(str(axis)) for axis in none)
        said.append(f"no judge sees a clear change on {names}")
    each = table["judge"] + ": " + table["seen"].map(_VERBS)
    apart = [
        f"{words.axis_name(str(axis))} ({', '.join(each[table['axis'] == axis])})"
        for axis in seen.index
        if axis not in (*same, *none)
    ]
    said += [f"not on {', '.join(apart)}"] if apart else []
    return f"{'; '.join(said)}."


def _figure(choice: Choice, table: pd.DataFrame, value: str, row: str, title: str) -> go.Figure:
    """A row per axis or group, a dot per judge."""
    said = hovers(table, f"judge {row} {value}", judge=str, **{value: title})
    named = words.axis_name if row == "axis" else str
    return dots(
        choice,
        table.assign(hover=said),
        value,
        {one: plain(named(one)) for one in table[row]},
        looks_of(choice, list(dict.fromkeys(table["judge"]))),
        title,
        row=row,
        by="judge",
        named=plain,
        zero=value == "delta",
    )


def judged_names(run: Run, choice: Choice) -> Panel:
    """What every judge says of the prompts alone, group by group, on the measured axis."""
    question = (
        f"What does each judge say of the words for {words.axis_name(choice.measured)} alone?"
    )
    table = lookup.frame(run, "opinion_groups") if run.has("opinion_groups") else pd.DataFrame()
    if len(table):
        table = where(table, variant=own.PROMPTS_ALONE, axis=choice.measured)
    if table.empty:
        return nothing(NAMES, question, own.ONE_JUDGE)
    # each judge that was asked later brought the audit's own again
    table = table.drop_duplicates(["judge", "group"])
    other = table["judge"] != run.meta["judge"]["name"]
    table = table.assign(other=other).sort_values("other", kind="stable")
    shown = table[["judge", "group", "value", "low", "high", "n"]].reset_index(drop=True)
    title = "mean verdict on the prompts alone, 0 to 1"
    figure = _figure(choice, shown, "value", "group", title)
    return Panel(NAMES, question, _names_answer(table), figure, shown, own.NAMES_SAID)


def _names_answer(table: pd.DataFrame) -> str:
    """By every judge, the group with the highest and with the lowest verdict, and whether their
    intervals part."""
    said = []
    for judge, mine in table.groupby("judge", sort=False):
        low, high = mine.loc[mine["value"].idxmin()], mine.loc[mine["value"].idxmax()]
        parted = math.isfinite(high["low"]) and high["low"] > low["high"]
        ends = ", ".join(f"{end['group']} {phrasing.number(end['value'])}" for end in (high, low))
        said.append(
            f"{judge}: from {ends}" if parted else f"{judge}: no two groups clearly apart ({ends})"
        )
    return f"{'; '.join(said)}."


# Do people agree with the judge? What their labels make of its numbers: a sentence, a chart.


LABELS_KEY, QUESTION = "labels", "Do people agree with the judge?"
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
        return nothing(LABELS_KEY, QUESTION, NOBODY)
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
    return Panel(LABELS_KEY, QUESTION, said(found), figure, shown, HOW, mind=more)


def row_name(found: Told, group: str) -> str:
    """A row of `Told` in words."""
    if group == GAP:
        return " minus ".join(map(words.quoted, found.ends))
    return words.group_name(group) if group != ALL else "all texts"


def said(found: Told) -> str:
    """Who labelled how many, what clearly changes by their labels, and whether the judge errs."""
    number = len(found.people)
    who = f"{phrasing.counted(number).capitalize()} {'person' if number == 1 else 'people'}"
    start = f"{who} labelled {found.read:,} of {found.texts:,} texts."
    if found.holes:
        holes = phrasing.count(found.holes, "text")
        return f"{start} They passed over {holes}, so nothing follows for the others."
    rows = [row for row in found.rows.to_dict("records") if row["group"] != GAP]
    if not rows:
        return f"{start} Too few of them show a change for any figure."
    judged = ALL_READ if found.read == found.texts else _judge(rows)
    return f"{start} {_changes(rows)} {judged}"


def _changes(rows: list[Values]) -> str:
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
        f"{verb} {phrasing.names(names)}"
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


def _name(row: Values) -> str:
    return words.quoted(row["group"]) if row["group"] != ALL else "all texts together"


def _judge(rows: list[Values]) -> str:
    """About whom the judge is shown to err."""
    wrong = [_name(row) for row in rows if row["errs"]]
    if not wrong:
        return "So few labels do not beat the judge alone."
    rest = "" if len(wrong) == len(rows) else "; elsewhere they are too few to beat it"
    return f"The labels show that the judge errs about {phrasing.names(wrong)}{rest}."


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
    return phrasing.sentences(parts)
