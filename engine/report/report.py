"""One HTML file that opens offline: a page with the verdict, then an appendix with everything else.

Everything that is not ours is escaped, and generated texts are hidden unless asked for. A content
security policy allows only the scripts written here (by hash) and no connection at all.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from engine.audit.command_line import command_of
from engine.audit.experiments import Experiment
from engine.core import words
from engine.core.text import harmless, visible
from engine.core.types import Values
from engine.report import measured, phrasing
from engine.report.charts import by_group, lookup
from engine.report.charts.panel import CONFIG, Choice, Panel
from engine.report.charts.what_was_cut import who_pays_small
from engine.report.contents import axis_panels, default_choice, for_axis, shared_panels
from engine.report.tracks import track_of
from engine.report.verdict import Fact, Verdict, verdict
from engine.store.runs import EMBEDDED, Run, is_demo

# The first page of a report: one A4 page with the verdict, one chart, the limits, the mask and
# how to get it again.


TALLEST = 400
"""Pixels of a chart that leaves room for the rest of the page."""
LONGEST_COMMAND = 420
"""Characters of a command that does."""
LIMITS = 3
"""Limits said on the page; the appendix has all of them."""


def page_one(run: Run, choice: Choice, chart: str) -> str:
    """HTML of the page, everything that is not ours escaped. chart: HTML of its chart (see
    `chart_of`)."""
    said, variant = verdict(run, choice), lookup.variant_of(run, choice)
    return "".join(
        [
            '<section class="page-one" id="verdict">',
            _head(run, choice, variant, said),
            f'<p class="lead">{escape(said.sentence)}</p>',
            *(f"<p>{escape(text)}</p>" for text in (said.meaning, said.more) if text),
            chart,
            f'<div class="facts">{"".join(map(_fact, said.numbers))}</div>',
            f"<p><b>Cost.</b> {escape(said.cost)}</p>",
            f"<p><b>Advice.</b> {escape(said.advice.said)}</p>" if said.advice.said else "",
            _limits(run),
            _again(run, variant),
            "</section>",
        ]
    )


def chart_of(run: Run, choice: Choice) -> Panel:
    """Who pays; where there are too many groups for the page, what became of both ends."""
    panel = who_pays_small(run, choice)
    if panel.figure is not None and panel.figure.layout.height > TALLEST:
        return by_group.levelling_down(run, choice)
    return panel


def _head(run: Run, choice: Choice, variant: Values, said: Verdict) -> str:
    """What was audited and cut, by which method, when."""
    about = lookup.variant_label(run, variant)
    if variant["variant"] != "dense":
        about = f"{words.axis_name(choice.measured)}: {about}"
    day = str(run.meta["created"])[:10]
    return (
        f"<p class=kicker>{words.PRODUCT}: {escape(lookup.title_of(run))}, {escape(day)}</p>"
        f"<h1>{escape(said.audited)}</h1><p class=small>{escape(phrasing.sentence(about))}</p>"
    )


def _fact(fact: Fact) -> str:
    was = f"<span class=small>was {escape(fact.was)}: {escape(fact.kind)}</span>"
    name = escape(phrasing.sentence(fact.name))
    value = f"<b>{escape(fact.value)}</b>{was * bool(fact.was)}"
    return f"<div><span class=small>{name}</span>{value}</div>"


def _limits(run: Run) -> str:
    limits = _list(track_of(run).evidence.limits(run, short=True)[:LIMITS])
    every = '<p class=small><a href="#limits">All limits</a></p>'
    return f"<h2>What this cannot say</h2>{limits}{every}"


def _again(run: Run, variant: Values) -> str:
    """Hashes of the masks, and the commands that give report and audit again."""
    lines = (
        f"python -m engine export {run.id} --to DIR --what report --variant"
        f" {shlex.quote(variant['variant'])}",
        f"python -m engine runs verify {run.id}",
        audit_command(run),
    )
    code = "\n".join(line for line in lines if line and len(line) <= LONGEST_COMMAND)
    hashes = "".join(f"<li><code>{escape(text)}</code></li>" for text in masks_said(run, variant))
    masks = f"<p class=small>Masks, by SHA-256:</p><ul class=hashes>{hashes}</ul>" if hashes else ""
    return f"<h2>How to get this again</h2><pre>{escape(code)}</pre>{masks}"


def audit_command(run: Run) -> str:
    """The command that computes the audit again; "" where words cannot say its request, which the
    settings hold."""
    if run.path.parents[1] == EMBEDDED and is_demo(run.model["name"]):
        return f"python -m engine.audit.embedded {track_of(run).name}"
    return command_of(run.request)


def masks_said(run: Run, variant: Values) -> list[str]:
    """The mask of a variant, or of each trained model behind it: its digest, with the name where
    there are several."""
    table = lookup.frame(run, "variants").set_index("variant")
    takable = lookup.takable(run, variant) if variant["n_cut"] else {}
    digests = {name: str(table.loc[name, "mask_digest"]) for name in takable if name in table.index}
    known = {name: digest for name, digest in digests.items() if digest not in ("", "nan")}
    return [digest if len(known) == 1 else f"{digest}  {name}" for name, digest in known.items()]


_HERE = Path(__file__).parent
_LONGEST_TABLE = 400


def report_html(
    run: Run, show_offensive: bool = False, variant: str | None = None, **accepted: float
) -> str:
    """The report about one variant (see contents.default_choice) as one HTML document: one page,
    then an appendix with every axis of the run, the whole model, settings, limits and provenance.
    accepted: tolerances of the choice, by which its advice is given.
    """
    choice = default_choice(run, variant=variant).accepting(**accepted)
    figures: dict[str, Any] = {}
    parts = _parts(run, choice, variant, show_offensive, figures)
    chart = chart_html(chart_of(run, choice), chart_of(run, _dark(choice)), "page_one", figures)
    listed = "".join(
        f'<li><a href="#{key}">{escape(title)}</a></li>' for key, (title, _) in parts.items()
    )
    body = [
        page_one(run, choice, chart),
        f'<nav id="contents"><h2>Appendix</h2><ol>{listed}</ol></nav>',
    ]
    for key, (title, part) in parts.items():  # parts with charts begin on a page of their own
        look = "part charts" if key == "model" or key.startswith("axis-") else "part"
        head = f'<section class="{look}" id="{key}"><h2>{escape(title)}</h2>'
        body.append(f"{head}{part}</section>")
    return document(f"{lookup.title_of(run)}: {words.PRODUCT} report", "\n".join(body), figures)


def _parts(
    run: Run, choice: Choice, variant: str | None, show_offensive: bool, figures: dict[str, Any]
) -> dict[str, tuple[str, str]]:
    """The appendix by anchor: a title, and its HTML. Their charts go into `figures`. A named
    variant is measured on every axis; otherwise each axis shows the variant made for it."""
    parts, axes, track = {}, run.request["axes"], track_of(run)
    if notes := [
        words.title_said(measured.in_words(run, note), axes) for note in track.evidence.notes(run)
    ]:
        parts["notes"] = "What must be known about this audit", _list(notes)
    for place, axis in enumerate(axes):
        mine = replace(choice, measured_axis=axis) if variant else for_axis(run, choice, axis)
        title = phrasing.sentence(words.axis_name(axis))
        parts[f"axis-{place}"] = title, _axis(run, mine, axis, show_offensive, figures)
    pairs = zip(shared_panels(run, choice), shared_panels(run, _dark(choice)), strict=True)
    parts["model"] = "The whole model", "".join(panels_html(pairs, "all", figures))
    parts["limits"] = "What this cannot say", _list(track.evidence.limits(run))
    parts["settings"] = "Settings", _settings(run)
    parts["provenance"] = "Provenance", _provenance(run)
    return parts


def _list(texts: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in texts)}</ul>"


def _axis(run: Run, mine: Choice, axis: str, show_offensive: bool, figures: dict[str, Any]) -> str:
    pairs = zip(axis_panels(run, mine), axis_panels(run, _dark(mine)), strict=True)
    extras = [
        f'<section><h3>{escape(extra.question)}</h3><div class="scroll">{table_html(extra.table)}'
        f'</div><p class="caveat">{escape(extra.note)}</p></section>'
        for extra in track_of(run).charts.extras(run, mine, show_offensive)
        if not extra.table.empty
    ]
    about = f"<p>{escape(_about(run, mine))}</p>"
    return "".join([about, _verdict(run, mine), *panels_html(pairs, axis, figures), *extras])


def _dark(choice: Choice) -> Choice:
    return replace(choice, dark=True)


def document(title: str, body: str, figures: Values) -> str:
    """One HTML document that opens offline. body: HTML, escaped; figures: by id, as `panels_html`
    leaves them."""
    data = json.dumps(harmless({"figures": figures, "config": CONFIG}), allow_nan=False).replace(
        "<", "\\u003c"
    )
    scripts = [get_plotlyjs(), (_HERE / "report.js").read_text(encoding="utf-8")]
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:;"
        " font-src data:"
    )
    style = (_HERE / "report.css").read_text(encoding="utf-8")
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{escape(visible(title))}</title><style>{style}</style>",
            "</head><body>",
            '<button id="theme" type="button">light or dark</button>',
            f"<main>{visible(body)}</main>",
            f'<script type="application/json" id="data">{data}</script>',
            *(f"<script>{script}</script>" for script in scripts),
            "</body></html>\n",
        ]
    )


def _about(run: Run, choice: Choice) -> str:
    """Which variant the charts of an axis are about."""
    variant = lookup.variant_of(run, choice)
    about = phrasing.sentence(lookup.variant_label(run, variant))
    along = f"Charts along {track_of(run).level.noun} show every method."
    return f"{about}: {lookup.amount(run, variant)}. {along}"


def _verdict(run: Run, choice: Choice) -> str:
    """The verdict on an axis with its numbers, and how they were measured."""
    said, variant = verdict(run, choice), lookup.variant_of(run, choice)["variant"]
    told = "".join(f"<p>{escape(text)}</p>" for text in (said.meaning, said.more) if text)
    cards = "".join(map(_card, said.numbers))
    caveat = track_of(run).evidence.caveat(run, choice, lookup.harm(run, variant, choice))
    lead = f'<p class="lead">{escape(said.sentence)}</p>{told}<div class="cards">{cards}</div>'
    return f'{lead}<p class="caveat">{escape(caveat)}</p>'


def _card(fact: Fact) -> str:
    lead = "" if fact.change.startswith(fact.kind) else f"{fact.kind}: "
    lines = [fact.interval, *[f"{lead}{fact.change}"] * bool(fact.kind)]
    small = "".join(f"<div class=small>{escape(line)}</div>" for line in lines if line)
    name = f'<div class="small" title="{escape(fact.help)}">{escape(fact.name)}</div>'
    return f'<div class="card">{name}<div class="value">{escape(fact.value)}</div>{small}</div>'


def panels_html(
    pairs: Iterable[tuple[Panel, Panel]], prefix: str, figures: dict[str, Any]
) -> list[str]:
    """HTML of each panel; its light and dark figure go into `figures` under the id of its place."""
    out = []
    for light, dark in pairs:
        chart = chart_html(light, dark, prefix, figures)
        caveat = f'<p class="caveat">{escape(light.caveat)}</p>' if light.caveat else ""
        head = f"<section><h3>{escape(light.question)}</h3><p>{escape(light.said)}</p>"
        out.append(f"{head}{chart}{caveat}{_details(light.table)}</section>")
    return out


def chart_html(light: Panel, dark: Panel, prefix: str, figures: dict[str, Any]) -> str:
    """The place of a chart, whose light and dark figure go into `figures`; "" where there is
    none."""
    key = re.sub(r"[^A-Za-z0-9_-]", "_", f"{prefix}-{light.key}")
    if (bright := light.whole()) is None or (dim := dark.whole()) is None:
        return ""
    figures[key] = {"light": _plain(bright), "dark": _plain(dim)}
    height = figures[key]["light"]["layout"]["height"]
    return f'<div class="chart" id="{key}" style="min-height:{height}px"></div>'


def _plain(chart: go.Figure) -> Values:
    figure = json.loads(chart.to_json())  # plotly turns NaN into null
    figure["layout"].pop("template", None)
    return figure


def _details(table: pd.DataFrame) -> str:
    if table.empty:
        return ""
    more = len(table) - _LONGEST_TABLE
    note = f"<p class=caveat>{more} more rows are in the exported tables.</p>" if more > 0 else ""
    inner = f"<div class=scroll>{table_html(table.head(_LONGEST_TABLE))}</div>{note}"
    return f"<details><summary>Table</summary>{inner}</details>"


def table_html(table: pd.DataFrame) -> str:
    """A table with every name and cell escaped."""
    head = "".join(f"<th>{escape(str(name))}</th>" for name in table.columns)
    rows = ("".join(_cell(value) for value in row) for row in table.itertuples(index=False))
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    if isinstance(value, bool) or str(value) in ("True", "False"):
        return f"<td>{'yes' if str(value) == 'True' else 'no'}</td>"
    if isinstance(value, float):
        return f"<td class=n>{'' if pd.isna(value) else escape(phrasing.number(value))}</td>"
    return f"<td>{escape(str(value))}</td>"


def _settings(run: Run) -> str:
    command = audit_command(run)
    again = f"<p>The command that asks for this audit:</p><pre>{escape(command)}</pre>"
    table = table_html(measured.settings(run))
    return f"{again * bool(command)}<div class=scroll>{table}</div>"


def _provenance(run: Run) -> str:
    meta = run.meta
    rows = [("run", run.id), ("created", meta["created"])]
    for part in (*(name for name, _ in track_of(run).comparison.parts), "provenance", "spent"):
        rows += [
            (f"{part}: {key.replace('_', ' ')}", measured.said(value))
            for key, value in meta.get(part, {}).items()
        ]
    rows += [
        (f"table {name}", f"{item['rows']} rows, sha256 {item['sha256']}")
        for name, item in meta["tables"].items()
    ]
    table = table_html(pd.DataFrame(rows, columns=["what", "value"]))
    return f"<div class=scroll>{table}</div>"


# A short card to put beside a pruned model: what it is, what was measured, what was not.


def model_card(run: Run, variant: Values) -> str:
    """Markdown: the cut, one paragraph per axis with its warnings, how it was measured, limits, how
    to load it."""
    meta, track, choice = run.meta, track_of(run), default_choice(run, variant=variant["variant"])
    own = is_one_of_several(variant)
    mark = track.variants.mark(variant) if own else ""
    amount = phrasing.sentence(lookup.amount(run, variant))
    removed = f"{amount} removed by {words.method_name(variant['method'])}"
    nouns, definition = track.nouns, track.methods.definition(variant["method"])
    lines = [
        f"# {plain(meta['model']['name'])}, pruned: {lookup.variant_label(run, variant)}{mark}",
        "",
        f"{track.ways.label(variant) or removed}. {definition}".strip(),
        "",
        *(own_lines(run, variant, choice) if own else ()),
        f"## {f'All {nouns.repeat}s, measured' if own else 'Measured'} against the {nouns.whole}",
        "",
        *((f"Means over all {nouns.repeat}s of the audit, not this model.", "") if own else ()),
    ]
    for axis in meta["request"]["axes"]:
        text = plain(verdict(run, replace(choice, measured_axis=axis)).whole)
        lines.append(f"- **{plain(words.axis_name(axis)).capitalize()}.** {text}")
    harm = lookup.harm(run, variant["variant"], choice)
    lines += ["", plain(track.evidence.caveat(run, choice, harm)), "", "## Limits", ""]
    lines += [f"- {text}" for text in track.evidence.limits(run, short=True)]
    loading = track.handout.loading.format(model=meta["model"])
    lines += ["", "## Loading", "", loading, "", origin(run)]
    return visible("\n".join(lines) + "\n")


def origin(run: Run) -> str:
    """Which weights, audit and data a checkpoint comes from."""
    meta = run.meta
    first = f"Base weights {meta['model']['weight_hash']}"
    if "pretrained_hash" in meta["model"]:
        first += f", pre-trained weights {meta['model']['pretrained_hash'] or 'not given'}"
    if revision := meta["model"].get("revision"):
        first += f", revision {revision}"
    (_, *others) = track_of(run).comparison.parts
    given = [f"{part} {plain(meta[part]['name'])} {meta[part].get(key)}" for part, key in others]
    return f"{first}; audit {run.id}, {meta['created']}; {', '.join(given)}."


def is_one_of_several(variant: Values) -> bool:
    """Whether a variant is one model of several whose mean is what the audit reports."""
    pooled = variant.get("pooled")
    return bool(isinstance(pooled, str) and pooled and pooled != variant["variant"])


def own_lines(run: Run, variant: Values, choice: Choice) -> list[str]:
    """This model's own numbers, and those of the worst-off subgroup of every axis."""
    track, reading = track_of(run), lookup.reading(run, choice)
    row = lookup.result(run, variant["variant"], reading.quality.metric)
    said = "not measured" if row is None else reading.quality.with_interval(row)
    lines = ["## This model", "", f"- {phrasing.sentence(reading.quality.name)}: {said}."]
    for axis in run.request["axes"]:
        row = lookup.result(run, variant["variant"], reading.worst.metric, axis)
        if row is not None and row["value"] == row["value"]:
            name = plain(words.axis_name(axis)).capitalize()
            lines.append(f"- {name}, {reading.worst.name}: {reading.worst.with_interval(row)}.")
    return [*lines, "", f"One {track.nouns.repeat} only: another one would give other numbers.", ""]


def plain(text: str) -> str:
    """Names from outside, safe inside markdown."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace("\n", " ")
    return "".join(f"\\{letter}" if letter in "`*[]|" else letter for letter in escaped)


# An experiment of a paper as text and as one HTML file: the published numbers beside ours, and
# the charts.


NOT_PRINTED = "not printed"
"""A number of the paper that it only draws and says nothing of, or that is ours alone."""
HEADS = {
    "what": "what",
    "paper": "paper",
    "where": "printed in",
    "ours": "ours",
    "interval": "95 % interval",
    "null": "null band",
    "agrees": "beside the paper's words",
    "n": "n",
    "seeds": "seeds",
    "differs": "what differs",
}


def readable(table: pd.DataFrame) -> pd.DataFrame:
    """Findings with numbers as people read them, columns HEADS."""
    ends = {
        name: [
            " to ".join(map(phrasing.number, both)) if all(map(math.isfinite, both)) else ""
            for both in zip(table[f"{of}low"], table[f"{of}high"], strict=True)
        ]
        for name, of in (("interval", ""), ("null", "null_"))
    }
    told = table.assign(
        paper=[
            f"{value:g}" if math.isfinite(value) else says or NOT_PRINTED
            for value, says in zip(table["paper"], table["says"], strict=True)
        ],
        ours=table["ours"].map(phrasing.number),
        n=table["n"].map(_whole),
        seeds=table["seeds"].map(_whole),
        **ends,
    )
    return told[list(HEADS)].rename(columns=HEADS)


def _whole(value: float) -> str:
    return f"{value:.0f}" if math.isfinite(value) else ""


def experiment_text(one: Experiment, table: pd.DataFrame, runs: Sequence[Run]) -> str:
    """Question, a line per finding, what differs, and the runs it was read from."""
    told = readable(table)
    lines = [f"{one.paper}, {one.figure}: {one.question}", *map(_line, told.to_dict("records")), ""]
    unlike = list(dict.fromkeys(filter(None, table["differs"])))
    lines += [f"differs: {text}" for text in unlike]
    return "\n".join([*lines, *_run_lines(runs)])


def _line(row: Values) -> str:
    paper = f"{row['paper']} ({row['printed in']})" if row["printed in"] else row["paper"]
    parts = [f"paper {paper:<24}", f"ours {row['ours']}"]
    parts += [f"[{row['95 % interval']}]"] if row["95 % interval"] else []
    parts += [f"null {row['null band']}"] if row["null band"] else []
    parts += [row[HEADS["agrees"]]] if row[HEADS["agrees"]] else []
    parts += [f"{name} = {row[name]}" for name in ("n", "seeds") if row[name]]
    return f"  {row['what']:<64} {'  '.join(parts)}"


def _run_lines(runs: Iterable[Run]) -> list[str]:
    lines = []
    for run in runs:
        lines += [f"run {run.id}: {run.meta['title']}", *map("! {}".format, run.meta["warnings"])]
    return lines


def experiment_html(
    one: Experiment,
    table: pd.DataFrame,
    runs: Sequence[Run],
    light: Sequence[Panel],
    dark: Sequence[Panel],
) -> str:
    """One HTML document; light and dark: the same panels in both themes. What differs stands below
    the table once, and by its number in it; a column without a word is left out."""
    notes = list(dict.fromkeys(filter(None, table["differs"])))
    numbers = [f"({notes.index(text) + 1})" if text else "" for text in table["differs"]]
    told = readable(table).assign(**{HEADS["differs"]: numbers})
    told = told.loc[:, told.ne("").any()]
    below = [f"({number}) What differs: {text}." for number, text in enumerate(notes, 1)]
    return page_html(f"{one.paper}, {one.figure}", one.question, told, runs, light, dark, below)


def page_html(
    head: str,
    question: str,
    table: pd.DataFrame,
    runs: Sequence[Run],
    light: Sequence[Panel],
    dark: Sequence[Panel],
    below: Sequence[str] = (),
) -> str:
    """One HTML document of a table as people read it, lines `below` it, the charts, and the runs
    behind them."""
    figures: dict[str, Any] = {}
    charts: list[str] = []
    for place, pair in enumerate(zip(light, dark, strict=True)):
        charts += panels_html([pair], f"chart{place}", figures)
    below_, runs_ = (
        [f"<p class=caveat>{escape(line)}</p>" for line in lines]
        for lines in (below, _run_lines(runs))
    )
    body = [
        f"<header><p class=kicker>{words.PRODUCT}: {escape(head)}</p>",
        f"<h1>{escape(question)}</h1></header>",
        f"<section><div class=scroll>{table_html(table)}</div></section>",
        *(*below_, *charts, *runs_),
    ]
    return document(f"{head}: {words.PRODUCT}", "\n".join(body), figures)
