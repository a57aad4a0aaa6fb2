"""Importance of every head before and after fine-tuning, beside each other (Fig. 6.1 of the
thesis); any score."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.types import POOLED, Values, at_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.cost import BY_CHANCE, MAX_Q, as_change, direction, q_said
from engine.report.charts.heat_map import Scale, head_grid, mark, matrix_figure, prove_head
from engine.report.charts.kinds import dots, lines, looks_of, points
from engine.report.charts.lookup import trials_said
from engine.report.charts.panel import Choice, Panel, nothing, wrapped
from engine.report.charts.reliability_parts import (
    ICC_SAID,
    chance_said,
    icc_figure,
    overlap_row,
    reliable_said,
    repeated,
    shown,
)
from engine.report.schema import group_or, hovers, readable
from engine.report.tracks import Measure
from engine.stats.reliability import set_overlap
from engine.store.runs import Run, where
from engine.tracks.text_classifiers import words as own
from engine.tracks.text_classifiers.panels.survival import (
    PRETRAINED,
    TUNED,
    arm_of,
    correlation_said,
    groups_of_axis,
    head_said,
    measure_of,
    mostly_cut,
    proof_said,
    scoring,
    target_said,
    task,
    two_sided,
)
from engine.tracks.text_classifiers.words import arm_style

BOTH_SIGNS = ("conductance", "fixed_class")
"""Scores that can be negative: zero is the middle of their colours."""
ABSENT = "This run kept no importance of heads."
ONE_SEED = "That takes an importance from at least two seeds."
IN_TABLE = "stage score seed axis group unit layer head value"
COLUMNS = "stage layer head value low high n n_constant"
OF_ONE_HEAD = "stage score group value low high rank n n_constant"


def scores(run: Run, choice: Choice) -> list[str]:
    """Scores with an importance, that of the chosen arm first."""
    mine = arm_of(choice.method)[1]
    return sorted(_in_order(run), key=lambda score: score != mine)


def _in_order(run: Run) -> list[str]:
    known = set(_table(run)["score"])
    return [*filter(known.__contains__, own.IMPORTANCE), *sorted(known - set(own.IMPORTANCE))]


def _table(run: Run) -> pd.DataFrame:
    return lookup.table(run, "importance", IN_TABLE)


def groups(run: Run, choice: Choice) -> list[str]:
    """All texts (""), then the groups of the chosen axis whose texts were scored on their own."""
    mine = where(_table(run), axis=choice.measured)
    return ["", *sorted(mine["group"].unique())]


def importance(
    run: Run, score: str, stage: str, axis: str = "", group: str = "", seed: int = POOLED
) -> pd.DataFrame:
    """One row per head, in the order of units; of one seed, or the mean over them."""
    wanted = {"score": score, "stage": stage, "axis": axis if group else "", "group": group}
    return where(_table(run), **wanted, seed=seed).sort_values("unit", ignore_index=True)


def _both(run: Run, choice: Choice, score: str, group: str) -> dict[str, pd.DataFrame]:
    """The importance at each stage that was scored, by stage."""
    found = {
        stage: importance(run, score, stage, choice.measured, group)
        for stage in (PRETRAINED, TUNED)
    }
    return {stage: table for stage, table in found.items() if len(table)}


def _on(group: str) -> str:
    return f" on texts of {words.quoted(group)}" if group else ""


def importance_maps(run: Run, choice: Choice, score: str = "conductance", group: str = "") -> Panel:
    """Layer x head before and after fine-tuning, in the same colours."""
    name = own.importance_name(score)
    question = f"Which heads matter by {name}{_on(group)}, before and after fine-tuning?"
    found = _both(run, choice, score, group)
    if not found:
        why = f"This run has no importance by {name} here."
        return nothing("importance_maps", question, why)
    table = pd.concat(
        [part.assign(stage=stage) for stage, part in found.items()], ignore_index=True
    )
    scale = _scale(score, table["value"])
    cut = mostly_cut(run, choice) if arm_of(choice.method)[1] == score else []
    parts = tuple(
        _map(run, choice, score, stage, table, scale, cut) for stage, table in found.items()
    )
    (answer, rest), note = _answer(run, score, found), _note(run, score, found, cut)
    shown = readable(table, COLUMNS, value="importance", n="texts")
    return Panel("importance_maps", question, answer, None, shown, note, parts, more=rest)


def _scale(score: str, values: pd.Series) -> Scale:
    low, high = float(values.min()), float(values.max())
    if score in BOTH_SIGNS:
        return two_sided(max(abs(low), abs(high)) or 1.0, "against", "along")
    low = min(0.0, low)
    room = 0.08 * (high - low) or 1.0
    texts = [f"least<br>{phrasing.number(low)}", f"most<br>{phrasing.number(high)}"]
    return Scale(low, high, [low + room, high - room], texts)


def _map(
    run: Run,
    choice: Choice,
    score: str,
    stage: str,
    table: pd.DataFrame,
    scale: Scale,
    cut: Sequence[int],
) -> go.Figure:
    whole = table.set_index("unit").reindex(range(run.n_units)).reset_index()
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


def _agreement(values: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Spearman's correlation of the values of several tables, over the heads that both have; NaN
    where one does not vary."""
    columns = {name: table.set_index("unit")["value"] for name, table in values.items()}
    return pd.DataFrame(columns).corr(_spearman, min_periods=3)


def _spearman(one: np.ndarray, other: np.ndarray) -> float:
    ranks = pd.DataFrame({"one": one, "other": other}).rank()
    return ranks["one"].corr(ranks["other"]) if ranks.nunique().min() > 1 else math.nan


def _answer(run: Run, score: str, found: dict[str, pd.DataFrame]) -> tuple[str, str]:
    """How much of the order of heads fine-tuning keeps, where that is known; negative heads; heads
    that never vary."""
    parts = []
    if len(found) == 2:
        total = run.n_units
        r = float(_agreement(found).iat[0, 1])
        over = f"(rank correlation {phrasing.correlation(r)} over {total} heads)"
        parts.append(f"{_kept_order(r, total)} {over}")
    if score in BOTH_SIGNS:
        negative = {stage: float((table["value"] < 0).mean()) for stage, table in found.items()}
        shares = [
            f"{phrasing.percent(round(share, 3))} of the {own.stage_name(stage)}"
            for stage, share in negative.items()
        ]
        first = "heads with a negative correlation are the first candidates for a cut"
        parts.append(f"{first}: {phrasing.listing(shares)} model's")
    tuned = found.get(TUNED, next(iter(found.values())))
    top = tuned.loc[tuned["value"].idxmax()]
    named = f"{head_said(run, int(top['unit']))} ({phrasing.number(top['value'])})"
    parts.append(f"highest after fine-tuning: {named}")
    constant = int((tuned["n_constant"] >= tuned["n"].clip(lower=1)).sum())
    if constant:
        verbs = ("has", "counts") if constant == 1 else ("have", "count")
        heads = phrasing.count(constant, "head")
        parts.append(f"{heads} {verbs[0]} maps that never vary and {verbs[1]} as 0")
    return phrasing.sentences(parts[:1]), phrasing.sentences(parts[1:])


REACH = 1.96
"""Standard errors on either side of 0 that chance reaches 95 times in 100."""


def chance_correlation(total: int) -> float:
    """What two orders of `total` heads that know nothing of each other correlate by, at most 95
    times in 100."""
    return REACH / math.sqrt(max(total - 1, 1))


def _kept_order(r: float, total: int) -> str:
    """What fine-tuning leaves of the order of heads, against what chance gives among so many."""
    chance = chance_correlation(total)
    if math.isnan(r):
        return (
            "One side does not vary, so nothing shows whether fine-tuning keeps the order of heads"
        )
    if abs(r) <= chance:
        known = f"\u00b1{phrasing.correlation(chance)}"
        return f"Fine-tuning keeps the order of heads no better than chance, up to {known}"
    if r < 0:
        return "Fine-tuning reverses the order of heads"
    return f"Fine-tuning {'largely keeps' if r > 0.7 else 'partly keeps'} the order of heads"


def _note(run: Run, score: str, found: dict[str, pd.DataFrame], cut: Sequence[int]) -> str:
    word = own.IMPORTANCE.get(score)
    n = int(max(table["n"].max() for table in found.values()))
    over = f"Mean over {phrasing.count(n, 'training text')}, " if n else ""
    read = f"{over}{trials_said(run)}."
    crosses = " Crosses: heads that most seeds cut at the chosen level." if len(cut) else ""
    how = ""
    if score in BOTH_SIGNS:
        which, steps = target_said(run), scoring(run, "steps", 20)
        name = correlation_said(run)
        how = f" {name}, attributions of the {which} class, {steps} integration steps."
    missing = "" if PRETRAINED in found else " The pre-trained weights were not scored."
    about = f"{word.definition} {word.caveat}".strip() if word else ""
    return f"{about} {read}{how}{crosses}{missing} {words.COUNTING}".strip()


def importance_scatter(
    run: Run, choice: Choice, score: str = "conductance", group: str = ""
) -> Panel:
    """Before against after, one point per head."""
    name = own.importance_name(score)
    question = f"Does fine-tuning keep the order of the heads by {name}{_on(group)}?"
    found = _both(run, choice, score, group)
    if len(found) < 2:
        why = "That takes an importance before and after fine-tuning."
        return nothing("importance_scatter", question, why)
    both = found[PRETRAINED].merge(found[TUNED][["unit", "value"]], on="unit")
    both = both.rename(columns={"value_x": "before", "value_y": "after"})
    both = both.dropna(subset=["before", "after"]).set_index("unit", drop=False)
    r, up = float(_agreement(found).iat[0, 1]), both["after"] - both["before"]
    most, least = (head_said(run, int(unit)) for unit in (up.idxmax(), up.idxmin()))
    kept = f"{_kept_order(r, run.n_units)} (rank correlation {phrasing.correlation(r)})"
    answer = f"{kept}. {phrasing.sentence(most)} gains most; {least} loses most."
    titles = {"before": PRETRAINED, "after": TUNED}
    table = both[["layer", "head", *titles]].rename(columns=titles).reset_index(drop=True)
    note = (
        f"One point per head, mean over {trials_said(run)}. The pre-trained model's classification"
        " head is random."
    )
    figure = _scatter(run, choice, score, both)
    return Panel("importance_scatter", question, answer, figure, table, note)


def _scatter(run: Run, choice: Choice, score: str, both: pd.DataFrame) -> go.Figure:
    drawn = both.reset_index(drop=True)
    said = hovers(drawn, "unit before after", unit=lambda unit: head_said(run, unit))
    titles = (f"{own.importance_name(score)}, pre-trained", "fine-tuned")
    look = {"zero": "xy" if score in BOTH_SIGNS else "", "customdata": drawn[["unit"]].to_numpy()}
    look["unselected"] = {"marker": {"opacity": 0.45}}
    return points(choice, drawn.assign(hover=said), "before", "after", titles, **look)


def head_numbers(run: Run, unit: int) -> pd.DataFrame:
    """Everything measured on one head: per stage, score and group its importance, and its rank
    among all heads."""
    prove_head(run, unit)
    table = where(_table(run), seed=POOLED)
    places = table.groupby(["stage", "score", "axis", "group"])["value"]
    mine = table.assign(rank=places.rank(ascending=False, method="min"))
    mine = where(mine, unit=unit).reset_index(drop=True)
    names = {"score": own.importance_name, "group": group_or("all")}
    return readable(mine, OF_ONE_HEAD, **names, value="importance")


def scores_agree(run: Run, choice: Choice) -> Panel:
    """Rank correlation of the fine-tuned model's importance between scores, over heads."""
    question = "Do the scores agree on which heads matter?"
    known = _in_order(run)
    if len(known) < 2:
        why = "That takes at least two scores." if known else ABSENT
        return nothing("scores_agree", question, why)
    found = _agreement({score: importance(run, score, TUNED) for score in known}).to_numpy()
    names = [own.importance_name(score) for score in known]
    texts = [[phrasing.correlation(r) for r in row] for row in found]
    for place, row in enumerate(texts):
        row[place] = "1"
    drawn = np.nan_to_num(np.where(np.eye(len(known), dtype=bool), 0.0, found))
    figure = matrix_figure(drawn, names, choice, -1.0, 1.0, texts)
    pairs = itertools.combinations(range(len(known)), 2)
    table = pd.DataFrame(
        [{"score": names[i], "and": names[j], "rank correlation": found[i, j]} for i, j in pairs]
    )
    total = run.n_units
    chance = chance_correlation(total)
    note = (
        f"Spearman over {total} heads of the fine-tuned model, mean over {trials_said(run)}. "
        f"Chance: up to \u00b1{phrasing.correlation(chance)}. Agreement does not prove that "
        "either score is right."
    )
    return Panel("scores_agree", question, _agree_said(table, chance), figure, table, note)


def _agree_said(table: pd.DataFrame, chance: float) -> str:
    """Every pair of scores that know something, then the ones that agree no more than chance."""
    rows = table[table["rank correlation"].notna()].sort_values(
        "rank correlation", ascending=False, kind="stable"
    )
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
    table = repeated(
        (own.importance_name(score), "all heads", values)
        for score, values in _by_seed(run, choice)
        if len(values) >= 2
    )
    if table.empty:
        return nothing("importance_repeats", question, ONE_SEED)
    answer = reliable_said(table, "score", "scores")
    note = (
        f"{ICC_SAID} {trials_said(run)}: another fine-tuning and another sample of texts each; 95 %"
        " intervals, bootstrap over heads. The size of weights hardly depends on the seed."
    )
    figure = icc_figure(table, choice)
    return Panel("importance_repeats", question, answer, figure, shown(table), note)


def _by_seed(run: Run, choice: Choice) -> Iterator[tuple[str, pd.DataFrame]]:
    """By score, of several seeds, the importance of the fine-tuned model on all texts: rows are
    units, columns seeds."""
    rows = where(_table(run), stage=TUNED, group="")
    rows = rows[rows["seed"] != POOLED]
    for score in scores(run, choice):
        table = where(rows, score=score).pivot(index="unit", columns="seed", values="value")
        if table.shape[1] >= 2:
            yield score, table.dropna()


def lowest_repeat(run: Run, choice: Choice) -> Panel:
    """The heads that every seed would cut first, by the score of the chosen arm, against chance."""
    question = "Would every seed cut the same heads first?"
    at, total, rows = lookup.level_of(run, choice), run.n_units, []
    for score, table in _by_seed(run, choice):
        size = max(1, round(at * len(table)))
        sets = [table[seed].sort_values(kind="stable").index[:size].tolist() for seed in table]
        rows.append({"score": score, **overlap_row(set_overlap(sets, total))})
    if not rows:
        return nothing("lowest_repeat", question, ONE_SEED)
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
    said = hovers(
        table,
        "score shared",
        score=own.importance_name,
        shared=lambda share: f"{share:.0%} in common",
    )
    rows = {score: wrapped(own.importance_name(score), 18) for score in table["score"]}
    chance = {"null_low": table["chance low"], "null_high": table["chance high"]}
    drawn, title = table.assign(hover=said, all="", **chance), "share of the lowest heads in common"
    looks = looks_of(choice, [""])
    figure = dots(
        choice, drawn, "shared", rows, looks, title, row="score", by="all", bars="-", zero=False
    )
    figure.update_xaxes(range=[-0.02, 1.03], tickformat=".0%")
    return figure


# Does the score help? The paired difference between arms that differ in nothing but what picks
# the heads.


RANDOM = "random"
LONGEST = 6
"""Groups drawn at most."""
HELP_COLUMNS = "base score other sparsity group metric value low high p q n n_trials"
ALL = group_or("all texts")


def score_difference(run: Run, choice: Choice) -> Panel:
    """The chosen score minus every other it was compared with, same procedure: all texts and every
    group."""
    procedure, score = _asked(run, choice)
    at = phrasing.percent(lookup.level_of(run, choice))
    table = differences(run, choice, procedure, score)
    name, arm = own.importance_name(score), own.procedure_name(procedure)
    others = [own.importance_name(str(other)) for other in table["other"].unique()]
    question = f"Does {name} choose better heads than {_or(others)}?"
    if table.empty:
        why = f"This audit does not compare {arm} by {name} and by another score at {at}."
        return nothing("score_difference", question, why)
    n = phrasing.count(int(table["n"].max()), "test text")
    note = (
        f"Difference of {_measure(table.iloc[0].to_dict()).name}: {name} minus the other score,"
        f" {arm} at {at}, same texts, {n}, {trials_said(run)} each. {own.INTERVALS_TEXTS} Several"
        " intervals are read at once: only differences with q (false discovery rate) of at most"
        f" {MAX_Q:g} are claimed."
    )
    (answer, rest), figure = (
        _help_answer(run, choice, table, procedure, score),
        _figure(choice, table),
    )
    names = {"score": own.importance_name, "other": own.importance_name}
    titles = {"value": "difference", "n_trials": "seeds"}
    shown = readable(table, HELP_COLUMNS, base=own.procedure_name, group=ALL, **names, **titles)
    return Panel("score_difference", question, answer, figure, shown, note, more=rest)


def _asked(run: Run, choice: Choice) -> tuple[str, str]:
    """Procedure and score of the choice; where random choice was chosen, the score that it is a
    control for."""
    procedure, score = arm_of(choice.method)
    rows = _differences(run)
    if rows.empty or score not in (RANDOM, ""):
        return procedure, score
    mine = where(rows, base=procedure)
    mine = rows if mine.empty else mine
    known = set(mine["score"])
    first = next(filter(known.__contains__, own.IMPORTANCE), mine["score"].iloc[0])
    return str(mine["base"].iloc[0]), str(first)


def _or(others: list[str]) -> str:
    """ "random choice, magnitude or Michel"."""
    *first, last = others or ["random choice"]
    return " or ".join(filter(None, [", ".join(first), last]))


def _differences(run: Run) -> pd.DataFrame:
    return lookup.table(run, "arm_differences", f"{HELP_COLUMNS} axis")


def differences(run: Run, choice: Choice, procedure: str, score: str) -> pd.DataFrame:
    """Rows of arm_differences at the chosen level: the task's metric on all texts, accuracy of the
    axis' groups."""
    rows = where(_differences(run), base=procedure, score=score)
    rows = rows[at_level(rows["sparsity"], lookup.level_of(run, choice))]
    whole = where(rows, axis="")
    mine = where(whole, metric=task(run).metric)
    mine = where(whole, metric="accuracy") if mine.empty else mine
    groups = groups_of_axis(run, choice.measured)
    each = where(rows, axis=choice.measured, metric="accuracy")
    found = pd.concat([mine, each[each["group"].isin(groups)]], ignore_index=True)
    others = dict.fromkeys([RANDOM, *own.IMPORTANCE, *found["other"]])
    places = {name: order for order, name in enumerate(others)} | {
        group: order for order, group in enumerate(["", *groups])
    }
    # means of equal numbers differ in their last digits
    found = found.round({"value": 9, "low": 9, "high": 9})
    return found.sort_values(
        ["other", "group"], key=lambda names: names.map(places), ignore_index=True
    )


def _measure(row: Values) -> Measure:
    return Measure(row["metric"], few="texts")


def _help_answer(
    run: Run, choice: Choice, table: pd.DataFrame, procedure: str, score: str
) -> tuple[str, str]:
    """The difference on all texts from the first other score; then the subgroups for which it helps
    or harms, and the rest."""
    parts: list[str] = []
    name, arm = own.importance_name(score), own.procedure_name(procedure)
    for other, rows in table.groupby("other", sort=False):
        for row in where(rows, group="").to_dict("records"):
            said = _said(row, name, own.importance_name(str(other)))
            parts.append(phrasing.sentence(said) if parts else said)
        parts.append(_groups_said(rows[rows["group"] != ""]))
    start = f"{arm} at {phrasing.percent(lookup.level_of(run, choice))}: "
    first, *rest = filter(None, parts)
    return phrasing.sentence(start + first), " ".join(rest)


def _said(row: Values, name: str, other: str) -> str:
    change, kind = _measure(row).change(as_change(row)), direction(row)
    verdict = {
        "rose": f"{name} chooses better than {other}",
        "fell": f"{name} chooses worse than {other}",
        "unclear": f"{name} and {other} do not clearly differ",
        BY_CHANCE: f"{name} and {other} do not clearly differ once all comparisons are counted",
    }.get(kind, f"whether {name} helps against {other} was not measured")
    q = f"; {q_said(row)}" if kind == BY_CHANCE and math.isfinite(row["q"]) else ""
    return f"{verdict} ({_measure(row).name} {change}{q})."


def _groups_said(table: pd.DataFrame) -> str:
    kinds: dict[str, list[str]] = {}
    for row in table.to_dict("records"):
        kinds.setdefault(direction(row), []).append(words.quoted(row["group"]))
    parts = [
        f"it {verb} {phrasing.listing(kinds[kind])}"
        for kind, verb in (("rose", "helps"), ("fell", "harms"))
        if kind in kinds
    ]
    text = f"{phrasing.sentence(' and '.join(parts))}." if parts else ""
    text = "No subgroup alone shows a clear difference." if kinds and not parts else text
    if by_chance := kinds.get(BY_CHANCE):
        whose, why = phrasing.listing(by_chance), f"by chance (q above {MAX_Q:g})"
        text += f" For {whose} the interval excludes zero, but so many comparisons can"
        text += f" give that {why}."
    return text


def _figure(choice: Choice, table: pd.DataFrame) -> go.Figure:
    """A row per group, a point per other score."""
    said = hovers(
        table,
        "group other value q n",
        group=ALL,
        other=_against,
        value=f"difference of {_measure(table.iloc[0].to_dict()).name}",
    )
    rows = {
        group: wrapped(ALL(group)) for group in list(dict.fromkeys(table["group"]))[: LONGEST + 1]
    }
    looks = looks_of(choice, list(dict.fromkeys(table["other"])))
    title = "difference; right of zero: chosen better"
    drawn = table.assign(hover=said)
    return dots(choice, drawn, "value", rows, looks, title, row="group", by="other", named=_against)


def _against(other: str) -> str:
    return f"against {own.importance_name(other)}"


APART = 0.012
CHANCE_COLUMNS = (
    "method group sparsity metric value percentile p q null_mean null_low null_high n_masks"
    " n_seeds n"
)


def random_masks(run: Run, choice: Choice, group: str = "") -> Panel:
    """Every arm that trains nothing, and the band of random masks, along the share of heads cut."""
    whom = f" for {words.quoted(group)}" if group else ""
    question = f"Does any score choose heads better than chance on the same weights{whom}?"
    table = ranks(run, choice.measured if group else "", group)
    if table.empty:
        return nothing("tickets_chance", question, own.NO_RANDOM_MASKS)
    measure = measure_of(run, group)
    note = (
        f"{own.RANDOM_MASKS} Band: 95 % of {int(table['n_masks'].max())} random masks, mean over"
        f" {phrasing.count(int(table['n_seeds'].max()), 'seed')};"
        f" {phrasing.count(int(table['n'].max()), 'test text')}."
    )
    answer, mind, rest = _chance_answer(run, choice, table, measure)
    figure = _chance_figure(choice, table, measure)
    shown = readable(table, CHANCE_COLUMNS, group=ALL, value="mean of seeds")
    return Panel("tickets_chance", question, answer, figure, shown, note, mind=mind, more=rest)


def ranks(run: Run, axis: str = "", group: str = "") -> pd.DataFrame:
    """Rows of random_ranks about all texts or one group, by share and percentile; empty in runs
    that have none."""
    table = lookup.table(run, "random_ranks", f"{CHANCE_COLUMNS} axis")
    rows = where(table, axis=axis, group=group)
    return rows.sort_values(["sparsity", "percentile"], ascending=[True, False], ignore_index=True)


def _chance_figure(choice: Choice, table: pd.DataFrame, measure: Measure) -> go.Figure:
    said = hovers(table, "method sparsity value percentile null p q", value=measure.name)
    looks = {name: arm_style(name, choice.dark) for name in dict.fromkeys(table["method"])}
    band = table.drop_duplicates("sparsity")
    titles = ("share of heads cut", measure.title)
    how = {"apart": APART, "mode": "markers", "band": band}
    figure = lines(choice, table.assign(hover=said), "sparsity", "value", looks, titles, **how)
    line = {"color": choice.theme.soft, "dash": "dot", "width": 1.4}
    name = "random masks: mean and 95 %"
    more = {"mode": "lines", "line": line, "hoverinfo": "skip", "name": name}
    figure.add_scatter(x=band["sparsity"], y=band["null_mean"], **more)
    return figure


def _place(row: Values) -> str:
    """E.g. "97th percentile"."""
    at = round(100 * row["percentile"])
    ending = "th" if 10 < at % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(at % 10, "th")
    return f"{at}{ending} percentile"


def _chance_answer(
    run: Run, choice: Choice, table: pd.DataFrame, measure: Measure
) -> tuple[str, str, str]:
    """At the chosen level, or the middle one: who beats chance; who only seems to; then each arm's
    percentile and p-value."""
    level = lookup.level_of(run, choice)
    known = sorted(table["sparsity"].unique())
    level = level if at_level(table["sparsity"], level).any() else known[len(known) // 2]
    rows = table[at_level(table["sparsity"], level)].to_dict("records")
    named = {row["method"]: words.method_name(row["method"]) for row in rows}
    better = [named[row["method"]] for row in rows if row["q"] <= MAX_Q]
    above = [
        named[row["method"]] for row in rows if row["value"] > row["null_high"] and row["q"] > MAX_Q
    ]
    many = f"{rows[0]['n_masks']} random masks"
    verb = "stands" if len(better) == 1 else "stand"
    start = f"{phrasing.listing(better)} {verb} above {many}"
    start = start if better else f"no score clearly differs from {many}"
    but = "Above the 95 % band, but not after correction for all methods and shares compared"
    corrected = f"{but}: {phrasing.listing(above)}." if above else ""
    each = [
        f"{named[row['method']]}: {_place(row)} (p = {phrasing.number(row['p'])})" for row in rows
    ]
    mean, low, high = (measure.number(rows[0][f"null_{end}"]) for end in ("mean", "low", "high"))
    band = f"random masks: {measure.name} {mean}, 95 % from {low} to {high}"
    at = f"With {phrasing.percent(level)} of heads cut and nothing trained again"
    return (
        f"{at} {start} (q at most {MAX_Q:g}).",
        corrected,
        phrasing.sentences([*each, band]),
    )


METRIC = "loss"
"""What silencing a head costs is drawn in: the loss sees every text, accuracy only those that tip
over."""
TRUTH_COLUMNS = "score metric pearson spearman slope slope_low slope_high n_heads"


def score_truth(run: Run, choice: Choice) -> Panel:
    """Slope and correlation of every score; head by head for the score of the chosen arm."""
    question = "Do the scores know what each head is worth?"
    if not run.has("truth_agreement") or lookup.frame(run, "head_truth").empty:
        return nothing("score_truth", question, own.NO_TRUTH)
    table = lookup.frame(run, "truth_agreement")
    table = table[(table["seed"] == POOLED) & table["pearson"].notna()].sort_values(
        "pearson", ascending=False, kind="stable"
    )
    mine = table[table["metric"] == METRIC]
    if mine.empty:
        return nothing(
            "score_truth", question, "No score varies over heads, so none can agree with anything."
        )
    asked = arm_of(choice.method)[1]
    score = asked if asked in set(mine["score"]) else str(mine["score"].iloc[0])
    parts = (_slopes(choice, mine), _truth_scatter(run, choice, score))
    note = (
        f"{own.TRUTH} Costs in nats of cross-entropy, mean over {trials_said(run)}; the table has"
        f" accuracy too. {proof_said(run)}"
    )
    answer, rest = _truth_answer(mine, score)
    titles = {"metric": "cost in", "slope": "slope per deviation"}
    shown = readable(table, TRUTH_COLUMNS, score=own.importance_name, **titles)
    return Panel("score_truth", question, answer, None, shown, note, parts, True, more=rest)


def _slopes(choice: Choice, table: pd.DataFrame) -> go.Figure:
    """A row per score: slope with its interval, the correlation beside its name."""
    said = hovers(table, "score slope pearson spearman", score=own.importance_name)
    rows = {
        row.score: wrapped(
            f"{own.importance_name(row.score)} (r\u00a0=\u00a0{phrasing.correlation(row.pearson)})",
            22,
        )
        for row in table.itertuples()
    }
    drawn, looks = table.assign(hover=said, all=""), looks_of(choice, [""])
    title = "slope: nats per standard deviation of the score"
    return dots(choice, drawn, "slope", rows, looks, title, row="score", by="all")


def _truth_scatter(run: Run, choice: Choice, score: str) -> go.Figure:
    """What silencing each head costs against its score, with the cost's interval."""
    truth = lookup.frame(run, "head_truth")
    truth = where(truth, metric=METRIC, seed=POOLED)
    truth = truth.rename(columns={"low": "cost_low", "high": "cost_high"})
    both = importance(run, score, TUNED)[["unit", "value"]].merge(
        truth[["unit", "cost", "cost_low", "cost_high"]]
    )
    both = both.dropna()
    said = hovers(both, "unit value cost", unit=lambda unit: head_said(run, unit), value="score")
    name = own.importance_name(score)
    titles = (name, "cost in nats")
    return points(
        choice, both.assign(hover=said), "value", "cost", titles, title=name, bars="- cost"
    )


def _truth_answer(table: pd.DataFrame, score: str) -> tuple[str, str]:
    """The score of the chosen arm; then the one that agrees best."""
    rows = table.set_index("score")
    best, mine = table.iloc[0], rows.loc[score]
    parts = [f"{own.importance_name(score)} {_truth_said(mine.to_dict())}"]
    if best["score"] != score:
        parts.append(
            f"{own.importance_name(best['score'])} agrees best: it {_truth_said(best.to_dict())}"
        )
    unknown = [
        own.importance_name(row.score) for row in table.itertuples() if not row.slope_low > 0
    ]
    if unknown and len(table) > 1:
        parts.append(
            f"no clear difference from a score without information: {phrasing.listing(unknown)}"
        )
    told = [f"{phrasing.sentence(part)}." for part in parts]
    return told[0], " ".join(told[1:])


def _truth_said(row: Values) -> str:
    r = phrasing.correlation(row["pearson"])
    if not math.isfinite(row["slope_low"]):
        return f"correlates at {r} (Pearson) with the cost of silencing a head"
    slope = (
        f"{phrasing.signed(row['slope'])}"
        f" ({phrasing.span(row['slope_low'], row['slope_high'], few='heads')})"
    )
    return (
        f"correlates at {r} (Pearson) with the cost of silencing a head; one standard deviation"
        f" more goes with {slope} nats"
    )
