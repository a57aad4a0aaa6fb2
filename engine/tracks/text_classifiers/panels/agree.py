"""Do the scores agree on which heads matter, and would the importance come out again with another
seed?"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core.types import POOLED
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.classifier_lookup import trials_said
from engine.report.charts.heat_map import matrix_figure
from engine.report.charts.marks import row_names, row_range
from engine.report.charts.panel import Choice, Panel, blank, nothing, wrapped
from engine.report.charts.reliability_parts import (
    GOOD,
    ICC_SAID,
    chance_said,
    icc_figure,
    icc_said,
    marker,
    overlap_row,
    row_of,
    shown,
)
from engine.stats.reliability import repeats_of, set_overlap
from engine.store.runs import Run
from engine.tracks.text_classifiers import words as own
from engine.tracks.text_classifiers.panels.importance import (
    ABSENT,
    chance_correlation,
    importance,
    rank_correlation,
    scores,
)
from engine.tracks.text_classifiers.panels.lookup import TUNED, arm_of


def scores_agree(run: Run, choice: Choice) -> Panel:
    """Rank correlation of the fine-tuned model's importance between scores, over heads."""
    question = "Do the scores agree on which heads matter?"
    known = [score for score in own.IMPORTANCE if score in scores(run, choice)]
    known += [score for score in scores(run, choice) if score not in known]
    if len(known) < 2:
        return nothing(
            "scores_agree", question, ABSENT if not known else "That takes at least two scores."
        )
    values = {score: importance(run, score, TUNED).set_index("unit")["value"] for score in known}
    matrix = np.array([[rank_correlation(values[a], values[b]) for b in known] for a in known])
    names, same = [own.importance_name(score) for score in known], np.eye(len(known), dtype=bool)
    texts = [[phrasing.correlation(r) for r in row] for row in matrix]
    for place in range(len(known)):
        texts[place][place] = "1"
    figure = matrix_figure(
        np.nan_to_num(np.where(same, np.nan, matrix)), names, choice, -1.0, 1.0, texts
    )
    pairs = itertools.combinations(range(len(known)), 2)
    table = pd.DataFrame(
        [{"score": names[i], "and": names[j], "rank correlation": matrix[i, j]} for i, j in pairs]
    )
    total = lookup.total_heads(run)
    chance = chance_correlation(total)
    note = (
        f"Spearman over {total} heads of the fine-tuned model, mean over {trials_said(run)}."
        f" Chance: up to \u00b1{phrasing.correlation(chance)}. Agreement is no proof that either"
        " score is right."
    )
    return Panel("scores_agree", question, _agree_said(table, chance), figure, table, note)


def _agree_said(table: pd.DataFrame, chance: float) -> str:
    """Every pair of scores that know something, then the ones that agree no more than chance."""
    rows = table[table["rank correlation"].notna()].sort_values("rank correlation", ascending=False)
    if rows.empty:
        return "No correlation can be computed: the scores do not vary."
    top = rows.iloc[0]
    pair, r = f"{top['score']} and {top['and']}", phrasing.correlation(top["rank correlation"])
    alike = rows[rows["rank correlation"] > chance]
    if alike.empty:
        return f"No two scores agree more than chance gives; closest are {pair} ({r})."
    if len(rows) == 1:
        return phrasing.sentence(f"{pair} agree more than chance gives ({r}).")
    return (
        f"Most alike: {pair} ({r}); {len(alike)} of {len(rows)} pairs agree more than chance gives."
    )


def importance_repeats(run: Run, choice: Choice) -> Panel:
    """ICC of one seed per score, over heads."""
    question = "If the heads were scored with another seed, would the importance come out the same?"
    rows = []
    for score in scores(run, choice):
        table = by_seed(run, score)
        if table.shape[1] >= 2 and len(table) >= 2:
            rows.append(row_of(own.importance_name(score), "all heads", repeats_of(table)))
    rows = [row for row in rows if not math.isnan(row["ICC"])]
    if not rows:
        return nothing(
            "importance_repeats", question, "That takes an importance from at least two seeds."
        )
    table = pd.DataFrame(rows)
    good, worst = int((table["ICC"] >= GOOD).sum()), table.loc[table["ICC"].idxmin()]
    verdict, icc = "is reliable" if good else "is not reliable", icc_said(worst)
    answer = (
        f"Scored by {worst['name']}, a single seed {verdict}: {icc}, where {GOOD:g} is good."
        if len(table) == 1
        else (
            f"A single seed is reliable (ICC at least {GOOD:g}) by {good} of {len(table)} scores;"
            f" lowest: {worst['name']}, {icc}."
        )
    )
    note = (
        f"{ICC_SAID} {trials_said(run)}: another fine-tuning and another sample of texts each; 95 %"
        " intervals, bootstrap over heads. The size of weights hardly depends on the seed."
    )
    return Panel(
        "importance_repeats", question, answer, icc_figure(table, choice), shown(table), note
    )


def by_seed(run: Run, score: str) -> pd.DataFrame:
    """Importance of the fine-tuned model on all texts, rows = units, columns = seeds."""
    if not run.has("importance"):
        return pd.DataFrame()
    rows = lookup.frame(run, "importance")
    rows = rows[
        (rows["score"] == score)
        & (rows["stage"] == TUNED)
        & (rows["group"] == "")
        & (rows["seed"] != POOLED)
    ]
    return rows.pivot(index="unit", columns="seed", values="value").dropna()


def lowest_repeat(run: Run, choice: Choice) -> Panel:
    """The heads that every seed would cut first, by the score of the chosen arm, against chance."""
    question = "Would every seed cut the same heads first?"
    at, total, rows = lookup.level_of(run, choice), lookup.total_heads(run), []
    for score in scores(run, choice):
        table = by_seed(run, score)
        if table.shape[1] < 2:
            continue
        size = max(1, round(at * len(table)))
        sets = [table[seed].sort_values(kind="stable").index[:size].tolist() for seed in table]
        rows.append({"score": score, **overlap_row(set_overlap(sets, total))})
    if not rows:
        return nothing(
            "lowest_repeat", question, "That takes an importance from at least two seeds."
        )
    table = pd.DataFrame(rows)
    mine = table[table["score"] == arm_of(choice.method)[1]]
    row = (table if mine.empty else mine).iloc[0]
    by_chance = chance_said(row["by chance"], row["chance high"], row["more than chance"])
    answer = (
        f"Of the {phrasing.percent(at)} lowest heads by {own.importance_name(row['score'])}, two"
        f" seeds share {phrasing.percent(round(row['shared'], 3))}; {by_chance}."
    )
    readable = table.assign(score=table["score"].map(own.importance_name))
    note = (
        f"{trials_said(run)}, fine-tuned model, all texts. Bars of chance: 95 % of random sets of"
        " the same size."
    )
    return Panel("lowest_repeat", question, answer, _overlap_figure(choice, table), readable, note)


def _overlap_figure(choice: Choice, table: pd.DataFrame) -> go.Figure:
    figure = blank(choice, 120 + 44 * len(table), "share of the lowest heads in common")
    for place, row in enumerate(table.to_dict("records")):
        row_range(figure, choice, place, row["chance low"], row["chance high"], 0.36)
    look = {"mode": "markers", "marker": {**marker(choice, 0), "size": 11}, "showlegend": False}
    said = "%{x:.0%} in common<extra></extra>"
    figure.add_scatter(x=table["shared"], y=list(range(len(table))), hovertemplate=said, **look)
    row_names(figure, [wrapped(own.importance_name(score), 18) for score in table["score"]])
    figure.update_xaxes(range=[-0.02, 1.03], tickformat=".0%", nticks=6, showgrid=True)
    return figure
