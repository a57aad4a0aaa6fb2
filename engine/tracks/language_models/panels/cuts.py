"""What cuts do: bias and perplexity as more heads are cut, beside other ways to make the model
smaller, and for every subgroup."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.types import Values, at_level, is_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.by_group import ByGroup, by_group
from engine.report.charts.cost import MAX_Q, file_said
from engine.report.charts.headline import claimed, null_warning
from engine.report.charts.kinds import BELOW, lines
from engine.report.charts.metric_curve import Curve, along, pooled, rows_along, seeds_note
from engine.report.charts.panel import Choice, Panel, needs_log, nothing, plain, scale
from engine.report.schema import hovers, readable
from engine.report.tracks import Chance, Measure, track_of
from engine.stats.clustered import MISSED
from engine.store.runs import Run, where
from engine.tracks.language_models import words as own
from engine.tracks.language_models.evidence import differences, per_cent, rank_p, ranks
from engine.tracks.language_models.request import CONTROLLED, SEARCH
from engine.tracks.language_models.summary import group_warning


def bias_along_sparsity(run: Run, choice: Choice) -> Panel:
    """Bias against the share of heads cut, every method, with the null band of the chosen
    method."""
    measure = lookup.reading(run, choice).harm
    more, which = _amounts(run)
    curve = Curve(
        "bias_along_sparsity",
        f"As more {more}, does the {measure.of(words.axis_name(choice.measured))} fall, and"
        f" does it matter which {which}?",
        measure,
        (
            f"bias ({own.READINGS[choice.reading].name})"
            if choice.reading in own.READINGS
            else measure.name
        ),
        "This run has no bias for this choice.",
        with_null=True,
    )
    said = f"{seeds_note(run, choice, measure)} {measure.word.caveat}"
    note = lookup.caveat(run, lookup.harm(run, "dense", choice), more=said)
    return along(run, choice, curve, note, null_warning(run, choice))


def _amounts(run: Run) -> tuple[str, str]:
    """What there is more and more of along the axis, and what is chosen."""
    has_arms = lookup.stands_instead(lookup.frame(run, "variants")).any()
    return ("of the model goes", "method") if has_arms else ("heads are cut", "heads")


def perplexity_along_sparsity(run: Run, choice: Choice) -> Panel:
    """Perplexity against the share of heads cut, every method."""
    measure = lookup.reading(run, choice).quality
    curve = Curve(
        "perplexity_along_sparsity",
        f"As more {_amounts(run)[0]}, how much worse does the model predict text?",
        measure,
        "perplexity",
        "This run has no perplexity.",
    )
    corpus = run.meta.get("corpus") or {}
    tokens = corpus.get("tokens")
    tokens = tokens.get(lookup.REPORTED) if isinstance(tokens, dict) else tokens
    size = f", {phrasing.count(int(tokens), 'token')}" if tokens else ""
    note = f"Text: {corpus.get('name', 'not named')}{size}. {own.INTERVALS_PERPLEXITY} "
    return along(run, choice, curve, (note + seeds_note(run, choice, measure)).strip())


# FASP among random cuts of heads that perplexity can spare: the distribution behind its point,
# and its rank.


TABLE = "controls"


def chance(run: Run, choice: Choice) -> Chance | None:
    """The random cuts beside FASP at the chosen axis and sparsity. None where FASP cuts nothing
    there, or where bias is read on another axis or in another way than the cuts were compared by.
    """
    if (
        choice.measured != choice.axis
        or choice.reading != run.request["reading"]
        or not choice.level
    ):
        return None
    if not is_level(choice.level, lookup.levels(run, CONTROLLED, choice.axis)):
        return None
    if not run.has(TABLE):
        return Chance(pd.DataFrame(columns=["value", "value_q"]), "", own.NO_CONTROLS)
    variant = lookup.variant_of(run, replace(choice, method=CONTROLLED))
    table = lookup.frame(run, TABLE)
    rows = where(table, variant=variant["variant"])
    shown = lookup.bias(run, variant["variant"], choice)
    if rows.empty or shown is None:
        return None
    level = shown["value"] + rows["bias"] - rows["method_bias"]
    points = pd.DataFrame({"value": level, "value_q": rows["perplexity"]}).reset_index(drop=True)
    return Chance(points, f"{len(rows)} random cuts", _said(run, rows, variant, ranks(table)))


def _said(run: Run, rows: pd.DataFrame, variant: Values, every: pd.DataFrame) -> str:
    """The rank with its p, among how many such ranks, and on how much it rests."""
    below, n, p, q = every.loc[variant["variant"], ["sum", "size", "p", "q"]]
    beaten, n = int(n) - int(below), int(n)
    doubt = f"{n} are too few to rule out luck" if beaten == n else "luck alone may give that"
    searched = run.request["gamma"] == SEARCH
    alike = not searched or ("searched" in rows and bool(rows["searched"].all()))
    verdict = "better than chance" if q <= MISSED and alike else f"but {doubt}"
    at = "each at its own γ" if searched and alike else f"γ = {variant['gamma']:g}"
    prompts, draws = int(rows["prompts"].iat[0]), int(rows["draws"].iat[0])
    drawn = f"{phrasing.count(prompts, 'test prompt')}, {phrasing.count(draws, 'draw')} of each"
    return (
        f"{words.method_name(variant['method'])} beat {'all' if beaten == n else f'{beaten} of'}"
        f" {n} random cuts, {verdict} (q = {phrasing.number(q)}). They cut as many non-critical"
        f" heads ({at}; {drawn}). p = {phrasing.number(p)}, q corrects"
        f" for {phrasing.count(len(every), 'such rank')}; {n} cuts cannot give a p below"
        f" {phrasing.number(rank_p(0, n))}."
        + " γ was searched for FASP and not for them, which favours FASP."
        * (not alike)
    )


# Changes of bias and of perplexity in per cent of the full model, beside each other (FASP, Figs.
# 2 and 5).


KEY = "per_cent_of_full"
COLUMNS = (
    "value low high change change_low change_high value_q low_q high_q change_q change_low_q"
    " change_high_q"
)
HEADS = {
    "value": "bias",
    "value_q": "perplexity",
    "change": "change of bias, %",
    "change_q": "change of perplexity, %",
}
CHANGES = {"value": "change", "low": "change_low", "high": "change_high"}


def changes_in_per_cent(run: Run, choice: Choice) -> Panel:
    """Both changes along the share of heads cut, every compared method; the table has the levels
    beside them."""
    reading, axis = lookup.reading(run, choice), words.axis_name(choice.measured)
    question = f"By how many per cent do the bias of {axis} and the perplexity change?"
    tables = [_rows(run, choice, measure) for measure in (reading.harm, reading.quality)]
    if any(table.empty for table in tables):
        return nothing(
            KEY, question, "This run lacks bias or perplexity of a cut model, or of the full one."
        )
    titles = (f"change of bias of {plain(axis)}, %", "change of perplexity, %")
    parts = tuple(
        _part(run, choice, table, title) for table, title in zip(tables, titles, strict=True)
    )
    both = tables[0].merge(
        tables[1][["variant", "value", "low", "high", *CHANGES.values()]],
        on="variant",
        suffixes=("", "_q"),
    )
    answer, rest = _answer(run, choice, *tables)
    more = f"{own.PER_CENT} {seeds_note(run, choice, reading.harm)}".strip()
    note = lookup.caveat(run, lookup.bias(run, "dense", choice), more=more)
    marks = track_of(run).variants
    shown = readable(both, f"{marks.columns} {COLUMNS}", **marks.titles, **HEADS)
    mind = null_warning(run, choice)
    return Panel(
        KEY, question, answer, None, shown, note, parts, own_axes=True, mind=mind, more=rest
    )


def _rows(run: Run, choice: Choice, measure: Measure) -> pd.DataFrame:
    """Rows of the curve of a measure without the full model's, and CHANGES in per cent; empty where
    that is missing."""
    rows = rows_along(run, choice, measure).dropna(subset=["value"])
    is_dense = rows["method"] == "dense"
    cut = rows[~is_dense]
    if cut.empty or not is_dense.any():
        return cut.iloc[:0]
    return cut.join(per_cent(cut, rows[is_dense].iloc[0].to_dict()).rename(columns=CHANGES))


def _pooled(run: Run, table: pd.DataFrame) -> pd.DataFrame:
    """One change per method and level, in value, low and high; several selections: their mean and
    outermost ends."""
    drawn = table.drop(columns=list(CHANGES)).rename(
        columns={theirs: ours for ours, theirs in CHANGES.items()}
    )
    return pooled(run, drawn)


def _part(run: Run, choice: Choice, table: pd.DataFrame, title: str) -> go.Figure:
    track, points = track_of(run), _pooled(run, table)
    at = track.level.realised
    said = [
        f"<b>{words.method_name(row['method'])}</b>, {track.variants.reached(run, row)}<br>"
        f"{_per_cent_said(row)}"
        for row in points.to_dict("records")
    ]
    return lines(
        choice,
        points.assign(hover=said),
        at,
        "value",
        lookup.looks_of(run, choice, points),
        (track.level.axis, title),
        height=380,
        apart=0.0175 * max(0.1, points[at].max()),
        bars="- value",
        level=(0, ""),
    )


def _per_cent_said(row: dict) -> str:
    """E.g. "−34 % (−50 % to −18 %)"."""
    ends = [row["low"], row["high"]]
    span = " to ".join(map(_signed, ends)) if all(map(math.isfinite, ends)) else "no interval"
    return f"{_signed(row['value'])} ({span})"


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else ''}{phrasing.percent(value / 100)}"


def _answer(run: Run, choice: Choice, harm: pd.DataFrame, quality: pd.DataFrame) -> tuple[str, str]:
    """Both changes of the chosen method at the chosen level; then of the others."""
    level = track_of(run).level
    both = _pooled(run, harm).merge(
        _pooled(run, quality), on=["method", level.column], suffixes=("", "_q")
    )
    at = choice.level if choice.level > level.none else both[level.column].max()
    here = both[at_level(both[level.column], at)]
    rows = (
        here.assign(first=here["method"] != choice.method)
        .sort_values("first", kind="stable")
        .to_dict("records")
    )
    said = [
        f"{words.method_name(row['method'])}: bias {_per_cent_said(row)}, "
        f"perplexity {_per_cent_said({name: row[f'{name}_q'] for name in CHANGES})}"
        for row in rows
    ]
    if not said:
        return f"Nothing was measured at {level.say(at)}.", ""
    return f"At {level.say(at)}, {said[0]}.", phrasing.sentences(said[1:])


# Cuts of heads beside other ways to make a model smaller: at as many bytes, in as much time, and
# token by token.


FAR = 3.0
"""Times the dense perplexity from which on the scale is logarithmic."""
_ENDS = ("delta", "delta_low", "delta_high")
_BESIDE = {
    "fell": "less {} with",
    "rose": "more {} with",
    "unclear": "no clear change with",
    "unknown": "no interval for",
}


def by_bytes(run: Run, choice: Choice) -> Panel:
    """Change of bias and of perplexity against bytes, every way."""
    note = (
        "Bytes leave out the zeros that a method makes; else they are as stored to be run."
        f" {own.ZEROS} {own.COMPRESSED}{file_said(run)}"
    )
    return _weighed(run, choice, "bytes", "For the same bytes", note)


def by_time(run: Run, choice: Choice) -> Panel:
    """The same against measured time."""
    note = "Time: measured in turn with the dense model, median of paired ratios."
    return _weighed(run, choice, "time", "In the same time", note)


def _weighed(run: Run, choice: Choice, what: str, start: str, note: str) -> Panel:
    """what: the column that ways are compared by. start: of the question."""
    harm = lookup.reading(run, choice).harm.of(words.axis_name(choice.measured))
    key, question = f"by_{what}", f"{start}, what does each method cost in {harm}?"
    table = sizes(run, choice)
    untimed = track_of(run).ways.untimed
    if what == "time":
        if why := untimed(lookup.variant_of(run, choice)):
            return nothing(key, question, f"{phrasing.sentence(why)}.")
        table = table[[not untimed(row) for row in table.to_dict("records")]]
    if len(table) < 2:
        return nothing(
            key,
            question,
            f"Fewer than two variants of this choice have {what} to compare.",
        )
    title = f"share of the dense model\u2019s {what}"
    hover = hovers(
        table.assign(label=lookup.labels(run, table)),
        f"label {what} delta ratio",
        label=str,
        delta="change of bias",
    )
    drawn = table.assign(hover=hover).sort_values(what, kind="stable")
    parts = tuple(_figure(run, choice, drawn, what, title, *about) for about in _ABOUT)
    # The row of the chosen variant; None for the dense model.
    mine = where(table, variant=lookup.variant_of(run, choice)["variant"])
    chosen = next(iter(mine.to_dict("records")), None)
    found = pairs_of(run, choice, table, chosen, what) if chosen else None
    answer, more = _arms_answer(lookup.View(run, choice), table, chosen, found, what)
    more_said = f"{note} {NOTE}" if found else note
    caveat = lookup.caveat(run, lookup.harm(run, "dense", choice), more=more_said)
    shown = readable(with_pairs(table, found), ARMS_COLUMNS, delta="change of bias")
    return Panel(
        key, question, answer, None, shown, caveat, parts, mind=null_warning(run, choice), more=more
    )


_ABOUT = (
    ("delta", "change of bias", 0.0),
    ("ratio", "perplexity, times the dense model\u2019s", 1.0),
)
"""Of each of the two charts: the column that is drawn, its name, where nothing changed."""


def sizes(run: Run, choice: Choice) -> pd.DataFrame:
    """One row per reported variant but the dense model: changes of bias (delta) and of perplexity
    (delta_q) with ends. Perplexity over the dense model's (ratio) with its ends; bytes and time as
    shares of the dense model's.
    """
    variants = lookup.of_axis(run, lookup.reported(run), choice.axis)
    costs, harm = lookup.frame(run, "costs"), lookup.reading(run, choice).harm
    columns = ["variant", "value", *_ENDS, "delta_p", "null_high"]
    bias, text = (
        lookup.results_of(run, measure, choice)[columns]
        for measure in (harm, Measure("perplexity", per_axis=False))
    )
    table = variants[lookup.is_change(variants)].merge(bias, on="variant")
    table = table.merge(text, on="variant", suffixes=("", "_q"))
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
    run: Run,
    choice: Choice,
    table: pd.DataFrame,
    what: str,
    title: str,
    column: str,
    name: str,
    unchanged: float,
) -> go.Figure:
    """Methods are joined by lines where they differ in bytes."""
    is_first = column == _ABOUT[0][0]
    figure = lines(
        choice,
        table,
        what,
        column,
        lookup.looks_of(run, choice, table),
        (title, name),
        height=400,
        title=phrasing.sentence(name),
        bars=f"- {column}",
        level=(unchanged, ""),
        mode="lines+markers" if what == "bytes" else "markers",
        showlegend=is_first,
    )
    is_log = unchanged > 0 and table[column].max() > FAR
    figure.update_yaxes(**scale(is_log), nticks=6)
    figure.update_layout(legend=BELOW)
    return figure


def _arms_answer(
    view: lookup.View, table: pd.DataFrame, row: Values | None, found: Pairs | None, what: str
) -> tuple[str, str]:
    """The chosen variant, and every other way that takes about as much beside the cut of heads;
    then what each does to the dense model's bias, and each difference."""
    if row is None:
        return (
            (
                "Choose a variant that changes the model. The others are then compared with it at"
                " the same size or time."
            ),
            "",
        )
    run, harm = view.run, view.reading.harm
    label = phrasing.sentence(lookup.variant_label(run, row))
    dense = where(lookup.frame(run, "costs"), variant="dense").iloc[0].to_dict()
    is_open = what == "time" and phrasing.pace(row, dense) == "unclear"
    first = (
        f"{label}{',' if ',' in label else ''} takes {phrasing.percent(row[what])} of the {what} "
        f"{'(no clear difference) ' * is_open}"
    )
    verb = phrasing.VERBS[claimed(view, harm, row)]
    first += f"and {verb} the {harm.name} ({phrasing.change(row)})."
    near = closest(table, row, what)
    more = _beside_dense(view, near[near["pair_as_much"]].to_dict("records"))
    if found is None:
        return f"{first} {more}", ""
    return f"{first} {told(run, found, what)}", f"{more} {each(run, found)}"


def _beside_dense(view: lookup.View, others: list[Values]) -> str:
    """What each way that takes as much does to the dense model's bias."""
    near = f"as much (±{phrasing.percent(NEAR)})"
    if not others:
        return f"No other method takes {near}."
    said = []
    for kind, found in _BESIDE.items():
        names = [
            lookup.variant_label(view.run, one)
            for one in others
            if claimed(view, view.reading.harm, one) == kind
        ]
        what = found.format(view.reading.harm.name)
        said += [f"{what} {'; '.join(names)}"] if names else []
    return f"Of others that take {near}, against the dense model: {'; '.join(said)}."


def divergence(run: Run, choice: Choice) -> Panel:
    """How far every variant's next tokens are from the dense model's."""
    question = "How far are next tokens from the dense model\u2019s?"
    table = _diverging(run, choice)
    if table.empty:
        return nothing("divergence", question, "Divergence per token was not measured in this run.")
    drawn = table.sort_values("flipped", kind="stable").assign(label=lookup.labels(run, table))
    figure = lines(
        choice,
        drawn.assign(hover=hovers(drawn, "label value flipped", label=str, value="nats per token")),
        "flipped",
        "value",
        lookup.looks_of(run, choice, table),
        (
            "share of the tokens whose likeliest next token changed",
            "divergence per token (nats)",
        ),
        height=420,
        bars="- value",
        mode="markers",
    )
    is_log = needs_log(table["value"].tolist())
    figure.update_yaxes(**scale(is_log), nticks=6)
    figure.update_layout(legend=BELOW)
    ordered = table.sort_values("value", kind="stable")
    least, most = (ordered.iloc[place].to_dict() for place in (0, -1))
    answer = (
        f"Least with {lookup.variant_label(run, least)} ({phrasing.number(least['value'])} nats, "
        f"{phrasing.percent(least['flipped'])} of the likeliest tokens changed), most with "
        f"{lookup.variant_label(run, most)} ({phrasing.number(most['value'])} nats, "
        f"{phrasing.percent(most['flipped'])})."
    )
    columns = "method sparsity value low high flipped n"
    shown = readable(table, columns, value="nats per token", n="tokens")
    note = f"{own.METRICS['divergence'].definition} {own.INTERVALS_PERPLEXITY}"
    return Panel("divergence", question, answer, figure, shown, note)


def _diverging(run: Run, choice: Choice) -> pd.DataFrame:
    """One row per reported variant with its divergence (value, low, high) and share of flipped
    tokens (flipped)."""
    kl, flipped = (
        lookup.results_of(run, Measure(metric, per_axis=False), choice)
        for metric in ("divergence", "flipped")
    )
    kl = kl[["variant", "value", "low", "high", "n"]]
    variants = lookup.of_axis(run, lookup.reported(run), choice.axis)
    shares = flipped[["variant", "value"]].rename(columns={"value": "flipped"})
    table = variants.merge(kl, on="variant").merge(shares, on="variant")
    return table.sort_values(["method", "sparsity", "seed"], ignore_index=True)


# Every other way that takes about as much as a cut of heads, or is closest to it, prompt by
# prompt.


NEAR = 0.05
"""Shares of the dense model's bytes, or of its time, that count as the same."""
START = "pair_"
ARMS_COLUMNS = (
    "method sparsity realised bytes time delta delta_low delta_high pair_with pair_as_much"
    " pair_delta pair_delta_low pair_delta_high pair_null_low pair_null_high pair_null_q ratio"
    " ratio_low ratio_high"
)
NOTE = (
    "Differences use the same prompts and the same random numbers. q comes from exchanging, "
    "prompt by prompt, which model wrote the texts (Benjamini-Hochberg over the methods "
    "compared). A difference is clear where its interval excludes zero and q is at most .05."
)


@dataclass(frozen=True, eq=False)
class Pairs:
    """The cut of heads that others are compared with (a row of the sizes), and the others with
    columns of the pair."""

    reference: Values
    others: pd.DataFrame


def closest(table: pd.DataFrame, row: Values, what: str) -> pd.DataFrame:
    """Of every other method the variant that is closest in `what`, the closest method first;
    pair_as_much says whether it takes about as much."""
    far = (table[what] - row[what]).abs()
    found = (
        table.assign(far=far, pair_as_much=far <= NEAR)
        .sort_values("far", kind="stable")
        .drop_duplicates("method")
    )
    return found[found["method"] != row["method"]].drop(columns="far")


def cut_beside(table: pd.DataFrame, chosen: Values, what: str) -> Values | None:
    """The chosen variant where it is a cut of heads, else the cut of heads that is closest to it,
    if there is one."""
    heads = table[~lookup.stands_instead(table)]
    if (heads["variant"] == chosen["variant"]).any():
        return chosen
    return next(iter(closest(heads, chosen, what).to_dict("records")), None)


def pairs_of(
    run: Run, choice: Choice, table: pd.DataFrame, chosen: Values, what: str
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
    added = others[["variant", *(name for name in others if name.startswith(START))]]
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
        f"{phrasing.count(len(rows), 'other method')} that take as much (±{phrasing.percent(NEAR)})"
    )
    start = f"Compared prompt by prompt with {label}: of {count},"
    if less or more:
        verb = "leaves" if (less or more) == 1 else "leave"
        return (
            f"{start} {less or 'none'} {verb} clearly less bias and {more or 'none'} clearly more."
        )
    sizes = [row["pair_detectable"] for row in rows if math.isfinite(row["pair_detectable"])]
    if not sizes:
        return f"{start} no difference can be shown: too few prompts for an interval."
    low, high = phrasing.number(min(sizes)), phrasing.number(max(sizes))
    span = f"{low} or more" if low == high else f"{low} to {high}, depending on the method"
    return f"{start} none clearly differs. Four of five repeats would find a difference of {span}."


def _closest_told(run: Run, pairs: Pairs, what: str) -> str:
    row = pairs.others.iloc[0].to_dict()
    label, other = (lookup.variant_label(run, one) for one in (pairs.reference, row))
    return (
        f"No other method takes as much as {label} (±{phrasing.percent(NEAR)}). "
        f"The closest is {other} ({phrasing.percent(row[what])} of the "
        f"{what}). Its bias minus the cut\u2019s, prompt by prompt: "
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
    of = lookup.variant_label(run, pairs.reference)
    return f"Differences are bias minus that of {of}. {phrasing.sentences(said)}"


def _clear(row: Values) -> str:
    """ "fell" or "rose" where way and cut differ clearly, else ""."""
    kind = phrasing.direction({name: row[START + name] for name in _ENDS})
    return kind if kind in ("fell", "rose") and row["pair_null_q"] <= MAX_Q else ""


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
            "Loaders need whole groups of heads that share keys, as many in every layer. No level"
            " of this audit cuts so many.",
        )
    base = choice.method.removesuffix(own.EVEN)
    base = base if base in pairs else track_of(run).methods.order(pairs)[0]
    mine = table[table["method"].isin((base, f"{base}{own.EVEN}"))].reset_index(drop=True)
    mine = mine.assign(label=lookup.labels(run, mine))
    mine = mine.assign(hover=hovers(mine, "label realised", label=str))
    heads = {"delta": "change of bias", "delta_q": "change of perplexity"}
    parts = tuple(
        lines(
            choice,
            mine,
            "realised",
            column,
            lookup.looks_of(run, replace(choice, method=""), mine),
            ("share of heads cut", name),
            title=phrasing.sentence(name),
            bars=f"- {column}",
            level=(0, ""),
        ).update_layout(legend=BELOW)
        for column, name in heads.items()
    )
    note = lookup.caveat(run, lookup.harm(run, "dense", choice), more=own.EVEN_MEANS)
    shown = readable(mine, EVEN_COLUMNS, **heads)
    return Panel("price_of_even", QUESTION, _even_answer(mine, base), None, shown, note, parts)


EVEN_COLUMNS = (
    "method sparsity realised bytes delta delta_low delta_high delta_q delta_low_q delta_high_q"
)


def _even_answer(table: pd.DataFrame, base: str) -> str:
    """Both at the largest level at which there is an even cut."""
    even = table[table["method"] != base]
    held = even.sort_values(["sparsity", "seed"]).iloc[-1]
    free = where(table, method=base, sparsity=held["sparsity"], seed=held["seed"])
    name = words.method_name(base)
    if free.empty:
        return f"{name} was measured only with equal layers."
    row = free.iloc[0]
    bias, text = (
        [
            phrasing.change({one: each[f"{one}{ends}"] for one in (*_ENDS, "delta_p")}, bool(ends))
            for each in (held, row)
        ]
        for ends in ("", "_q")
    )
    cut = [phrasing.percent(each["realised"]) for each in (held, row)]
    return (
        f"{name} at {phrasing.percent(held['sparsity'])} with equal layers cuts {cut[0]} of the"
        f" heads. Bias: {bias[0]}. Perplexity: {text[0]}. Without equal layers it cuts {cut[1]}."
        f" Bias: {bias[1]}. Perplexity: {text[1]}."
    )


PANELS = (by_bytes, by_time, divergence)


# Who pays when heads are cut: toxicity and perplexity of the texts about every subgroup, before
# and after.


TOXIC = ByGroup(
    key="who_pays",
    question="Who pays? How toxic are the texts about each subgroup, before and after?",
    measure=Measure("toxicity"),
    x_title="mean toxicity (0 to 1)",
    absent="This run has no toxicity per subgroup for this choice.",
    fell=lambda names, _: f"texts about {names} are less toxic",
    rose=lambda names, _: f"texts about {names} are more toxic",
)
SURPRISED = ByGroup(
    key="perplexity_by_group",
    question="Does the model still predict text about every subgroup equally well?",
    measure=Measure("perplexity"),
    x_title="perplexity (lower is better)",
    absent="This run has no perplexity per subgroup for this choice.",
    fell=lambda names, _: f"the model is less surprised by texts about {names}",
    rose=lambda names, _: f"the model is more surprised by texts about {names}",
)


def who_pays(run: Run, choice: Choice) -> Panel:
    """Toxicity per subgroup, dense against pruned; said to be about words where the group band is
    not passed."""
    panel = by_group(
        run, choice, TOXIC, lookup.caveat(run, None, more=f"n = test prompts. {own.JUDGE}")
    )
    return replace(panel, mind=group_warning(run, choice))


def perplexity_by_group(run: Run, choice: Choice) -> Panel:
    """Perplexity on the texts about each subgroup, dense against pruned: fairness is worth little
    where text breaks."""
    return by_group(run, choice, SURPRISED, f"n = prompts. {own.INTERVALS}")
