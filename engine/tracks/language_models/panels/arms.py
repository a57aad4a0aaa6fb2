"""Cuts of heads beside other ways to make a model smaller: at as many bytes, in as much time, and
token by token."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.headline import null_warning
from engine.report.charts.marks import add_points, bars_of, chosen_last, dot, heading
from engine.report.charts.panel import Choice, Panel, blank, needs_log, nothing
from engine.report.schema import Column, readable, titled
from engine.report.tracks import track_of
from engine.store.runs import Run
from engine.tracks.language_models import words as own
from engine.tracks.language_models.evidence import differences

FAR = 3.0
"""Times the dense perplexity from which on the scale is logarithmic."""
_ENDS = ("delta", "delta_low", "delta_high")


def by_bytes(run: Run, choice: Choice) -> Panel:
    """Change of bias and of perplexity against bytes, every way."""
    question = f"For as many bytes, what does each way cost in {_harm(run, choice)}?"
    note = (
        f"Bytes: zeros left out where a way makes zeros, else as stored to be run. {own.ZEROS}"
        f" {own.COMPRESSED}"
    )
    return _weighed(
        run, choice, ("by_bytes", question, "bytes", "share of the dense model\u2019s bytes"), note
    )


def by_time(run: Run, choice: Choice) -> Panel:
    """The same against measured time."""
    question = f"In as much time, what does each way cost in {_harm(run, choice)}?"
    note = (
        f"Time: measured in turn with the dense model, median of paired ratios. {own.ROUNDED}"
        f" {own.ZEROS}"
    )
    return _weighed(
        run, choice, ("by_time", question, "time", "share of the dense model\u2019s time"), note
    )


def _harm(run: Run, choice: Choice) -> str:
    return lookup.reading(run, choice).harm.of(words.axis_name(choice.measured))


def _weighed(run: Run, choice: Choice, named: tuple[str, str, str, str], note: str) -> Panel:
    """named: key, question, what is compared, title of its axis."""
    key, question, what, title = named
    table = sizes(run, choice)
    if len(table) < 2:
        return nothing(
            key,
            question,
            "Bytes and time of fewer than two variants were measured for this choice.",
        )
    parts = tuple(_figure(run, choice, table, (what, title), about) for about in _ABOUT)
    chosen = _chosen(run, choice, table)
    found = pairs_of(run, choice, table, chosen, what) if chosen else None
    answer, more = _answer(run, table, chosen, found, what)
    columns = (
        Column("method", "method", words.method_name),
        *titled(
            sparsity="level", realised="share reached", bytes="share of bytes", time="share of time"
        ),
        *titled(delta="change of bias", delta_low="low", delta_high="high"),
        *(COLUMNS if found else ()),
        *titled(ratio="perplexity over dense", ratio_low="low of it", ratio_high="high of it"),
    )
    said = f"{note} {NOTE}" if found else note
    caveat = lookup.caveat(run, lookup.harm(run, "dense", choice), more=said)
    shown = readable(with_pairs(table, found), columns)
    return Panel(
        key, question, answer, None, shown, caveat, parts, mind=null_warning(run, choice), more=more
    )


@dataclass(frozen=True)
class _About:
    """One of the two charts: the column that is drawn, its name, where nothing changed."""

    column: str
    name: str
    unchanged: float


_ABOUT = (
    _About("delta", "change of bias", 0.0),
    _About("ratio", "perplexity, times the dense model\u2019s", 1.0),
)


def sizes(run: Run, choice: Choice) -> pd.DataFrame:
    """One row per reported variant but the dense model: changes of bias (delta) and of perplexity
    (delta_q) with ends. Perplexity over the dense model's (ratio) with its ends; bytes and time as
    shares of the dense model's.
    """
    variants = lookup.of_axis(run, lookup.reported(run), choice.axis)
    results, costs = lookup.frame(run, "results"), lookup.frame(run, "costs")
    results = results[results["split"] == lookup.REPORTED][
        ["variant", "metric", "axis", "value", *_ENDS]
    ]
    harm = lookup.reading(run, choice).harm
    axis = choice.measured if harm.per_axis else ""
    bias = results[(results["metric"] == harm.metric) & (results["axis"] == axis)]
    text = results[results["metric"] == "perplexity"]
    table = variants[lookup.is_change(variants)].merge(
        bias[["variant", "value", *_ENDS]], on="variant"
    )
    table = table.merge(text[["variant", "value", *_ENDS]], on="variant", suffixes=("", "_q"))
    table = table.merge(costs.rename(columns={"bytes": "stored"}), on="variant")
    dense = costs[costs["variant"] == "dense"]
    if dense.empty:
        return table.iloc[:0]
    packed = table.get("packed_bytes", pd.Series(math.nan, index=table.index)).fillna(
        table["stored"]
    )
    table = table.assign(bytes=packed / float(dense["bytes"].iat[0]), time=1 / table["speedup"])
    was = table["value_q"] - table["delta_q"]
    for end in ("", "_low", "_high"):
        table[f"ratio{end}"] = 1 + table[f"delta{end}_q"] / was
    return table.dropna(subset=["delta", "delta_q"]).sort_values(
        ["method", "sparsity", "seed"], ignore_index=True
    )


def _figure(
    run: Run, choice: Choice, table: pd.DataFrame, named: tuple[str, str], about: _About
) -> go.Figure:
    """named: column of the horizontal axis, and its title. Methods are joined by lines where they
    differ in it."""
    (what, title), track = named, track_of(run)
    figure = blank(choice, 400, title, about.name)
    figure.add_hline(y=about.unchanged, line={"color": choice.theme.ink, "width": 1, "dash": "dot"})
    order = chosen_last(track.order(table["method"].unique()), choice.method)
    for method in order:
        mine, style = (
            table[table["method"] == method].sort_values(what),
            lookup.look_of(run, choice, method),
        )
        strong, value = method == choice.method, about.column
        rim = {"line": {"width": 2}} if "-open" in style.symbol else {}
        bars = bars_of(
            mine, style.colour, 2 if strong else 1, value, f"{value}_low", f"{value}_high"
        )
        texts = [_hover(run, row, what) for row in mine.to_dict("records")]
        look = {"mode": "lines+markers" if what == "bytes" else "markers", "error_y": bars}
        look |= {"line": {"color": style.colour, "width": 2 if strong else 1, "dash": style.dash}}
        add_points(
            figure,
            mine[what],
            mine[about.column],
            texts,
            dot(style, 11 if strong else 7) | rim,
            **look,
            name=words.method_name(method),
            showlegend=True,
        )
    is_log = about.unchanged > 0 and table[about.column].max() > FAR
    figure.update_xaxes(tickformat=".0%", nticks=6, tickangle=0)
    figure.update_yaxes(nticks=6, type="log" if is_log else "linear")
    heading(figure, phrasing.sentence(about.name))
    first = about is _ABOUT[0]
    legend = {"font": {"size": 11}, "y": -0.25, "yanchor": "top"}
    height = 400 + (20 * math.ceil(len(order) / 2) if first else 0)
    figure.update_layout(legend=legend, showlegend=first, height=height, margin={"t": 40})
    return figure


def _hover(run: Run, row: dict[str, Any], what: str) -> str:
    return "<br>".join(
        (
            f"<b>{lookup.variant_label(run, row)}</b>",
            f"{phrasing.percent(row[what])} of the {what}",
            f"bias {phrasing.change(row)}",
            (
                f"perplexity {row['ratio']:.3g} times ({row['ratio_low']:.3g} to"
                f" {row['ratio_high']:.3g})"
            ),
        )
    )


def _chosen(run: Run, choice: Choice, table: pd.DataFrame) -> dict[str, Any] | None:
    """The row of the chosen variant; None for the dense model."""
    mine = table[table["variant"] == lookup.variant_of(run, choice)["variant"]]
    return None if mine.empty else mine.iloc[0].to_dict()


def _answer(
    run: Run, table: pd.DataFrame, row: dict[str, Any] | None, found: Pairs | None, what: str
) -> tuple[str, str]:
    """The chosen variant, and every other way that takes about as much beside the cut of heads;
    then what each does to the dense model's bias, and each difference."""
    if row is None:
        return (
            (
                "Choose a variant that changes the model: the others are then compared at what it"
                " takes."
            ),
            "",
        )
    label = phrasing.sentence(lookup.variant_label(run, row))
    first = (
        f"{label}{',' if ',' in label else ''} takes {phrasing.percent(row[what])} of the {what} "
    )
    first += f"and {_VERBS[phrasing.direction(row)]} the bias ({phrasing.change(row)})."
    near = closest(table, row, what)
    more = _beside_dense(run, near[near["pair_as_much"]].to_dict("records"))
    if found is None:
        return f"{first} {more}", ""
    return f"{first} {told(run, found, what)}", f"{more} {each(run, found)}"


def _beside_dense(run: Run, others: list[dict[str, Any]]) -> str:
    """What each way that takes as much does to the dense model's bias."""
    start = f"At as much, give or take {phrasing.percent(NEAR)}, beside the dense model\u2019s bias"
    if not others:
        return f"No other way takes as much, give or take {phrasing.percent(NEAR)}."
    said = []
    for kind, verb in _VERBS.items():
        names = [
            lookup.variant_label(run, one) for one in others if phrasing.direction(one) == kind
        ]
        said += [f"{'; '.join(names)}: {verb} it"] if names else []
    return f"{start}: {'. '.join(map(phrasing.sentence, said))}."


_VERBS = {
    "fell": "lowers",
    "rose": "raises",
    "unclear": "does not clearly change",
    "unknown": "moves",
}


def divergence(run: Run, choice: Choice) -> Panel:
    """How far every variant's next tokens are from the dense model's."""
    question = "How far are next tokens from the dense model\u2019s?"
    table = _diverging(run, choice)
    if table.empty:
        return nothing("divergence", question, "Divergence per token was not measured in this run.")
    figure = blank(
        choice,
        420,
        "share of the tokens whose likeliest next token changed",
        "divergence per token (nats)",
    )
    for method in track_of(run).order(table["method"].unique()):
        mine, style = (
            table[table["method"] == method].sort_values("value_f"),
            lookup.look_of(run, choice, method),
        )
        strong = method == choice.method
        texts = [
            f"<b>{lookup.variant_label(run, row)}</b><br>{phrasing.number(row['value'])} nats<br>"
            f"{phrasing.percent(row['value_f'])} flipped"
            for row in mine.to_dict("records")
        ]
        marker = dot(style, 11 if strong else 7) | {"symbol": style.symbol}
        add_points(
            figure,
            mine["value_f"],
            mine["value"],
            texts,
            marker,
            error_y=bars_of(mine, style.colour, 1),
            name=words.method_name(method),
            showlegend=True,
        )
    figure.update_xaxes(tickformat=".0%", nticks=6, tickangle=0)
    is_log = needs_log(table["value"].tolist())
    figure.update_yaxes(nticks=6, type="log" if is_log else "linear", exponentformat="power")
    figure.update_layout(legend={"font": {"size": 11}, "y": -0.25, "yanchor": "top"}, height=470)
    ordered = table.sort_values("value")
    least, most = (ordered.iloc[place].to_dict() for place in (0, -1))
    answer = (
        f"Least with {lookup.variant_label(run, least)} ({phrasing.number(least['value'])} nats, "
        f"{phrasing.percent(least['value_f'])} of the likeliest tokens changed), most with "
        f"{lookup.variant_label(run, most)} ({phrasing.number(most['value'])} nats, "
        f"{phrasing.percent(most['value_f'])})."
    )
    columns = (
        Column("method", "method", words.method_name),
        *titled(
            sparsity="share asked",
            value="nats per token",
            low="low",
            high="high",
            value_f="flipped",
            n="tokens",
        ),
    )
    note = f"{own.METRICS['divergence'].definition} {own.INTERVALS_PERPLEXITY}"
    return Panel("divergence", question, answer, figure, readable(table, columns), note)


def _diverging(run: Run, choice: Choice) -> pd.DataFrame:
    """One row per reported variant with its divergence (value, low, high) and share of flipped
    tokens (value_f)."""
    results = lookup.frame(run, "results")
    ends = ["variant", "value", "low", "high", "n"]
    kl, flipped = (
        results[results["metric"] == metric][ends] for metric in ("divergence", "flipped")
    )
    variants = lookup.of_axis(run, lookup.reported(run), choice.axis)
    table = variants.merge(kl, on="variant").merge(
        flipped[["variant", "value"]], on="variant", suffixes=("", "_f")
    )
    return table.sort_values(["method", "sparsity", "seed"], ignore_index=True)


# Every other way that takes about as much as a cut of heads, or is closest to it, prompt by
# prompt.


NEAR = 0.05
"""Shares of the dense model's bytes, or of its time, that count as the same."""
SURE = 0.05
"""q up to which a difference whose interval leaves out zero is called clear."""
START = "pair_"
COLUMNS: tuple[Column, ...] = titled(
    pair_with="compared with",
    pair_as_much="takes as much",
    pair_delta="bias minus that",
    pair_delta_low="low of difference",
    pair_delta_high="high of difference",
    pair_null_low="exchanged, low",
    pair_null_high="exchanged, high",
    pair_null_q="q",
)
NOTE = (
    "Differences use the same prompts and the same random numbers. q comes from exchanging, "
    "prompt by prompt, which model wrote the texts (Benjamini-Hochberg over the ways compared). A "
    "difference is clear where its interval excludes zero and q is at most .05."
)


@dataclass(frozen=True, eq=False)
class Pairs:
    """The cut of heads that others are compared with (a row of the sizes), and the others with
    `COLUMNS`."""

    reference: dict[str, Any]
    others: pd.DataFrame


def closest(table: pd.DataFrame, row: dict[str, Any], what: str) -> pd.DataFrame:
    """Of every other method the variant that is closest in `what`, the closest method first;
    pair_as_much says whether it takes about as much."""
    far = (table[what] - row[what]).abs()
    found = (
        table.assign(far=far, pair_as_much=far <= NEAR).sort_values("far").drop_duplicates("method")
    )
    return found[found["method"] != row["method"]].drop(columns="far")


def cut_beside(table: pd.DataFrame, chosen: dict[str, Any], what: str) -> dict[str, Any] | None:
    """The chosen variant where it is a cut of heads, else the cut of heads that is closest to it,
    if there is one."""
    heads = table[~lookup.stands_instead(table)]
    if (heads["variant"] == chosen["variant"]).any():
        return chosen
    return next(iter(closest(heads, chosen, what).to_dict("records")), None)


def pairs_of(
    run: Run, choice: Choice, table: pd.DataFrame, chosen: dict[str, Any], what: str
) -> Pairs | None:
    """The chosen variant, or the cut of heads that is closest to it, and the closest variant of
    every other way.

    None where there is no cut of heads, no other way, or where the harm is no bias of the texts.
    """
    metric, reference = lookup.reading(run, choice).harm.metric, cut_beside(table, chosen, what)
    if reference is None or not metric.startswith("bias:"):
        return None
    others = closest(table, reference, what)
    if reference["variant"] != chosen["variant"]:
        as_much = bool(abs(chosen[what] - reference[what]) <= NEAR)
        mine = table[table["variant"] == chosen["variant"]].assign(pair_as_much=as_much)
        others = pd.concat([mine, others[others["method"] != chosen["method"]]])
    names = tuple(others["variant"])
    found = differences(
        run, reference["variant"], names, choice.measured, metric.removeprefix("bias:")
    )
    if found.empty:
        return None
    said = found.rename(columns={name: f"{START}{name}" for name in found if name != "variant"})
    label = lookup.variant_label(run, reference)
    return Pairs(reference, others.merge(said.assign(pair_with=label), on="variant"))


def with_pairs(table: pd.DataFrame, pairs: Pairs | None) -> pd.DataFrame:
    """The table with the columns of the pairs, empty where a row is compared with nothing."""
    if pairs is None:
        return table
    others = pairs.others.assign(
        pair_as_much=pairs.others["pair_as_much"].map({True: "yes", False: "no"})
    )
    added = others[["variant", *(column.name for column in COLUMNS)]]
    return table.merge(added, on="variant", how="left").fillna(
        {"pair_with": "", "pair_as_much": ""}
    )


def told(run: Run, pairs: Pairs, what: str) -> str:
    """How many ways at as much leave clearly less bias, or more, than the cut. Where none does,
    what would have been found; where none takes as much, the closest one."""
    rows = pairs.others[pairs.others["pair_as_much"]].to_dict("records")
    label = lookup.variant_label(run, pairs.reference)
    if not rows:
        return _closest_told(run, pairs, what)
    less, more = (sum(_clear(row) == kind for row in rows) for kind in ("fell", "rose"))
    count = (
        f"{phrasing.count(len(rows), 'other way')} at as much, give or take"
        f" {phrasing.percent(NEAR)}"
    )
    start = f"Prompt by prompt beside {label}{',' if ',' in label else ''} of {count},"
    if less or more:
        verb = "leaves" if (less or more) == 1 else "leave"
        return (
            f"{start} {less or 'none'} {verb} clearly less bias and {more or 'none'} clearly more."
        )
    sizes = [row["pair_detectable"] for row in rows if math.isfinite(row["pair_detectable"])]
    if not sizes:
        return f"{start} no difference can be shown: too few prompts for an interval."
    return (
        f"{start} none clearly differs. A difference of {_span(sizes)} would be found in four of "
        "five repeats."
    )


def _closest_told(run: Run, pairs: Pairs, what: str) -> str:
    row = pairs.others.iloc[0].to_dict()
    label, other = (lookup.variant_label(run, one) for one in (pairs.reference, row))
    return (
        f"No other way takes as much as {label}{',' if ',' in label else ''} give or take "
        f"{phrasing.percent(NEAR)}. The closest is {other} ({phrasing.percent(row[what])} of the "
        f"{what}). Its bias beside the cut\u2019s, prompt by prompt: "
        f"{phrasing.change({name: row[START + name] for name in _ENDS})}."
    )


def each(run: Run, pairs: Pairs) -> str:
    """Every difference with its interval, what exchanging gives, and q."""
    said = [
        f"{lookup.variant_label(run, row)}:"
        f" {phrasing.change({name: row[START + name] for name in _ENDS})} (exchanged:"
        f" {phrasing.span(row['pair_null_low'], row['pair_null_high'])}; q ="
        f" {phrasing.number(row['pair_null_q'])})"
        for row in pairs.others.to_dict("records")
    ]
    return f"Bias minus that of {lookup.variant_label(run, pairs.reference)}: {'; '.join(said)}."


def _clear(row: dict[str, Any]) -> str:
    """ "fell" or "rose" where way and cut differ clearly, else ""."""
    kind = phrasing.direction({name: row[START + name] for name in _ENDS})
    return kind if kind in ("fell", "rose") and row["pair_null_q"] <= SURE else ""


def _span(sizes: list[float]) -> str:
    low, high = phrasing.number(min(sizes)), phrasing.number(max(sizes))
    return f"{low} or more" if low == high else f"{low} to {high}, by way,"


# What it costs to hold a cut to what any loader reads: the same method with and without the
# constraint.


QUESTION = (
    "What does it cost to cut the same number of heads in every layer, so that any loader "
    "reads the result?"
)


def price_of_even(run: Run, choice: Choice) -> Panel:
    """Changes of bias and of perplexity of the chosen method, as it is and held to even cuts."""
    table = sizes(run, choice)
    pairs = [
        name for name in table["method"].unique() if f"{name}{own.EVEN}" in set(table["method"])
    ]
    if not pairs:
        return nothing(
            "price_of_even",
            QUESTION,
            "No level takes a whole group of heads from every layer here.",
        )
    base = choice.method.removesuffix(own.EVEN)
    base = base if base in pairs else track_of(run).order(pairs)[0]
    mine = table[table["method"].isin((base, f"{base}{own.EVEN}"))].reset_index(drop=True)
    parts = tuple(_even_figure(run, choice, mine, name, ends) for name, ends in _PARTS)
    columns = (
        Column("method", "method", words.method_name),
        *titled(
            sparsity="share asked",
            realised="share cut",
            bytes="share of bytes",
            delta="change of bias",
        ),
        *titled(delta_low="low", delta_high="high", delta_q="change of perplexity"),
        *titled(delta_low_q="low of perplexity", delta_high_q="high of perplexity"),
    )
    note = lookup.caveat(run, lookup.harm(run, "dense", choice), more=own.EVEN_MEANS)
    return Panel(
        "price_of_even",
        QUESTION,
        _even_answer(mine, base),
        None,
        readable(mine, columns),
        note,
        parts,
    )


_PARTS = (("change of bias", ""), ("change of perplexity", "_q"))


def _even_figure(run: Run, choice: Choice, table: pd.DataFrame, name: str, ends: str) -> go.Figure:
    figure = blank(choice, 380, "share of heads cut", name)
    figure.add_hline(y=0, line={"color": choice.theme.ink, "width": 1, "dash": "dot"})
    for method in track_of(run).order(table["method"].unique()):
        mine, style = table[table["method"] == method], track_of(run).style(method, choice.dark)
        texts = [_even_hover(run, row) for row in mine.to_dict("records")]
        bars = bars_of(
            mine, style.colour, 1, f"delta{ends}", f"delta_low{ends}", f"delta_high{ends}"
        )
        rim = {"line": {"width": 2}} if "-open" in style.symbol else {}
        add_points(
            figure,
            mine["realised"],
            mine[f"delta{ends}"],
            texts,
            dot(style, 9) | rim,
            error_y=bars,
            mode="lines+markers",
            line={"color": style.colour, "width": 2, "dash": style.dash},
            name=words.method_name(method),
            showlegend=True,
        )
    figure.update_xaxes(tickformat=".0%", nticks=5, tickangle=0)
    figure.update_yaxes(nticks=6)
    heading(figure, phrasing.sentence(name))
    figure.update_layout(margin={"t": 40}, legend={"y": -0.25, "yanchor": "top"}, height=420)
    return figure


def _even_hover(run: Run, row: dict[str, Any]) -> str:
    return f"<b>{lookup.variant_label(run, row)}</b><br>{phrasing.percent(row['realised'])} cut"


def _even_answer(table: pd.DataFrame, base: str) -> str:
    """Both at the largest level at which there is an even cut."""
    even = table[table["method"] != base]
    held = even.sort_values(["sparsity", "seed"]).iloc[-1]
    free = table[
        (table["method"] == base)
        & (table["sparsity"] == held["sparsity"])
        & (table["seed"] == held["seed"])
    ]
    name = words.method_name(base)
    if free.empty:
        return f"{name} was measured only with equal layers."
    row = free.iloc[0]
    bias, text = (
        [
            phrasing.change({one: each[f"{one}{ends}"] for one in _ENDS}, bool(ends))
            for each in (held, row)
        ]
        for ends in ("", "_q")
    )
    return (
        f"{name} asked for {phrasing.percent(held['sparsity'])}. With equal layers "
        f"{phrasing.percent(held['realised'])} of the heads are cut, bias changes by {bias[0]} "
        f"and perplexity by {text[0]}. Without that it is {phrasing.percent(row['realised'])}, "
        f"{bias[1]} and {text[1]}."
    )


PANELS = (by_bytes, by_time, divergence)
