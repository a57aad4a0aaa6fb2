"""Importance of every head before and after fine-tuning, beside each other (Fig. 6.1 of the
thesis); any score."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.errors import RequestError, unknown
from engine.core.types import POOLED
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.classifier_lookup import trials_said
from engine.report.charts.heat_map import Scale, head_grid, mark, matrix_figure
from engine.report.charts.kinds import dots, looks_of, points
from engine.report.charts.panel import Choice, Panel, nothing, wrapped
from engine.report.charts.reliability_parts import (
    ICC_SAID,
    chance_said,
    icc_figure,
    overlap_row,
    reliable_said,
    row_of,
    shown,
)
from engine.report.schema import group_or, hovers, readable
from engine.stats.reliability import repeats_of, set_overlap
from engine.store.runs import Run
from engine.store.tables import where
from engine.tracks.text_classifiers import words as own
from engine.tracks.text_classifiers.panels.lookup import (
    PRETRAINED,
    TUNED,
    arm_of,
    head_said,
    scoring,
)
from engine.tracks.text_classifiers.panels.survival import mostly_cut

BOTH_SIGNS = ("conductance", "fixed_class")
"""Scores that can be negative: zero is the middle of their colours."""
ABSENT = "This run kept no importance of heads."
COLUMNS = "stage layer head value low high n n_constant"
OF_ONE_HEAD = "stage score group value low high rank n n_constant"


def scores(run: Run, choice: Choice) -> list[str]:
    """Scores with an importance, that of the chosen arm first."""
    if not run.has("importance"):
        return []
    known = set(lookup.frame(run, "importance")["score"])
    ordered = [*filter(known.__contains__, own.IMPORTANCE), *sorted(known - set(own.IMPORTANCE))]
    mine = arm_of(choice.method)[1]
    return sorted(ordered, key=lambda score: score != mine)


def groups(run: Run, choice: Choice) -> list[str]:
    """All texts (""), then the groups of the chosen axis whose texts were scored on their own."""
    if not run.has("importance"):
        return [""]
    table = lookup.frame(run, "importance")
    mine = table[(table["axis"] == choice.measured) & (table["group"] != "")]
    return ["", *sorted(mine["group"].unique())]


def importance(
    run: Run, score: str, stage: str, axis: str = "", group: str = "", seed: int = POOLED
) -> pd.DataFrame:
    """One row per head, in the order of units; the mean over seeds where nothing pooled was
    kept."""
    if not run.has("importance"):
        return pd.DataFrame()
    table = lookup.frame(run, "importance")
    rows = where(table, score=score, stage=stage)
    rows = where(rows, axis=axis if group else "", group=group)
    mine = rows[rows["seed"] == seed]
    if mine.empty and seed == POOLED and len(rows):
        known = {"value": "mean", "n": "max", "n_constant": "max"}
        mine = rows.groupby(["unit", "layer", "head"], as_index=False).agg(known)
        mine = mine.assign(low=math.nan, high=math.nan)
    return mine.sort_values("unit", ignore_index=True)


def importance_maps(run: Run, choice: Choice, score: str = "conductance", group: str = "") -> Panel:
    """Layer x head before and after fine-tuning, in the same colours."""
    whom = f" on texts of {words.quoted(group)}" if group else ""
    question = (
        f"Which heads matter by {own.importance_name(score)}{whom}, before and after fine-tuning?"
    )
    found = {
        stage: importance(run, score, stage, choice.measured, group)
        for stage in (PRETRAINED, TUNED)
    }
    found = {stage: table for stage, table in found.items() if len(table)}
    if not found:
        return nothing(
            "importance_maps",
            question,
            f"This run has no importance by {own.importance_name(score)} here.",
        )
    scale = _scale(score, pd.concat(found.values())["value"])
    cut = mostly_cut(run, choice) if arm_of(choice.method)[1] == score else []
    parts = tuple(
        _map(run, choice, score, stage, table, scale, cut) for stage, table in found.items()
    )
    table = pd.concat(
        [part.assign(stage=stage) for stage, part in found.items()], ignore_index=True
    )
    answer, rest = _answer(run, score, found)
    return Panel(
        "importance_maps",
        question,
        answer,
        None,
        readable(table, COLUMNS, value="importance", n="texts"),
        _note(run, score, found, cut),
        parts,
        more=rest,
    )


def _scale(score: str, values: pd.Series) -> Scale:
    low, high = float(values.min()), float(values.max())
    if score in BOTH_SIGNS:
        end = max(abs(low), abs(high)) or 1.0
        texts = [
            f"against<br>{phrasing.number(-end)}",
            "0<br> ",
            f"along<br>+{phrasing.number(end)}",
        ]
        return Scale(-end, end, [-0.86 * end, 0, 0.86 * end], texts, diverges=True)
    low = min(0.0, low)
    room = 0.08 * (high - low) or 1.0
    return Scale(
        low,
        high,
        [low + room, high - room],
        [f"least<br>{phrasing.number(low)}", f"most<br>{phrasing.number(high)}"],
    )


def _map(
    run: Run,
    choice: Choice,
    score: str,
    stage: str,
    table: pd.DataFrame,
    scale: Scale,
    cut: Sequence[int],
) -> go.Figure:
    whole = table.set_index("unit").reindex(range(lookup.total_heads(run))).reset_index()
    name = own.stage_name(stage)
    said = hovers(
        whole,
        "unit value n n_constant",
        unit=lambda unit: f"{head_said(run, unit)}, {name}",
        value=own.importance_name(score),
        n="texts",
    )
    figure = head_grid(run, choice, whole["value"].to_numpy(), scale, said, name.capitalize())
    if stage == TUNED:
        mark(figure, run, choice, list(cut), "x-thin", "cut by most seeds")
    return figure


def rank_correlation(first: pd.Series, second: pd.Series) -> float:
    """Spearman's, over the heads both have; NaN where one does not vary."""
    both = pd.concat([first, second], axis=1).dropna()
    if len(both) < 3 or both.nunique().min() < 2:
        return math.nan
    ranks = both.rank()
    return float(ranks.iloc[:, 0].corr(ranks.iloc[:, 1]))


def _answer(run: Run, score: str, found: dict[str, pd.DataFrame]) -> tuple[str, str]:
    """How much of the order of heads fine-tuning keeps, where that is known; negative heads; heads
    that never vary."""
    parts = []
    if len(found) == 2:
        r = rank_correlation(*(table.set_index("unit")["value"] for table in found.values()))
        total = lookup.total_heads(run)
        parts.append(
            f"{_kept_order(r, total)} (rank correlation {phrasing.correlation(r)} over {total}"
            " heads)"
        )
    if score in BOTH_SIGNS:
        negative = {stage: float((table["value"] < 0).mean()) for stage, table in found.items()}
        shares = [
            f"{phrasing.percent(round(share, 3))} {own.stage_name(stage)}"
            for stage, share in negative.items()
        ]
        parts.append(
            f"the correlation is negative for {phrasing.listing(shares)}, the first candidates for"
            " a cut"
        )
    tuned = found.get(TUNED, next(iter(found.values())))
    top = tuned.loc[tuned["value"].idxmax()]
    parts.append(
        f"highest after fine-tuning is {head_said(run, int(top['unit']))}"
        f" ({phrasing.number(top['value'])})"
    )
    constant = int((tuned["n_constant"] >= tuned["n"].clip(lower=1)).sum())
    if constant:
        verb = "have maps that never vary" if constant > 1 else "has maps that never vary"
        parts.append(
            f"{phrasing.count(constant, 'head')} {verb} and count{'s' * (constant == 1)} as 0"
        )
    rest = f"{phrasing.sentence('; '.join(parts[1:]))}." if len(parts) > 1 else ""
    return f"{phrasing.sentence(parts[0])}.", rest


def chance_correlation(total: int) -> float:
    """What two orders of `total` heads that know nothing of each other correlate by, at most 95
    times in 100."""
    return 1.96 / math.sqrt(max(total - 1, 1))


def _kept_order(r: float, total: int) -> str:
    """What fine-tuning leaves of the order of heads, against what chance gives among so many."""
    chance = chance_correlation(total)
    if math.isnan(r):
        return (
            "One side does not vary, so nothing shows whether fine-tuning keeps the order of heads"
        )
    if abs(r) <= chance:
        known = f"\u00b1{phrasing.correlation(chance)}"
        return f"Fine-tuning keeps the order of heads no better than chance (up to {known})"
    if r < 0:
        return "Fine-tuning turns the order of heads around"
    return f"Fine-tuning {'largely keeps' if r > 0.7 else 'partly keeps'} the order of heads"


def _note(run: Run, score: str, found: dict[str, pd.DataFrame], cut: Sequence[int]) -> str:
    word = own.IMPORTANCE.get(score)
    n = int(max(table["n"].max() for table in found.values()))
    read = (
        f"Mean over {phrasing.count(n, 'training text')}, {trials_said(run)}."
        if n
        else f"{trials_said(run)}."
    )
    crosses = " Crosses: heads that most seeds cut at the chosen level." if len(cut) else ""
    how = ""
    if score in BOTH_SIGNS:
        which = "true" if scoring(run, "target", "predicted") == "gold" else "predicted"
        name = own.MAP_CORRELATIONS[str(scoring(run, "correlation", "spearman"))].name
        how = (
            f" {name} correlation, attributions of the {which} class, {scoring(run, 'steps', 20)}"
            " integration steps."
        )
    missing = "" if PRETRAINED in found else " The pre-trained weights were not scored."
    about = f"{word.definition} {word.caveat}".strip() if word else ""
    return f"{about} {read}{how}{crosses}{missing} {words.COUNTING}".strip()


def importance_scatter(
    run: Run, choice: Choice, score: str = "conductance", group: str = ""
) -> Panel:
    """Before against after, one point per head."""
    whom = f" on texts of {words.quoted(group)}" if group else ""
    question = (
        f"Does fine-tuning keep the order of the heads by {own.importance_name(score)}{whom}?"
    )
    before, after = (
        importance(run, score, stage, choice.measured, group) for stage in (PRETRAINED, TUNED)
    )
    if before.empty or after.empty:
        return nothing(
            "importance_scatter", question, "That takes an importance before and after fine-tuning."
        )
    both = (
        before.set_index("unit")["value"]
        .to_frame("before")
        .join(after.set_index("unit")["value"].rename("after"))
    )
    both = both.dropna()
    r, up = rank_correlation(both["before"], both["after"]), both["after"] - both["before"]
    most, least = (head_said(run, int(unit)) for unit in (up.idxmax(), up.idxmin()))
    kept = _kept_order(r, lookup.total_heads(run))
    answer = (
        f"{kept} (rank correlation {phrasing.correlation(r)}). Most gains {most}; most loses"
        f" {least}."
    )
    heads = int(run.meta["model"]["n_heads"])
    table = pd.DataFrame(
        {
            "layer": both.index // heads,
            "head": both.index % heads,
            "pre-trained": both["before"],
            "fine-tuned": both["after"],
        }
    )
    note = (
        f"One point per head, mean over {trials_said(run)}. The pre-trained model's classification"
        " head is random."
    )
    figure = _scatter(run, choice, score, both)
    return Panel("importance_scatter", question, answer, figure, table, note)


def _scatter(run: Run, choice: Choice, score: str, both: pd.DataFrame) -> go.Figure:
    drawn = both.rename_axis("unit").reset_index()
    said = hovers(drawn, "unit before after", unit=lambda unit: head_said(run, unit))
    titles = (f"{own.importance_name(score)}, pre-trained", "fine-tuned")
    look = {"zero": "xy" if score in BOTH_SIGNS else "", "customdata": drawn[["unit"]].to_numpy()}
    look["unselected"] = {"marker": {"opacity": 0.45}}
    return points(choice, drawn.assign(hover=said), "before", "after", titles, **look)


def head_numbers(run: Run, unit: int) -> pd.DataFrame:
    """Everything measured on one head: per stage, score and group its importance, and its rank
    among all heads."""
    total = lookup.total_heads(run)
    if not 0 <= unit < total:
        raise RequestError(unknown("head", unit, [f"0 to {total - 1}"]))
    if not run.has("importance"):
        return pd.DataFrame()
    table = lookup.frame(run, "importance")
    table = table[table["seed"] == POOLED]
    rank = table.groupby(["stage", "score", "axis", "group"])["value"].rank(
        ascending=False, method="min"
    )
    mine = table.assign(rank=rank)[table["unit"] == unit]
    return readable(
        mine.reset_index(drop=True),
        OF_ONE_HEAD,
        score=own.importance_name,
        group=group_or("all"),
        value="importance",
    )


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
        f"Spearman over {total} heads of the fine-tuned model, mean over {trials_said(run)}. "
        f"Chance: up to \u00b1{phrasing.correlation(chance)}. Agreement does not prove that "
        "either score is right."
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
        return f"No two scores agree more than by chance; the closest are {pair} ({r})."
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
    answer = reliable_said(table, "score", "scores")
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
    said = hovers(table, "score shared", score=own.importance_name, shared=_in_common)
    rows = {score: wrapped(own.importance_name(score), 18) for score in table["score"]}
    chance = {"null_low": table["chance low"], "null_high": table["chance high"]}
    drawn, title = table.assign(hover=said, all="", **chance), "share of the lowest heads in common"
    looks = looks_of(choice, [""])
    figure = dots(
        choice, drawn, "shared", rows, looks, title, row="score", by="all", bars="-", zero=False
    )
    figure.update_xaxes(range=[-0.02, 1.03], tickformat=".0%")
    return figure


def _in_common(share: float) -> str:
    return f"{share:.0%} in common"
