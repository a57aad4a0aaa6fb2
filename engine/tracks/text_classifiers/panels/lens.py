"""One text under the lens: where a head attends, and whether that is what decides (Figs. 6.2 to 6.5
of the thesis)."""

from __future__ import annotations

import json
import math
from html import unescape

import numpy as np
import pandas as pd

from engine.core import words
from engine.core.text import visible
from engine.core.types import Values
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.heat_map import Scale, head_grid, map_scale, mark, token_labels, token_map
from engine.report.charts.kinds import points
from engine.report.charts.panel import Choice, Panel, nothing
from engine.report.charts.where_it_looks import SIDES
from engine.store.runs import Run, where
from engine.tracks.text_classifiers import words as own
from engine.tracks.text_classifiers.panels.survival import (
    PRETRAINED,
    TUNED,
    correlation_said,
    head_said,
    target_said,
)

POINTS = 4000
"""Points of a scatter at most."""
ABSENT = "This run kept no attention maps."
GONE = "This head was cut, or its maps were not kept."


def examples(run: Run) -> pd.DataFrame:
    """Texts with maps: text_id, label, tokens (how many), in the order of the table."""
    rows = lookup.table(run, "lens", "text_id label n_tokens").drop_duplicates("text_id")
    return rows[["text_id", "label", "n_tokens"]].reset_index(drop=True)


def stages(run: Run, text_id: str) -> list[str]:
    """Stages and variants with maps of a text, the fine-tuned full model first."""
    rows = lookup.frame(run, "lens")
    known = list(dict.fromkeys(rows.loc[rows["text_id"] == text_id, "stage"]))
    first = [stage for stage in (TUNED, PRETRAINED) if stage in known]
    return [*first, *(stage for stage in known if stage not in first)]


def stage_said(run: Run, stage: str) -> str:
    """A stage in words; a variant by its arm and share."""
    if stage in own.STAGES:
        return own.stage_name(stage)
    table = lookup.frame(run, "variants")
    rows = table[table["variant"] == stage]
    return lookup.variant_label(run, rows.iloc[0].to_dict()) if len(rows) else stage


def heads_here(run: Run, text_id: str, stage: str) -> list[tuple[int, int]]:
    """(layer, head) pairs with maps of a text at a stage."""
    rows = _rows(run, text_id, stage)
    return sorted({(int(row.layer), int(row.head)) for row in rows.itertuples()})


def _rows(run: Run, text_id: str, stage: str) -> pd.DataFrame:
    table = lookup.table(run, "lens", "text_id stage layer head")
    return where(table, text_id=text_id, stage=stage)


def row_of(run: Run, text_id: str, stage: str, layer: int, head: int) -> Values | None:
    """The maps of one head: attention and attribution as float arrays [tokens, tokens], row =
    from."""
    rows = _rows(run, text_id, stage)
    rows = where(rows, layer=layer, head=head)
    if rows.empty:
        return None
    row = rows.iloc[0].to_dict()
    n = int(row["n_tokens"])
    for name in ("attention", "attribution"):
        row[name] = np.frombuffer(row[name], dtype=np.float16).astype(float).reshape(n, n)
    row["attribution"] = row["attribution"] * float(row["scale"])
    row["tokens"] = [str(token) for token in json.loads(row["tokens"])]
    return row


def _seed(run: Run) -> str:
    """Which seed's maps are kept, in a sentence."""
    return f"Maps of seed {int(run.request.get('first_seed') or 0)}, the first, not means."


def lens_heads(
    run: Run, choice: Choice, text_id: str, stage: str, picked: tuple[int, int] | None = None
) -> Panel:
    """Layer x head of one text: the correlation between attention and attribution. A head can be
    picked; `picked`: (layer, head) of the one that is."""
    question = "In this text, which heads attend to what decides?"
    rows = _rows(run, text_id, stage)
    if rows.empty:
        return nothing("lens_heads", question, ABSENT)
    total, heads = run.n_units, int(run.model["n_heads"])
    values = np.full(total, np.nan)
    values[rows["layer"] * heads + rows["head"]] = rows["correlation"]
    kept = set(rows["layer"] * heads + rows["head"])
    hover = [_heads_hover(run, unit, values[unit], unit in kept) for unit in range(total)]
    scale = Scale(
        -1, 1, [-0.86, 0, 0.86], ["against<br>\u22121", "0<br> ", "along<br>+1"], diverges=True
    )
    figure = head_grid(run, choice, values, scale, hover)
    if picked is not None:
        mark(figure, run, choice, [picked[0] * heads + picked[1]], "circle-open", "shown here")
    known = rows.dropna(subset=["correlation"])
    table = rows[["layer", "head", "correlation"]].reset_index(drop=True)
    note = (
        f"{correlation_said(run)} of one text: read it beside the means of all. {_seed(run)}"
        f" {words.COUNTING}"
    )
    if known.empty:
        return Panel("lens_heads", question, "No head's maps vary here.", figure, table, note)
    best = known.loc[known["correlation"].idxmax()]
    negative = int((known["correlation"] < 0).sum())
    answer = (
        f"{stage_said(run, stage).capitalize() if stage in own.STAGES else stage_said(run, stage)}:"
        f" highest is {words.head_name(int(best['layer']), int(best['head']))}"
        f" ({phrasing.correlation(best['correlation'])}); {negative} of"
        f" {phrasing.count(len(known), 'head')} {'is' if negative == 1 else 'are'} negative."
    )
    return Panel("lens_heads", question, answer, figure, table, note)


def _heads_hover(run: Run, unit: int, value: float, is_kept: bool) -> str:
    head = f"<b>{head_said(run, unit)}</b>"
    if not is_kept:
        return f"{head}<br>cut, or its maps were not kept"
    return f"{head}<br>" + (
        "its maps do not vary"
        if math.isnan(value)
        else f"correlation {phrasing.correlation(value)}"
    )


def lens_maps(
    run: Run, choice: Choice, text_id: str, stage: str, layer: int, head: int, shown: bool = False
) -> Panel:
    """Attention and attribution side by side with the tokens; `shown`: the text itself, else only
    its shape."""
    question = "Where does this head look, and how much does it drive the prediction?"
    if (row := row_of(run, text_id, stage, layer, head)) is None:
        return nothing("lens_maps", question, GONE if run.has("lens") else ABSENT)
    labels = token_labels(row["tokens"], shown)
    end = float(np.abs(row["attribution"]).max()) or 1.0
    parts = (
        token_map(
            choice,
            row["attention"],
            labels,
            "Attention",
            map_scale(0.0, float(row["attention"].max()) or 1.0),
        ),
        token_map(choice, row["attribution"], labels, "Attribution", map_scale(-end, end)),
    )
    table = _pairs(row, labels)
    note = (
        "Row: the token that attends; column: the token it attends to. Attribution: conductance of"
        f" that attention for the {target_said(run)} class; positive speaks for it. Padding is left"
        f" out. {_seed(run)}"
    )
    return Panel("lens_maps", question, _maps_said(run, row, labels), None, table, note, parts)


def lens_scatter(
    run: Run, choice: Choice, text_id: str, stage: str, layer: int, head: int, shown: bool = False
) -> Panel:
    """One point per pair of tokens: attention against attribution, with their correlation."""
    question = "Do large attentions go with large attributions?"
    if (row := row_of(run, text_id, stage, layer, head)) is None:
        return nothing("lens_scatter", question, GONE if run.has("lens") else ABSENT)
    labels = token_labels(row["tokens"], shown)
    x, y, n = row["attention"].ravel(), row["attribution"].ravel(), len(labels)
    step = max(1, math.ceil(len(x) / POINTS))
    drawn = pd.DataFrame({"attention": x, "attribution": y}).iloc[::step]
    said = [
        f"{labels[at // n]} \u2192 {labels[at % n]}<br>attention {x[at]:.3f}, attribution"
        f" {y[at]:.4f}"
        for at in drawn.index
    ]
    titles = ("attention", "attribution")
    figure = points(choice, drawn.assign(hover=said, size=6, opacity=0.55), *titles, titles)
    some = "" if step == 1 else f" The chart shows every {step}th of them."
    pairs = phrasing.count(len(x), "pair")
    note = f"{pairs} of tokens.{some} {correlation_said(run)}; low ones are cut first. {_seed(run)}"
    return Panel(
        "lens_scatter", question, _scatter_said(run, row), figure, _pairs(row, labels), note
    )


def _maps_said(run: Run, row: Values, labels: list[str]) -> str:
    """What the model said, where the head looks most, and what speaks most for the prediction."""
    right = (
        "rightly"
        if row["predicted"] == row["label"]
        else f"wrongly, it is {words.quoted(str(row['label']))}"
    )
    n = len(labels)
    if np.ptp(row["attention"]) < 1e-6:
        look = "The head attends to every token alike"
    else:
        to = row["attention"].mean(axis=0)
        place = int(to.argmax())
        share = phrasing.percent(round(float(to[place]), 3))
        look = f"The head attends most to {_token_said(labels, place)} ({share} on average)"
    top = np.unravel_index(int(row["attribution"].argmax()), (n, n))
    pair = " to ".join(_token_said(labels, int(place)) for place in top)
    says = f"The model says {words.quoted(str(row['predicted']))}, {right}."
    if row["stage"] == PRETRAINED:
        says = (
            "Its classification head is still random, so its answer"
            f" ({words.quoted(str(row['predicted']))}) is too."
        )
    return f"{says} {look}; the attention from {pair} speaks most for the {target_said(run)} class."


def _token_said(labels: list[str], place: int) -> str:
    """A token in a sentence; by its place where it is hidden."""
    if labels[place] == str(place):
        return f"token {place}"
    return f"token {place} ({unescape(labels[place])})"


def _scatter_said(run: Run, row: Values) -> str:
    value = row["correlation"]
    if value is None or math.isnan(value):
        return (
            "One of the maps does not vary, so there is no correlation; for the mean over texts it"
            " counts as none."
        )
    if value > 0.3:
        kind = "Yes: what it attends to more also decides more"
    elif value < -0.3:
        kind = "The reverse: what it attends to more speaks against the class or for nothing"
    else:
        kind = "Hardly: its attention says little about what decides"
    return f"{kind} ({correlation_said(run)} {phrasing.correlation(value)})."


def _pairs(row: Values, labels: list[str]) -> pd.DataFrame:
    """Every pair of tokens with both numbers; the strongest attribution first."""
    n = len(labels)
    names = [unescape(label) for label in labels]
    table = pd.DataFrame(
        {
            "from": np.repeat(np.arange(n), n),
            "token": np.repeat(names, n),
            "to": np.tile(np.arange(n), n),
            "other token": np.tile(names, n),
            "attention": row["attention"].ravel(),
            "attribution": row["attribution"].ravel(),
        }
    )
    return table.sort_values(
        "attribution", ascending=False, key=np.abs, ignore_index=True, kind="stable"
    )


# What one answer about a sentence looks like beside its probabilities: the words that decided.


NAMED = 3


def deciding_words(answer: Values) -> Panel:
    """The table behind the coloured words, and the strongest ones in a sentence."""
    target = words.quoted(words.group_name(visible(answer["target"])))
    table = pd.DataFrame(
        {
            "word": list(map(visible, answer["words"])),
            **{side: answer[side]["words"] for side in SIDES},
        }
    )
    table["change"] = table["pruned"] - table["dense"]
    told = " ".join(f"{side.capitalize()}: {_strongest(table, side)}." for side in SIDES)
    missed = max(answer[side]["missed"] for side in SIDES)
    note = (
        f"How much each word adds to the log-odds of {target}, the dense model's answer, compared "
        f"with padding. Method: integrated gradients over word embeddings, {answer['steps']} "
        f"points. The sum is off by at most {phrasing.number(missed)}. The result depends on this "
        "method, and on one sentence."
    )
    return Panel("deciding_words", f"Which words speak for {target}?", told, None, table, note)


def _strongest(table: pd.DataFrame, side: str) -> str:
    top = table.sort_values(side, key=abs, ascending=False, kind="stable").head(NAMED)
    return ", ".join(
        f"{words.quoted(row['word'])} {phrasing.signed(row[side])}"
        for row in top.to_dict("records")
    )


def largest_weight(answer: Values) -> float:
    """The strongest word of either model: what full colour stands for."""
    return max((abs(value) for side in SIDES for value in answer[side]["words"]), default=0.0)
