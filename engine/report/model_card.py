"""A short card to put beside a pruned model: what it is, what was measured, what was not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from engine.core import words
from engine.core.text import visible
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.contents import default_choice
from engine.report.tracks import track_of
from engine.report.verdict import verdict
from engine.store.runs import Run


def model_card(run: Run, variant: dict[str, Any]) -> str:
    """Markdown: the cut, one paragraph per axis with its warnings, how it was measured, limits, how
    to load it."""
    meta, track, choice = run.meta, track_of(run), default_choice(run, variant=variant["variant"])
    own = is_one_of_several(variant)
    mark = track.mark(variant) if own else ""
    amount = phrasing.sentence(lookup.amount(run, variant))
    removed = f"{amount} removed by {words.method_name(variant['method'])}"
    lines = [
        f"# {plain(meta['model']['name'])}, pruned: {lookup.variant_label(run, variant)}{mark}",
        "",
        f"{track.ways.label(variant) or removed}. {track.definition(variant['method'])}".strip(),
        "",
        *(own_lines(run, variant, choice) if own else ()),
        f"## {f'All {track.repeat}s, measured' if own else 'Measured'} against the {track.whole}",
        "",
        *((f"Means over all {track.repeat}s of the audit, not this model.", "") if own else ()),
    ]
    for axis in meta["request"]["axes"]:
        text = plain(verdict(run, replace(choice, measured_axis=axis)).whole)
        lines.append(f"- **{plain(words.axis_name(axis)).capitalize()}.** {text}")
    harm = lookup.harm(run, variant["variant"], choice)
    lines += ["", plain(track.caveat(run, choice, harm)), "", "## Limits", ""]
    lines += [f"- {text}" for text in track.limits(run, short=True)]
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


def is_one_of_several(variant: dict[str, Any]) -> bool:
    """Whether a variant is one model of several whose mean is what the audit reports."""
    pooled = variant.get("pooled")
    return bool(isinstance(pooled, str) and pooled and pooled != variant["variant"])


def own_lines(run: Run, variant: dict[str, Any], choice: Choice) -> list[str]:
    """This model's own numbers, and those of the worst-off subgroup of every axis."""
    track, reading = track_of(run), lookup.reading(run, choice)
    row = lookup.result(run, variant["variant"], reading.quality.metric)
    said = "not measured" if row is None else reading.quality.with_interval(row)
    lines = ["## This model", "", f"- {phrasing.sentence(reading.quality.name)}: {said}."]
    for axis in run.meta["request"]["axes"]:
        row = lookup.result(run, variant["variant"], reading.worst.metric, axis)
        if row is not None and row["value"] == row["value"]:
            name = plain(words.axis_name(axis)).capitalize()
            lines.append(f"- {name}, {reading.worst.name}: {reading.worst.with_interval(row)}.")
    return [*lines, "", f"One {track.repeat} only: another one would give other numbers.", ""]


def plain(text: str) -> str:
    """Names from outside, safe inside markdown."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace("\n", " ")
    return "".join(f"\\{letter}" if letter in "`*[]|" else letter for letter in escaped)
