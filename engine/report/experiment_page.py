"""An experiment of a paper as text and as one HTML file: the published numbers beside ours, and the
charts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import pandas as pd

from engine.audit.experiments import Experiment
from engine.core import words
from engine.core.types import Values
from engine.report import phrasing
from engine.report.charts.panel import Panel
from engine.report.report import document, panels_html, table_html
from engine.store.runs import Run

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
    told = pd.DataFrame(
        {
            "what": table["what"],
            "paper": [
                f"{value:g}" if math.isfinite(value) else says or NOT_PRINTED
                for value, says in zip(table["paper"], table["says"], strict=True)
            ],
            "where": table["where"],
            "ours": table["ours"].map(phrasing.number),
            "interval": [
                _ends(low, high) for low, high in zip(table["low"], table["high"], strict=True)
            ],
            "null": [
                _ends(low, high)
                for low, high in zip(table["null_low"], table["null_high"], strict=True)
            ],
            "agrees": table["agrees"],
            "n": table["n"].map(_whole),
            "seeds": table["seeds"].map(_whole),
            "differs": table["differs"],
        }
    )
    return told.rename(columns=HEADS)


def _ends(low: float, high: float) -> str:
    return (
        f"{phrasing.number(low)} to {phrasing.number(high)}"
        if math.isfinite(low) and math.isfinite(high)
        else ""
    )


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
    return [
        line
        for run in runs
        for line in (
            f"run {run.id}: {run.meta['title']}",
            *(f"! {text}" for text in run.meta["warnings"]),
        )
    ]


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
    body = [
        f"<header><p class=kicker>{words.PRODUCT}:"
        f" {escape(head)}</p><h1>{escape(question)}</h1></header>"
    ]
    body.append(f"<section><div class=scroll>{table_html(table)}</div></section>")
    body += [f"<p class=caveat>{escape(line)}</p>" for line in below]
    for place, pair in enumerate(zip(light, dark, strict=True)):
        body += panels_html([pair], f"chart{place}", figures)
    body += [f"<p class=caveat>{escape(line)}</p>" for line in _run_lines(runs)]
    return document(f"{head}: {words.PRODUCT}", "\n".join(body), figures)
