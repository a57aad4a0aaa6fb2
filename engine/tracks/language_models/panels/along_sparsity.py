"""How bias and perplexity move as more heads are cut, for every method of the run."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.ids import at_level, is_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.headline import null_warning
from engine.report.charts.kinds import lines
from engine.report.charts.metric_curve import Curve, along, pooled, rows_along, seeds_note
from engine.report.charts.panel import Choice, Panel, nothing, plain
from engine.report.contract import Chance, Measure
from engine.report.schema import readable
from engine.report.tracks import track_of
from engine.store.runs import Run
from engine.tracks.language_models import words as own
from engine.tracks.language_models.evidence import LEVEL, per_cent, rank_p, ranks
from engine.tracks.language_models.request import CONTROLLED, SEARCH


def bias_along_sparsity(run: Run, choice: Choice) -> Panel:
    """Bias against the share of heads cut, every method, with the null band of the chosen
    method."""
    measure = lookup.reading(run, choice).harm
    curve = Curve(
        "bias_along_sparsity",
        f"As more {_what(run)}, does the {measure.of(words.axis_name(choice.measured))} fall, and"
        f" does it matter which {_which(run)}?",
        measure,
        (
            f"bias ({own.READINGS[choice.reading].name})"
            if choice.reading in own.READINGS
            else measure.name
        ),
        "This run has no bias for this choice.",
        with_null=True,
    )
    more = f"{seeds_note(run, choice, measure)} {measure.word.caveat}"
    note = lookup.caveat(run, lookup.harm(run, "dense", choice), more=more)
    return along(run, choice, curve, note, null_warning(run, choice))


def _what(run: Run) -> str:
    """What there is more and more of along the axis."""
    return "of the model goes" if _has_arms(run) else "heads are cut"


def _which(run: Run) -> str:
    return "method" if _has_arms(run) else "heads"


def _has_arms(run: Run) -> bool:
    return bool(lookup.stands_instead(lookup.frame(run, "variants")).any())


def perplexity_along_sparsity(run: Run, choice: Choice) -> Panel:
    """Perplexity against the share of heads cut, every method."""
    measure = lookup.reading(run, choice).quality
    curve = Curve(
        "perplexity_along_sparsity",
        f"As more {_what(run)}, how much worse does the model predict text?",
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
        or choice.reading != run.meta["request"]["reading"]
        or not choice.level
    ):
        return None
    if not is_level(choice.level, lookup.levels(run, CONTROLLED, choice.axis)):
        return None
    if not run.has(TABLE):
        return Chance(pd.DataFrame(columns=["value", "value_q"]), "", own.NO_CONTROLS)
    variant = lookup.variant_of(run, replace(choice, method=CONTROLLED))
    table = lookup.frame(run, TABLE)
    rows, shown = (
        table[table["variant"] == variant["variant"]],
        lookup.bias(run, variant["variant"], choice),
    )
    if rows.empty or shown is None:
        return None
    level = shown["value"] + rows["bias"] - rows["method_bias"]
    points = pd.DataFrame({"value": level, "value_q": rows["perplexity"]}).reset_index(drop=True)
    return Chance(points, f"{len(rows)} random cuts", _said(run, rows, variant, ranks(table)))


def _said(run: Run, rows: pd.DataFrame, variant: dict, every: pd.DataFrame) -> str:
    """The rank with its p, among how many such ranks, and on how much it rests."""
    below, n, p, q = every.loc[variant["variant"], ["sum", "size", "p", "q"]]
    beaten, n = int(n) - int(below), int(n)
    doubt = f"{n} are too few to rule out luck" if beaten == n else "luck alone may give that"
    searched = run.meta["request"]["gamma"] == SEARCH
    alike = not searched or ("searched" in rows and bool(rows["searched"].all()))
    verdict = "better than chance" if q <= LEVEL and alike else f"but {doubt}"
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
    marks = track_of(run).columns
    shown = readable(both, " ".join([*marks, COLUMNS]), **marks, **HEADS)
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
        f"<b>{words.method_name(row['method'])}</b>, {track.reached(run, row)}<br>"
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
    rest = f"{phrasing.sentence('; '.join(said[1:]))}." if len(said) > 1 else ""
    return f"At {level.say(at)}, {said[0]}.", rest
