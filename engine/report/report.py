"""One HTML file that opens offline: a page with the verdict, then an appendix with everything else.

Everything that is not ours is escaped, and generated texts are hidden unless asked for. A content
security policy allows only the scripts written here (by hash) and no connection at all.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from engine.core import words
from engine.core.text import harmless, visible
from engine.report import measured, phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import CONFIG, Choice, Panel
from engine.report.contents import axis_panels, default_choice, for_axis, shared_panels
from engine.report.page_one import audit_command, chart_of, page_one
from engine.report.tracks import track_of
from engine.report.verdict import Fact, verdict
from engine.store.runs import Run

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
    parts, axes, track = {}, run.meta["request"]["axes"], track_of(run)
    if notes := [words.title_said(measured.in_words(run, note), axes) for note in track.notes(run)]:
        parts["notes"] = "What must be known about this audit", _list(notes)
    for place, axis in enumerate(axes):
        mine = replace(choice, measured_axis=axis) if variant else for_axis(run, choice, axis)
        title = phrasing.sentence(words.axis_name(axis))
        parts[f"axis-{place}"] = title, _axis(run, mine, axis, show_offensive, figures)
    pairs = zip(shared_panels(run, choice), shared_panels(run, _dark(choice)), strict=True)
    parts["model"] = "The whole model", "".join(panels_html(pairs, "all", figures))
    parts["limits"] = "What this cannot say", _list(track.limits(run))
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
        for extra in track_of(run).extras(run, mine, show_offensive)
        if not extra.table.empty
    ]
    about = f"<p>{escape(_about(run, mine))}</p>"
    return "".join([about, _verdict(run, mine), *panels_html(pairs, axis, figures), *extras])


def _dark(choice: Choice) -> Choice:
    return replace(choice, dark=True)


def document(title: str, body: str, figures: dict[str, Any]) -> str:
    """One HTML document that opens offline. body: HTML, escaped; figures: by id, as `panels_html`
    leaves them."""
    data = json.dumps(harmless({"figures": figures, "config": CONFIG}), allow_nan=False).replace(
        "<", "\\u003c"
    )
    scripts = [get_plotlyjs(), (_HERE / "report.js").read_text(encoding="utf-8")]
    hashes = " ".join(f"'sha256-{_sha(script)}'" for script in scripts)
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


def _sha(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _about(run: Run, choice: Choice) -> str:
    """Which variant the charts of an axis are about."""
    variant = lookup.variant_of(run, choice)
    about = (
        f"{phrasing.sentence(lookup.variant_label(run, variant))}: {lookup.amount(run, variant)}."
    )
    return f"{about} Charts along {track_of(run).level.noun} show every method."


def _verdict(run: Run, choice: Choice) -> str:
    """The verdict on an axis with its numbers, and how they were measured."""
    said, variant = verdict(run, choice), lookup.variant_of(run, choice)["variant"]
    told = "".join(f"<p>{escape(text)}</p>" for text in (said.meaning, said.more) if text)
    cards = "".join(map(_card, said.numbers))
    caveat = track_of(run).caveat(run, choice, lookup.harm(run, variant, choice))
    lead = f'<p class="lead">{escape(said.sentence)}</p>{told}<div class="cards">{cards}</div>'
    return f'{lead}<p class="caveat">{escape(caveat)}</p>'


def _card(fact: Fact) -> str:
    lines = [fact.interval, "" if not fact.kind else fact.change]
    if fact.kind and not fact.change.startswith(fact.kind):
        lines[1] = f"{fact.kind}: {fact.change}"
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
        out.append(f"{head}{chart}{caveat}{_details('Table', light.table)}</section>")
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


def _plain(chart: go.Figure) -> dict[str, Any]:
    figure = json.loads(chart.to_json())  # plotly turns NaN into null
    figure["layout"].pop("template", None)
    return figure


def _details(summary: str, table: pd.DataFrame) -> str:
    if table.empty:
        return ""
    more = len(table) - _LONGEST_TABLE
    note = f"<p class=caveat>{more} more rows are in the exported tables.</p>" if more > 0 else ""
    inner = f"<div class=scroll>{table_html(table.head(_LONGEST_TABLE))}</div>{note}"
    return f"<details><summary>{summary}</summary>{inner}</details>"


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
    for part in (*(name for name, _ in track_of(run).parts), "provenance", "spent"):
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
