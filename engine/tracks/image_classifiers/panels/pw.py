"""Does the PW loss help: the paired difference between the same method with it and without it, per
subgroup."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.types import Values, at_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.cost import as_change, verdict_on
from engine.report.charts.kinds import dots, lines, looks_of, remark
from engine.report.charts.lookup import DENSE, groups_in_order, paid_most, trials_said
from engine.report.charts.panel import Choice, Panel, nothing, plain, wrapped
from engine.report.palette import Style, series_styles
from engine.report.schema import hovers, readable
from engine.report.tracks import Measure, track_of
from engine.store.runs import Run, where
from engine.tracks.image_classifiers import words as own
from engine.tracks.image_classifiers.panels.speedup import (
    PLAIN,
    PW,
    arm_groups,
    arm_name,
    bases,
    drawn_groups,
    loss_said,
    pooled,
)
from engine.tracks.image_classifiers.words import arm_of, units_of

QUESTION = "Does the PW loss help the subgroup that pays most?"
COLUMNS = "base loss speedup metric group value low high p q n n_trials"


def _shown(table: pd.DataFrame, columns: str) -> pd.DataFrame:
    heads = {"value": "difference", "n": "images"}
    return readable(table, columns, loss=own.loss_name, part=own.loss_name, **heads)


def pw_difference(run: Run, choice: Choice) -> Panel:
    """PW minus plain per subgroup and speedup, for the chosen method."""
    base, loss = _arm(run, choice)
    table = differences(run, choice, base, loss)
    if table.empty:
        why = f"This audit has no {words.method_name(base)} both with the PW loss and without it."
        return nothing("pw_difference", QUESTION, why)
    measure = lookup.reading(run, choice).group
    groups = table[table["metric"] == measure.metric]
    styles = {
        group: style
        for group, style in drawn_groups(run, choice).items()
        if group in set(groups["group"])
    }
    figure = _figure(run, choice, measure, groups, styles, loss)
    answer, rest = _answer(run, choice, measure, table, base, loss)
    hidden = groups["group"].nunique() - len(styles)
    more = f" More subgroups in the table: {hidden}." if hidden else ""
    note = (
        f"Difference of {measure.name}: {loss_said(loss)} minus the plain loss, same images,"
        f" {trials_said(run)} each. {own.INTERVALS_IMAGES} Several intervals are read at once: one"
        f" in twenty misses by chance.{more}"
    )
    return Panel("pw_difference", QUESTION, answer, figure, _shown(table, COLUMNS), note, more=rest)


def differences(run: Run, choice: Choice, base: str, loss: str) -> pd.DataFrame:
    """Rows of arm_differences for a method and a loss on the measured axis: per subgroup, and of
    the gap."""
    reading = lookup.reading(run, choice)
    table = lookup.table(run, "arm_differences", f"{COLUMNS} axis")
    mine = where(table, base=base, loss=loss, axis=choice.measured)
    mine = mine[
        mine["metric"].isin([reading.group.metric, reading.harm.metric]) & mine["value"].notna()
    ]
    known = {"", *groups_in_order(run, choice)}
    return mine[mine["group"].isin(known)].sort_values(
        ["speedup", "metric", "group"], ignore_index=True
    )


def _arm(run: Run, choice: Choice) -> tuple[str, str]:
    """The chosen method and its loss; the whole PW loss where the plain one is chosen, the first
    method where none."""
    base, loss = arm_of(choice.method)
    return bases(run)[0] if base == DENSE else base, PW if loss == PLAIN else loss


def _answer(
    run: Run, choice: Choice, measure: Measure, table: pd.DataFrame, base: str, loss: str
) -> tuple[str, str]:
    """For the subgroup that pays most without it: helps, harms or cannot be told; then by how much,
    the other speedups, the gap."""
    at = lookup.level_of(run, choice)
    without = arm_groups(run, choice, (PLAIN,))
    paid = paid_most(without[(without["base"] == base) & at_level(without["speedup"], at)])
    if paid is None:
        return f"The data do not tell who pays most without it at {at:g}×.", ""
    most, name = paid.most, words.quoted(paid.most["group"])
    mine = where(table, metric=measure.metric, group=most["group"])
    here = mine[at_level(mine["speedup"], at)]
    pays = (
        f"{name} pays most ({measure.change(most)})"
        if paid.clear
        else f"no subgroup clearly pays; lowest is {name}"
    )
    start = f"Cut to {at:g}× by {arm_name(base, PLAIN)}, {pays}"
    if here.empty:
        return f"{start}; with {loss_said(loss)} it was not measured there.", ""
    row, what = here.iloc[0].to_dict(), loss_said(loss)
    said = {
        "helps": f"{what} helps it here",
        "harms": f"{what} harms it here",
        "unclear": f"the data do not tell whether {what} helps it here",
    }[verdict_on(measure, row)]
    trials = phrasing.count(int(row["n_trials"]), "trial")
    text = (
        f"{phrasing.sentence(what)}: {measure.change(as_change(row))}, n = {row['n']:.0f} images,"
        f" {trials}."
    )
    text += _elsewhere(measure, mine, at)
    text += _worst_off_said(run, choice, measure, table, at, most["group"])
    return f"{start}; {said}.", f"{text}{_gap_said(run, choice, table, at)}"


def _elsewhere(measure: Measure, mine: pd.DataFrame, at: float) -> str:
    """How the subgroup fares at the other speedups."""
    kinds = [
        verdict_on(measure, row) for row in mine[~at_level(mine["speedup"], at)].to_dict("records")
    ]
    if not kinds:
        return ""
    of, helps, harms = len(kinds), kinds.count("helps"), kinds.count("harms")
    many = f"the {of} other speedups" if of > 1 else "the other speedup"
    text = f"It helps at {many} too" if helps == of else f"It helps at {helps} of {many}"
    if not helps:
        text = f"It does not clearly help at {'any of ' * (of > 1)}{many}"
    return f" {text}{f' and harms at {harms}' if harms else ''}."


def _worst_off_said(
    run: Run, choice: Choice, measure: Measure, table: pd.DataFrame, at: float, said: str
) -> str:
    """What PW does to the subgroup that was worst off before the cut, where that is another one."""
    first = groups_in_order(run, choice)[:1]
    mine = table[(table["metric"] == measure.metric) & at_level(table["speedup"], at)]
    mine = mine[mine["group"].isin(first)]
    if mine.empty or first[0] == said:
        return ""
    row = mine.iloc[0].to_dict()
    verdict = {"helps": "it helps", "harms": "it harms", "unclear": "the data do not tell"}[
        verdict_on(measure, row)
    ]
    return (
        f" For {words.quoted(first[0])}, worst off before the cut, {verdict}:"
        f" {measure.brief(as_change(row))}."
    )


def _gap_said(run: Run, choice: Choice, table: pd.DataFrame, at: float) -> str:
    """What PW does to the gap at the chosen speedup."""
    harm = lookup.reading(run, choice).harm
    gap = table[(table["metric"] == harm.metric) & at_level(table["speedup"], at)]
    if gap.empty:
        return ""
    row = gap.iloc[0].to_dict()
    verb = {"helps": "shrinks", "harms": "grows", "unclear": "does not clearly change"}[
        verdict_on(harm, row)
    ]
    return f" The {harm.name} {verb} with it: {harm.change(as_change(row))}."


def _figure(
    run: Run,
    choice: Choice,
    measure: Measure,
    table: pd.DataFrame,
    styles: dict[str, Style],
    loss: str,
) -> go.Figure:
    """A row per speedup, a point with its interval per subgroup."""
    about = f"difference of {measure.name}"
    figure = dots(
        choice,
        table.assign(hover=hovers(table, "group speedup value n", value=about)),
        "value",
        {speedup: f"{speedup:g}×" for speedup in sorted(table["speedup"].unique())},
        styles,
        about,
        row="speedup",
        by="group",
        named=lambda group: plain(words.group_name(group)),
        at=lookup.level_of(run, choice),
        showlegend=True,
    )
    figure.update_yaxes(title_text="target speedup")
    above = {"x": 0, "y": 1, "yref": "paper", "yanchor": "bottom"}
    remark(figure, choice, f"{own.loss_name(loss)} better →", **above, xanchor="left", xshift=6)
    remark(figure, choice, f"← {own.loss_name(loss)} worse", **above, xanchor="right", xshift=-6)
    figure.update_layout(legend={"y": 1.06}, margin={"t": 24})
    return figure


# Which part of the PW loss helps, and where: weights or labels, in pruning, in retraining or in
# both (Fig. 8).


ABLATION_QUESTION = "Which part of the PW loss helps, and where is it needed?"
PARTS = ("weights", "labels", PW)
PLACES = ("prune", "both", "retrain")
ABLATION_COLUMNS = "part place group speedup value low high p n n_trials"


def switches(run: Run) -> pd.DataFrame:
    """Arms of the run that use only a part of the PW loss, or it in one place: columns base,
    loss."""
    table = pooled(run)[["base", "loss"]].drop_duplicates()
    return table[~table["loss"].isin([PLAIN, PW])]


def ablation(run: Run, choice: Choice) -> Panel:
    """The difference from the plain loss of every part and place, for the subgroup that pays most
    and least."""
    # The chosen method where it was taken apart, else the first that was.
    found = switches(run)["base"].tolist()
    mine = arm_of(choice.method)[0]
    base = mine if mine in found else found[0] if found else None
    table = pd.DataFrame() if base is None else _table(run, choice, base)
    if base is None or table.empty:
        why = "The parts of the PW loss were not compared with the plain loss here."
        why = "This run has no variants with a part of the PW loss." if base is None else why
        return nothing("ablation", ABLATION_QUESTION, why)
    measure, at = lookup.reading(run, choice).group, float(table["speedup"].iat[0])
    groups = list(dict.fromkeys(table["group"]))
    note = (
        f"{words.method_name(base)} at {at:g}×. Difference of {measure.name} from the same method"
        f" with the plain loss, same images. {own.INTERVALS_IMAGES} With so many comparisons one in"
        " twenty misses by chance."
    )
    answer = _ablation_answer(measure, table, groups[0])
    return Panel(
        "ablation",
        ABLATION_QUESTION,
        answer,
        _ablation_figure(choice, measure, table, groups),
        _shown(table.assign(place=table["place"].map(own.PLACES)), ABLATION_COLUMNS),
        note,
    )


def _table(run: Run, choice: Choice, base: str) -> pd.DataFrame:
    """Rows of arm_differences at one speedup, of the subgroup that pays most under the plain loss
    and of the one that pays least; columns part and place are added."""
    metric = lookup.reading(run, choice).group.metric
    rows = [differences(run, choice, base, loss) for loss in (*switches(run)["loss"].unique(), PW)]
    table = pd.concat([part for part in rows if not part.empty] or [pd.DataFrame()])
    if table.empty:
        return table
    table = table[(table["metric"] == metric) & (table["group"] != "")]
    taken = sorted(table.loc[table["loss"] != PW, "speedup"].unique())
    wanted = lookup.level_of(run, choice)
    at = wanted if wanted in taken else taken[-1]
    table = table[at_level(table["speedup"], at)]
    plain_arm = arm_groups(run, choice, (PLAIN,))
    paid = plain_arm[(plain_arm["base"] == base) & at_level(plain_arm["speedup"], at)]
    found = paid_most(paid)
    order = (
        [] if found is None else [found.most["group"], paid.loc[paid["delta"].idxmax(), "group"]]
    )
    order = list(dict.fromkeys(order))
    table = table[table["group"].isin(order)]
    split = [loss.partition("@") for loss in table["loss"]]
    table = table.assign(
        part=[part for part, _, _ in split], place=[place or "both" for _, _, place in split]
    )
    by = {name: index for names in (order, PARTS, PLACES) for index, name in enumerate(names)}
    return table.sort_values(
        ["group", "place", "part"], key=lambda names: names.map(by), ignore_index=True
    )


def _ablation_figure(
    choice: Choice, measure: Measure, table: pd.DataFrame, groups: list[str]
) -> go.Figure:
    """A row per place, points by part; filled for the subgroup that pays most, open for the
    other."""
    about = f"difference of {measure.name} from the plain loss"
    looks = {
        plain(f"{own.loss_name(part)}: {words.group_name(group)}"): replace(
            style, symbol=style.symbol + "-open" * (group != groups[0])
        )
        for part, style in zip(PARTS, series_styles(choice.dark), strict=False)
        for group in groups
        if len(where(table, part=part, group=group))
    }
    series = table["part"].map(own.loss_name) + ": " + table["group"].map(words.group_name)
    drawn = table.assign(
        hover=hovers(table, "part group value n", part=own.loss_name, value=about),
        series=series.map(plain),
    )
    rows = {
        place: wrapped(own.PLACES[place], 14) for place in PLACES if place in set(table["place"])
    }
    return dots(choice, drawn, "value", rows, looks, about, row="place", by="series", named=str)


def _ablation_answer(measure: Measure, table: pd.DataFrame, group: str) -> str:
    """For the subgroup that pays most: which switches help, and for which the data do not tell."""
    kinds: dict[str, list[dict[str, Any]]] = {"helps": [], "harms": [], "unclear": []}
    for row in table[table["group"] == group].to_dict("records"):
        kinds[verdict_on(measure, row)].append(row)
    parts = []
    for kind, verb in (("helps", "is helped by"), ("harms", "is harmed by")):
        if kinds[kind]:
            named = [f"{_switch(row)}, {measure.brief(as_change(row))}" for row in kinds[kind]]
            parts.append(f"{verb} {'; '.join(named)}")
    start = (
        f"{words.quoted(group)}, which pays most,"
        f" {' and '.join(parts) or 'is clearly helped by none'}"
    )
    if kinds["unclear"]:
        start += f"; for {phrasing.listing(map(_switch, kinds['unclear']), 8)} the data do not tell"
    return f"{start}."


def _switch(row: Values) -> str:
    if (row["part"], row["place"]) == (PW, "both"):
        return "the whole PW loss"
    return f"{own.loss_name(row['part'])} {own.PLACES[row['place']]}"


# Which images the loss is about: its share per subgroup and class in every batch, with and
# without PW (Fig. 4).


LOSS_SHARE_QUESTION = "Which subgroups does the PW loss give more weight in pruning?"
SMOOTH = 10
"""Steps of the running mean of the lines; the numbers in the answer are plain means."""
LONGEST = 6
KEYS = ["group", "label"]
LOSS_SHARE_COLUMNS = f"base group label {PLAIN} {PW} change least most"
HEADS = {
    "label": "class",
    PLAIN: "share, plain loss",
    PW: "share, PW loss",
    "least": "change least",
    "most": "change most",
}


def has_loss_share(run: Run, choice: Choice) -> bool:
    """Whether shares of the loss were noted on the axis the reader chose."""
    return not shares(run, choice).empty


def loss_share(run: Run, choice: Choice) -> Panel:
    """Change of the share since the plain loss, step by step, one column per method."""
    table = shares(run, choice)
    if table.empty:
        return nothing(
            "loss_share",
            LOSS_SHARE_QUESTION,
            "This run has no shares of the loss with and without PW on this axis.",
        )
    summary = _summary(table)
    cells = (
        summary.groupby(KEYS)["change"]
        .apply(lambda values: values.abs().max())
        .nlargest(LONGEST)
        .index.tolist()
    )
    columns = track_of(run).methods.order(set(table["base"]))
    reach = _reach(table, cells)
    parts = tuple(
        _column(run, choice, table[table["base"] == base], base, cells, reach) for base in columns
    )
    steps = int(table["step"].max()) + 1
    note = (
        f"The first {steps} batches while {units_of(run)} are chosen: mean of {trials_said(run)}, "
        f"running mean of {SMOOTH} batches. Both losses saw the same batches. Ranges in the table "
        "are over trials."
    )
    return Panel(
        "loss_share",
        LOSS_SHARE_QUESTION,
        _loss_share_answer(run, summary),
        None,
        readable(
            summary.assign(
                label=summary["label"].map(lambda label: run.data["classes"][int(label)])
            ),
            LOSS_SHARE_COLUMNS,
            **HEADS,
        ),
        note,
        parts,
    )


def shares(run: Run, choice: Choice) -> pd.DataFrame:
    """Columns base, trial, step, group, label, plain, pw, change: of methods that were run both
    ways, every cell in every batch."""
    if not run.has("loss_share"):
        return pd.DataFrame()
    table = where(lookup.frame(run, "loss_share"), axis=choice.measured)
    table = table[table["loss"].isin([PLAIN, PW])]
    wide = table.pivot_table("share", ["base", "trial", "step", *KEYS], "loss")
    if not {PLAIN, PW} <= set(wide.columns):
        return pd.DataFrame()
    # What a batch has no image of has no share of its loss.
    wide = wide.dropna().unstack(KEYS, fill_value=0.0).stack(KEYS).reset_index()
    return wide.assign(change=wide[PW] - wide[PLAIN])


def _summary(table: pd.DataFrame) -> pd.DataFrame:
    """Mean share per method, subgroup and class, and the change's range over trials."""
    by_trial = table.groupby(["base", "trial", *KEYS])[[PLAIN, PW, "change"]].mean().reset_index()
    grouped = by_trial.groupby(["base", *KEYS])
    found = grouped[[PLAIN, PW, "change"]].mean()
    found["least"], found["most"] = grouped["change"].min(), grouped["change"].max()
    return found.reset_index()


def _cell_name(run: Run, group: str, label: int) -> str:
    return f"{words.group_name(group)}, {run.data['classes'][int(label)]}"


def _smooth(table: pd.DataFrame, cell: tuple[str, int]) -> pd.DataFrame:
    """Columns step and change: mean over trials, running mean over steps."""
    mine = where(table, group=cell[0], label=cell[1])
    mean = mine.groupby("step")["change"].mean()
    return mean.rolling(SMOOTH, min_periods=1, center=True).mean().reset_index()


def _reach(table: pd.DataFrame, cells: Sequence[tuple[str, int]]) -> float:
    """How far the lines of any method go from zero."""
    far = [
        _smooth(mine, cell)["change"].abs().max()
        for _, mine in table.groupby("base")
        for cell in cells
    ]
    return 1.1 * float(np.nanmax([0.01, *far]))


def _column(
    run: Run,
    choice: Choice,
    table: pd.DataFrame,
    base: str,
    cells: Sequence[tuple[str, int]],
    reach: float,
) -> go.Figure:
    """One method: a line per subgroup and class."""
    found = {plain(_cell_name(run, *cell)): _smooth(table, cell) for cell in cells}
    drawn = pd.concat([rows.assign(cell=name) for name, rows in found.items()], ignore_index=True)
    figure = lines(
        choice,
        drawn.assign(hover=hovers(drawn, "cell step change", cell=str, step="batch")),
        "step",
        "change",
        looks_of(choice, list(found)),
        ("batch", "change of its share of the loss"),
        by="cell",
        named=str,
        title=plain(words.method_name(base)),
        level=(0, ""),
        ticks="",
        mode="lines",
    )
    figure.update_yaxes(tickformat="+.0%", nticks=6, range=[-reach, reach])
    return figure


def _loss_share_answer(run: Run, summary: pd.DataFrame) -> str:
    """Per method: whose share grows most, whose shrinks most."""
    parts = []
    for base in track_of(run).methods.order(set(summary["base"])):
        mine = summary[summary["base"] == base]
        up, down = mine.loc[mine["change"].idxmax()], mine.loc[mine["change"].idxmin()]
        text = f"With PW, {words.method_name(base)}'s loss is more about {_said(run, up)}"
        parts.append(
            f"{text} and less about {_said(run, down)}." if down["change"] < 0 else f"{text}."
        )
    return " ".join(parts)


def _said(run: Run, row: pd.Series) -> str:
    name = words.quoted(_cell_name(run, row["group"], row["label"]))
    spread = (
        f", {_points(row['least'])} to {_points(row['most'])} over trials"
        if row["least"] < row["most"]
        else ""
    )
    return (
        f"{name} ({phrasing.percent(row[PLAIN])} of it before, {_points(row['change'])}"
        f" points{spread})"
    )


def _points(change: float) -> str:
    return ("+" if change > 0 else "") + f"{100 * change:.1f}".replace("-", phrasing.MINUS)


# Fig. 7: the mean AUC of the classes that the images were changed about, every arm, against the
# dense model.


AFFECTED_QUESTION = "Do the classes whose images were changed pay for the cut?"
AFFECTED_COLUMNS = "method speedup classes value low high delta delta_low delta_high n_trials"


def has_affected(run: Run) -> bool:
    return run.has("affected")


def affected(run: Run, choice: Choice) -> Panel:
    """A row per arm and speedup: the change of the affected classes' mean AUC, each class against
    the rest."""
    if not has_affected(run):
        return nothing("affected", AFFECTED_QUESTION, "This run changed no classes.")
    table = lookup.frame(run, "affected").merge(
        lookup.frame(run, "variants")[["variant", "method", "speedup"]]
    )
    dense, rows = table[table["variant"] == "dense"].iloc[0], table[table["variant"] != "dense"]
    classes = str(dense["classes"])
    clear = rows[rows["delta_high"] < 0]
    start = phrasing.with_interval(dense["value"], dense["low"], dense["high"], few="images")
    told = (
        f"{len(clear)} of {len(rows)} variants clearly lose"
        if len(clear)
        else "no variant clearly loses"
    )
    answer = (
        f"The mean AUC of {classes}, each against the rest, is {start} uncut; {told} some of it."
    )
    note = (
        "Mean over the classes named, one against the rest, as in the paper's Fig. 7; change"
        f" against the dense model on the same {track_of(run).nouns.items}; intervals are 95 %,"
        " over images and trials."
    )
    figure, shown = (
        _affected_figure(run, choice, rows),
        readable(table, AFFECTED_COLUMNS, value="mean AUC"),
    )
    return Panel("affected", AFFECTED_QUESTION, answer, figure, shown, note)


def _affected_figure(run: Run, choice: Choice, rows: pd.DataFrame) -> go.Figure:
    """A point with its interval per variant."""
    names = {name: wrapped(name, 24) for name in rows["variant"]}
    looks = {
        name: track_of(run).methods.style(name, choice.dark) for name in rows["method"].unique()
    }
    drawn, title = rows.assign(hover=hovers(rows, "variant delta")), "change of the mean AUC"
    return dots(choice, drawn, "delta", names, looks, title, row="variant", apart=0)
