"""Heads on a map: what each one does to bias and perplexity, which are protected, which are cut."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.types import POOLED, Values, is_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.headline import null_warning
from engine.report.charts.heat_map import Scale, head_grid, prove_head, shape_of
from engine.report.charts.kinds import entry, silent
from engine.report.charts.panel import Choice, Panel, nothing
from engine.report.schema import hovers, readable
from engine.stats.pareto import HEAVY
from engine.store.runs import Run, where
from engine.tracks.language_models import words as own
from engine.tracks.language_models.arms import is_arm
from engine.tracks.language_models.selection import critical_heads

NAMES = {"q": "q (false discovery rate)", "ess": "ESS (share of n)", "k_hat": "Pareto k̂"}
NUMBERS = "estimator value low high p q n ess k_hat note"
COLUMNS = "layer head value low high p q n estimator ess k_hat note"
NOT_SUPPORTED = "This ranking is not supported."
ENDS = {"z_bias": ("holds bias down", "adds bias"), "z_ppl": ("needed", "in the way")}
"""Effects, whose colours are around zero, and what their two ends mean."""


def head_map(run: Run, choice: Choice, score: str = "z_bias", unit: int | None = None) -> Panel:
    """Layer x head, one number each, a frame around `unit`. Colours diverge around 0 for effects;
    grey when the ranking is not supported."""
    axis, key = choice.measured if score == "z_bias" else "", f"head_map_{score}"
    known = {
        "z_bias": f"Which heads add to the bias of {words.axis_name(axis)}?",
        "z_ppl": "Which heads does the model need to predict text?",
    }
    question = known.get(score, f"Which heads rank high by {own.score_name(score)}?")
    table = pooled_scores(run, score, axis)
    if table.empty:
        return nothing(key, question, own.not_scored(score))
    if table["value"].isna().all():
        return nothing(key, question, _not_ranked(table))
    warning = null_warning(run, choice) if score == "z_bias" else ""
    figure = _grid(run, choice, table, score, bool(warning), _hovers(table, score))
    hollow = unmeasured(table) if score == "z_bias" else table.iloc[:0]
    _add_marks(figure, run, choice, hollow=hollow, again=drawn_again(table))
    _add_discovered(figure, run, choice, table)
    _add_frame(figure, run, choice, unit)
    answer, mind = (warning, "") if warning else _map_answer(run, table, score)
    return Panel(
        key,
        question,
        answer,
        figure,
        readable(table, COLUMNS, **NAMES),
        _note(run, table, score),
        mind=mind,
    )


def bias_map(run: Run, choice: Choice, unit: int | None = None) -> Panel:
    """The map of effects on bias."""
    return head_map(run, choice, "z_bias", unit)


def perplexity_map(run: Run, choice: Choice, unit: int | None = None) -> Panel:
    """The map of effects on perplexity."""
    return head_map(run, choice, "z_ppl", unit)


def fasp_picture(run: Run, choice: Choice, unit: int | None = None) -> Panel:
    """The selection: effect on bias in colour, a border around critical heads, cut heads crossed, a
    frame around `unit`."""
    axis = words.axis_name(choice.measured)
    question = f"Which heads add to the bias of {axis}, which are protected, and which were cut?"
    table = pooled_scores(run, "z_bias", choice.measured)
    if table.empty:
        return nothing("fasp_picture", question, own.not_scored())
    variant = lookup.variant_of(run, choice)
    critical, cut = critical_units(run, choice), set(lookup.cut_units(variant))
    table = table.assign(critical=table["unit"].isin(critical), cut=table["unit"].isin(cut))
    warning, figure = null_warning(run, choice), picture(run, choice, table, unit)
    ranked = table["value"].notna().any()
    answer = _picture_answer(run, choice, variant, table) if ranked else _not_ranked(table)
    more = (
        f"{_ties_said(variant)}{_gamma_said(run, choice)}".strip()
        if ranked and table["cut"].any()
        else ""
    )
    if ranked and warning:
        answer, more = warning, f"{answer} {more}".strip()
    shown = readable(table, f"{COLUMNS} critical cut", **NAMES)
    note = _note(run, table, "z_bias")
    return Panel("fasp_picture", question, answer, figure, shown, note, more=more)


def picture(run: Run, choice: Choice, table: pd.DataFrame, unit: int | None = None) -> go.Figure:
    """The map of effects on bias with heads that are protected and heads that are cut, a frame
    around `unit`. table: `pooled_scores` with columns critical and cut, and `held` of those that a
    reader protects. Every head can be picked."""
    unsupported = bool(null_warning(run, choice))
    said = zip(_hovers(table, "z_bias"), table.to_dict("records"), strict=True)
    texts = [text + _status(row) for text, row in said]
    figure = _grid(run, choice, table, "z_bias", unsupported, texts)
    _add_critical(figure, run, choice, table[table["critical"]])
    rest = table[~table["critical"] & ~table["cut"]]
    held = table[table["held"]] if "held" in table else table.iloc[:0]
    marks = {"hollow": unmeasured(rest), "again": drawn_again(rest), "held": held}
    _add_marks(figure, run, choice, cut=table[table["cut"]], **marks)
    _add_frame(figure, run, choice, unit)
    return figure


def _not_ranked(table: pd.DataFrame) -> str:
    """Why there is no effect on bias for any head."""
    note = str(table["note"].iloc[0]) or "not ranked"
    return (
        f"Heads are {note}. More prompts, or more draws of each, may show a bias. Without a bias, "
        "a ranking is noise."
    )


def head_numbers(run: Run, unit: int) -> pd.DataFrame:
    """Everything measured on one head: quantity, axis, value, interval, p, q, n, and the variants
    that cut it."""
    prove_head(run, unit)
    scores = lookup.frame(run, "scores")
    mine = scores[(scores["unit"] == unit) & (scores["seed"].isin([POOLED, 0]))]
    mine = mine.sort_values("seed").drop_duplicates(["score", "estimator", "axis"])
    named = mine.assign(quantity=mine["score"].map(own.score_name)).reset_index(drop=True)
    return readable(named, f"quantity axis {NUMBERS}", **NAMES)


def pooled_scores(run: Run, score: str, axis: str = "") -> pd.DataFrame:
    """One row per head: unit, layer, head, value, low, high, p, q, n, seeds; the mean where no
    pooled row exists."""
    scores = lookup.frame(run, "scores")
    rows = where(scores, score=score, axis=axis)
    if rows.empty:
        return rows.assign(seeds=0)
    seeds = max(1, rows.loc[rows["seed"] != POOLED, "seed"].nunique())
    pooled = rows[rows["seed"] == POOLED]
    if pooled.empty:
        mean = rows.groupby(["unit", "layer", "head"], as_index=False)["value"].mean()
        pooled = mean.assign(
            low=math.nan, high=math.nan, p=math.nan, q=math.nan, n=rows["n"].max(), estimator=""
        )
    return pooled.sort_values("unit", ignore_index=True).assign(seeds=seeds)


def gamma_of(run: Run, choice: Choice) -> float:
    """The share of protected heads behind this choice: of the variant, else of the axis; NaN where
    there is none."""
    if is_level(
        choice.level, lookup.levels(run, choice.method, choice.axis)
    ):  # else nobody measured it
        variant = lookup.variant_of(run, choice)
        if math.isfinite(variant["gamma"]):
            return float(variant["gamma"])
    return float((run.meta.get("gamma") or {}).get(choice.axis, math.nan))


def critical_units(run: Run, choice: Choice) -> set[int]:
    """The heads protected behind this choice, by the effects on perplexity in the run's table of
    scores."""
    gamma, table = gamma_of(run, choice), pooled_scores(run, "z_ppl")
    if not math.isfinite(gamma) or table.empty:
        return set()
    return set(table["unit"].iloc[list(critical_heads(table["value"].to_numpy(), gamma))].tolist())


def _power(run: Run, table: pd.DataFrame, score: str) -> str:
    """What an audit could have found that tells no head's effect on bias from zero; "" where it
    does."""
    if score != "z_bias" or table["q"].isna().all() or (table["q"] <= 0.05).any():
        return ""
    known = run.meta.get("scoring", {}).get("power", {})
    return f" {own.power_words(known.get(str(table['axis'].iloc[0])))}"


def _map_answer(run: Run, table: pd.DataFrame, score: str) -> tuple[str, str]:
    """The strongest head; how many can be told from zero and, where none, what effect could have
    been."""
    if score not in ("z_bias", "z_ppl"):
        top = table.loc[table["value"].idxmax()]
        return (
            (
                f"Highest: {words.head_name(top['layer'], top['head'])}"
                f" ({phrasing.number(top['value'])})."
            ),
            "",
        )
    sign = 1 if score == "z_bias" else -1
    top = table.loc[(sign * table["value"]).idxmax()]
    verb = "adds most bias" if score == "z_bias" else "lowers perplexity most"
    value = phrasing.signed(top["value"])  # first order has no intervals
    if table["low"].notna().any():
        value = phrasing.with_interval(top["value"], top["low"], top["high"])
    text = f"{phrasing.sentence(words.head_name(top['layer'], top['head']))} {verb}: {value}."
    if table["q"].notna().any():
        return text, f"{_discoveries(table, score)}{_power(run, table, score)}"
    sure = table[(table["low"] > 0) | (table["high"] < 0)]
    known = (
        f"For {len(sure)} of {len(table)} heads the interval excludes zero."
        if table["low"].notna().any()
        else ""
    )
    return text, known


def _discoveries(table: pd.DataFrame, score: str) -> str:
    found = table[table["q"] <= 0.05]
    if found.empty:
        return (
            f"At a false discovery rate of 5 %, no effect of the {len(table)} heads clearly"
            " differs from zero."
        )
    more, less = (
        ("heads add bias", "hold it down") if score == "z_bias" else ("heads hurt", "are needed")
    )
    up, down = (found["low"] > 0).sum(), (found["high"] < 0).sum()
    open_ = len(found) - up - down
    moved = f". {open_} move groups, but which way the bias goes is open" if open_ else ""
    return (
        f"At a false discovery rate of 5 %, {len(found)} of {len(table)} effects differ from zero: "
        f"{up} {more}, {down} {less}{moved}."
    )


def _picture_answer(run: Run, choice: Choice, variant: Values, table: pd.DataFrame) -> str:
    gamma, n_critical = gamma_of(run, choice), int(table["critical"].sum())
    parts = []
    if math.isfinite(gamma):
        parts.append(
            f"{n_critical} of {len(table)} heads are critical for perplexity (γ = {gamma:g})"
        )
    cut, name = table[table["cut"]], words.method_name(variant["method"])
    if variant["variant"] == "dense":
        parts.append("nothing is cut")
    elif is_arm(variant):
        parts.append(f"{name} cuts no head")
    else:
        parts.append(f"{name} cuts {len(cut)}{_cut_said(cut, table)}")
    if both := int((table["cut"] & table["critical"]).sum()):
        parts.append(f"{both} of the cut heads {'is' if both == 1 else 'are'} critical")
    return phrasing.sentences(["; ".join(parts)])


def _cut_said(cut: pd.DataFrame, table: pd.DataFrame) -> str:
    """Of how many cut heads it is known that they add bias: told from zero at a false discovery
    rate of 5 % over all heads. By their intervals where there is no q. Values alone are positive by
    chance, too."""
    by_q = table["q"].notna().any()
    known = cut["low"] > 0
    known &= (cut["q"] <= 0.05) if by_q else True
    if not (by_q or table["low"].notna().any()):
        return ""
    few = int(known.sum())
    rest = len(cut) - few
    if not rest:
        return ": all add bias"
    return (
        f": {few} with clearly added bias, {rest} without" if few else ", none with a clear effect"
    )


def _ties_said(variant: Values) -> str:
    """How many heads a tie decided; "" where none, or where the run does not say."""
    tied = [int(variant.get(name) or 0) for name in ("tied_protected", "tied_cut")]
    return (
        f" Ties, settled by index, decided {tied[0]} protected and {tied[1]} cut heads."
        if any(tied)
        else ""
    )


def _gamma_said(run: Run, choice: Choice) -> str:
    """How sure the searched γ is; "" where none was searched, or where the run does not say."""
    found = ((run.meta.get("scoring") or {}).get("gamma") or {}).get(choice.axis) or {}
    if not found.get("shares"):
        return ""
    ordered = sorted(found["shares"].items(), key=lambda item: -item[1])
    said = phrasing.listing(
        [f"γ = {gamma} in {phrasing.percent(share)}" for gamma, share in ordered if share >= 0.05]
    )
    return f" Resampling validation prompts and text chooses {said} of draws."


def _note(run: Run, table: pd.DataFrame, score: str) -> str:
    meta, seeds = run.request, int(table["seeds"].max())
    parts = [words.COUNTING]
    if score == "z_bias":
        n = table["n"].max()
        n_text = f"{phrasing.count(int(n), 'scoring prompt')}, " if math.isfinite(n) else ""
        parts.append(f"Effects on {n_text}{phrasing.count(seeds, 'draw')} of each, 95 % intervals.")
        parts.append(estimators_said(table, meta["estimator"]))
        parts.append("The effect of one head alone does not tell what cutting several does.")
    elif score == "z_ppl":
        is_exact = meta["perplexity_estimator"] == "exact"
        how = "Exact" if is_exact else "First-order"
        parts.append(f"{how} effect on the perplexity text, one head at a time.")
        parts += [] if is_exact else [own.FIRST_ORDER_MISSES]
    if score in ("z_bias", "z_ppl") and meta.get("ablation", "zero") != "zero":
        parts.append(f"A head that is off is set {own.ABLATIONS[meta['ablation']].name}.")
    return " ".join([*parts, own.SCORES[score].definition if score in own.SCORES else ""]).strip()


def _add_frame(figure: go.Figure, run: Run, choice: Choice, unit: int | None) -> None:
    """A frame around the cell of the chosen head; a shape, so that it grows with the cell and
    nothing fades it."""
    if unit is None:
        return
    layer, head = divmod(unit, shape_of(run)[1])
    ends = {
        "x0": head - 0.46,
        "x1": head + 0.46,
        "y0": layer - 0.44,
        "y1": layer + 0.44,
    }  # whole at the rim too
    _outline(figure, choice, (7, 3), choice.theme.alarm, type="rect", **ends)


def _outline(
    figure: go.Figure, choice: Choice, widths: tuple[int, int], colour: str, **shape: Any
) -> None:
    """A shape on its halo; widths of the two."""
    for ink, width in zip((choice.theme.paper, colour), widths, strict=True):
        figure.add_shape(**shape, line={"color": ink, "width": width}, layer="above")


def _grid(
    run: Run, choice: Choice, table: pd.DataFrame, score: str, unsupported: bool, hovers: list[str]
) -> go.Figure:
    """The coloured cells, each of which can be picked. Layer 0 on top."""
    values = np.full(run.n_units, np.nan)
    values[table["unit"]] = table["value"]
    if score in ENDS:
        limit = _limit(run, table, score)
        more = " and beyond" if np.nanmax(np.abs(values), initial=0) > limit else ""
        left, right = (
            f"{end}<br>{phrasing.signed(sign * limit)}{more}"
            for end, sign in zip(ENDS[score], (-1, 1), strict=True)
        )
        texts = [left, "0<br> ", right] if limit > 0 else []
        ticks, end = [0.8 * limit * sign for sign in (-1, 0, 1)][: len(texts)], limit or 1.0
        scale = Scale(-end, end, ticks, texts, diverges=True, unsupported=unsupported)
    else:
        scale = Scale(float(np.nanmin(values)), float(np.nanmax(values)), (), ())
    known = dict(zip(table["unit"], hovers, strict=True))
    said = [known.get(unit, "") for unit in range(len(values))]
    return head_grid(run, choice, values, scale, said)


def _limit(run: Run, table: pd.DataFrame, score: str) -> float:
    """The end of the colours, one for all axes of the run, so that their maps can be compared. All
    but the largest 2 % stay below it, so that one strong head leaves the others their colours."""
    scores = lookup.frame(run, "scores")
    known = (
        scores.loc[(scores["score"] == score) & (scores["seed"] == POOLED), "value"].abs().dropna()
    )
    known = known if len(known) else table["value"].abs().dropna()
    return float(known.quantile(0.98)) if len(known) else 1.0


def _mark(run: Run) -> int:
    """Size of a mark that stays inside its cell on a narrow screen."""
    heads = int(run.model["n_heads"])
    return int(max(4, min(13, 200 / heads)))


def _add_critical(figure: go.Figure, run: Run, choice: Choice, table: pd.DataFrame) -> None:
    """Critical heads keep their colour and get a border: among them may be the one that adds most
    bias. One shape for all, which grows with the cells."""
    if table.empty:
        return
    corners = [
        (head - 0.42, layer - 0.4, head + 0.42, layer + 0.4)
        for layer, head in table[["layer", "head"]].to_numpy().tolist()
    ]
    path = " ".join(f"M {a},{b} L {c},{b} L {c},{d} L {a},{d} Z" for a, b, c, d in corners)
    _outline(figure, choice, (4, 2), choice.theme.critical, type="path", path=path)
    _legend(figure, choice, "critical: protected", "square-open", choice.theme.critical)


def _add_discovered(figure: go.Figure, run: Run, choice: Choice, table: pd.DataFrame) -> None:
    """A dot on heads that the sentence counts: they differ from zero at a false discovery rate of
    5 %."""
    table = table[table["q"] <= 0.05]
    if table.empty:
        return
    line = {"width": 1.5, "color": choice.theme.paper}
    marker = {"symbol": "circle", "size": _mark(run), "color": choice.theme.ink, "line": line}
    silent(figure, table["head"], table["layer"], mode="markers", marker=marker)
    _legend(figure, choice, "differs from zero", "circle", choice.theme.ink)


def _add_marks(figure: go.Figure, run: Run, choice: Choice, **heads: pd.DataFrame) -> None:
    """Marks on heads, by what they are, with a name in the legend. A mark on its halo is seen on
    dark cells and on light ones. Cells of heads that are known to first order only are hollow."""
    look, size = choice.theme, _mark(run)
    ring, around = max(6, size - 3), round(1.6 * size)  # around a cross, where both are
    marks: dict[
        str, tuple[str, str, list[tuple[str, float, int]]]
    ] = {  # name in the legend, symbol, strokes: colour, width, size
        "cut": ("cut", "x-thin", [(look.paper, 5, size + 2), (look.ink, 2.5, size)]),
        "hollow": ("first order, not measured", "square", [(look.paper, 0, size)]),
        "again": ("texts drawn again", "circle-open", [(look.ink, 1.5, ring)]),
        "held": (
            "protected by you",
            "diamond-open",
            [(look.ink, 5, around), (look.paper, 2, around)],
        ),
    }
    for kind, table in heads.items():
        name, symbol, strokes = marks[kind]
        for colour, width, wide in strokes if len(table) else ():
            line = {"width": width, "color": colour}
            marker = {"symbol": symbol, "size": wide, "color": colour, "line": line}
            marker["opacity"] = 0.85 if kind == "hollow" else 1
            silent(figure, table["head"], table["layer"], mode="markers", marker=marker)
        if len(table):
            _legend(figure, choice, name, symbol, look.paper if kind == "hollow" else look.ink)


def _legend(figure: go.Figure, choice: Choice, name: str, symbol: str, colour: str) -> None:
    look, wide = choice.theme, {"x-thin": 2.5, "square": 4}.get(symbol, 1)
    line = {"width": wide, "color": look.quiet if symbol == "square" else look.ink}
    marker = {"symbol": symbol, "size": 11, "color": colour, "line": line}
    entry(figure, name, mode="markers", marker=marker, hoverinfo=None)


def _hovers(table: pd.DataFrame, score: str) -> list[str]:
    return hovers(
        table.assign(name=[words.head_name(*at) for at in table[["layer", "head"]].to_numpy()]),
        "name value q estimator ess k_hat note",
        name=str,
        value=own.score_name(score),
        estimator=lambda name: f"by {name}" if name else "",
        note=str,
        **NAMES,
    )


def _status(row: Values) -> str:
    text = "<br>critical for perplexity: protected by FASP" if row["critical"] else ""
    text += "<br>protected by you" if row.get("held") else ""
    return text + ("<br><b>cut in this variant</b>" if row["cut"] else "")


# How heads were scored: by which estimator, whose texts were drawn again, whose weights have a
# heavy tail.


FIRST_ORDER = "gradient"
"""The estimator of z_bias that measures no effect."""
DRAWN = ("generate", "combined")
"""Those that draw texts with the head off."""


def estimators_said(table: pd.DataFrame, asked: str) -> str:
    """How heads were scored, e.g. "Estimator auto: 31 heads by gradient, 12 by reweighting (ESS at
    least .4)."."""
    if "ess" not in table or table["value"].isna().all():
        return f"Estimator {asked}."
    said, slopes = [], unmeasured(table)
    if len(slopes):
        heads = phrasing.count(len(slopes), "head")
        said.append(f"{heads} by {FIRST_ORDER} (hollow: first order, not measured)")
    for name, rows in table.drop(slopes.index).groupby("estimator", sort=False):
        text = f"{phrasing.count(len(rows), 'head')} by {own.estimator_name(name)}"
        least = rows["ess"].min()
        if name == "reweight" and math.isfinite(least):
            text += f" (ESS at least {phrasing.number(least)} of n)"
        said.append(text)
    again = len(drawn_again(table))
    back = (
        (
            f" Reweighting said too little about {phrasing.count(again, 'head')}, so new texts "
            "were drawn."
        )
        if again
        else ""
    )
    # Few texts stand for all others where weights have so heavy a tail.
    if heavy := int((table["k_hat"] > HEAVY).sum()) if "k_hat" in table else 0:
        back += (
            f" {phrasing.count(heavy, 'head')} with heavy-tailed weights (Pareto k̂ above"
            f" {HEAVY:g}): trust the interval, not the value."
        )
    return f"Estimator {asked}: {phrasing.listing(said)}.{back}"


def unmeasured(table: pd.DataFrame) -> pd.DataFrame:
    """Heads whose effect on bias is first order: a slope, which can be far from the effect."""
    return table[table["estimator"] == FIRST_ORDER]


def drawn_again(table: pd.DataFrame) -> pd.DataFrame:
    """Heads whose texts were drawn again because weights left too few effective samples, or had a
    heavy tail."""
    if "ess" not in table:
        return table.iloc[:0]
    return table[table["estimator"].isin(DRAWN) & table["ess"].notna()]
