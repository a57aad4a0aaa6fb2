"""A short card to put beside a pruned model: what it is, what was measured, what was not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from engine import words
from engine.export.contents import default_choice
from engine.export.panels import lookup
from engine.export.panels.headline import headline
from engine.export.tracks import track_of
from engine.store.runs import Run


def model_card(run: Run, variant: dict[str, Any]) -> str:
    """Markdown: the cut, one paragraph per axis with its warnings, how it was measured, limits, how to load it."""
    meta, track, choice = run.meta, track_of(run), default_choice(run, variant=variant["variant"])
    lines = [
        f"# {plain(meta['model']['name'])}, pruned: {lookup.variant_label(run, variant)}",
        "",
        f"{lookup.amount(run, variant)} removed by {words.method_name(variant['method'])}. "
        f"{track.definition(variant['method'])}".strip(),
        "",
        "## Measured against the dense model",
        "",
    ]
    for axis in meta["request"]["axes"]:
        head = headline(run, replace(choice, measured_axis=axis))
        text = plain(" ".join([head.sentence, *head.warnings]))
        lines.append(f"- **{plain(words.axis_name(axis)).capitalize()}.** {text}")
    lines += ["", plain(headline(run, choice).caveat), "", "## Limits", ""]
    lines += [f"- {text}" for text in track.card_limits(run)]
    lines += ["", "## Loading", "", *track.loading(run)]
    return "\n".join(lines) + "\n"


def plain(text: str) -> str:
    """Names from outside, safe inside markdown."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace("\n", " ")
    return "".join(f"\\{letter}" if letter in "`*[]|" else letter for letter in escaped)
