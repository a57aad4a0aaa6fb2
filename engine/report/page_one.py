"""The first page of a report: one A4 page with the verdict, one chart, the limits, the mask and how
to get it again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from html import escape
from typing import Any

from engine.audit.command_line import command_of
from engine.core import words
from engine.report import phrasing
from engine.report.charts import levelling, lookup
from engine.report.charts.before_after import who_pays_small
from engine.report.charts.panel import Choice, Panel
from engine.report.tracks import track_of
from engine.report.verdict import Fact, Verdict, verdict
from engine.store.runs import EMBEDDED, Run, is_demo

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
        return levelling.levelling_down(run, choice)
    return panel


def _head(run: Run, choice: Choice, variant: Mapping[str, Any], said: Verdict) -> str:
    """What was audited and cut, by which method, when."""
    label = lookup.variant_label(run, dict(variant))
    about = (
        f"{words.axis_name(choice.measured)}: {label}" if variant["variant"] != "dense" else label
    )
    day = str(run.meta["created"])[:10]
    return (
        f"<p class=kicker>{words.PRODUCT}: {escape(lookup.title_of(run))}, {escape(day)}</p>"
        f"<h1>{escape(said.audited)}</h1><p class=small>{escape(phrasing.sentence(about))}</p>"
    )


def _fact(fact: Fact) -> str:
    was = (
        f"<span class=small>was {escape(fact.was)}: {escape(fact.kind)}</span>" if fact.was else ""
    )
    name = escape(phrasing.sentence(fact.name))
    return f"<div><span class=small>{name}</span><b>{escape(fact.value)}</b>{was}</div>"


def _limits(run: Run) -> str:
    limits = track_of(run).card_limits(run)[:LIMITS]
    items = "".join(f"<li>{escape(text)}</li>" for text in limits)
    return (
        f'<h2>What this cannot say</h2><ul>{items}</ul><p class=small><a href="#limits">All'
        " limits</a></p>"
    )


def _again(run: Run, variant: Mapping[str, Any]) -> str:
    """Hashes of the masks, and the commands that give report and audit again."""
    lines = [
        f"python -m engine export {run.id} --to DIR --what report --variant"
        f" {shlex.quote(variant['variant'])}"
    ]
    lines += [f"python -m engine runs verify {run.id}", audit_command(run)]
    code = "\n".join(line for line in lines if line and len(line) <= LONGEST_COMMAND)
    hashes = "".join(f"<li><code>{escape(text)}</code></li>" for text in masks_said(run, variant))
    masks = f"<p class=small>Masks, by SHA-256:</p><ul class=hashes>{hashes}</ul>" if hashes else ""
    return f"<h2>How to get this again</h2><pre>{escape(code)}</pre>{masks}"


def audit_command(run: Run) -> str:
    """The command that computes the audit again; "" where words cannot say its request, which the
    settings hold."""
    if run.path.parents[1] == EMBEDDED and is_demo(run.meta["model"]["name"]):
        return f"python -m engine.audit.embedded {track_of(run).name}"
    return command_of(run.meta["request"])


def masks_said(run: Run, variant: Mapping[str, Any]) -> list[str]:
    """The mask of a variant, or of each trained model behind it: its digest, with the name where
    there are several."""
    track, table = track_of(run), lookup.frame(run, "variants").set_index("variant")
    takable = track.takable(run, dict(variant)) if variant["n_cut"] else {}
    digests = {name: str(table.loc[name, "mask_digest"]) for name in takable if name in table.index}
    known = {name: digest for name, digest in digests.items() if digest and digest != "nan"}
    return [digest if len(known) == 1 else f"{digest}  {name}" for name, digest in known.items()]
