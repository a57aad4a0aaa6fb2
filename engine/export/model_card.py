"""A short card to put beside a pruned model: what it is, what was measured, what was not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from engine import words
from engine.export.contents import default_choice
from engine.export.panels import lookup
from engine.export.panels.headline import headline
from engine.store.runs import Run


def model_card(run: Run, variant: dict[str, Any]) -> str:
    """Markdown: the cut, one paragraph per axis with its warnings, how it was measured, limits, how to load it."""
    meta, choice = run.meta, default_choice(run, variant=variant["variant"])
    lines = [
        f"# {_plain(meta['model']['name'])}, pruned: {lookup.variant_label(variant)}",
        "",
        f"{lookup.amount(run, variant)} removed by {words.method_name(variant['method'])}. "
        f"{words.METHODS[variant['method']].definition if variant['method'] in words.METHODS else ''}".strip(),
        "",
        "## Measured against the dense model",
        "",
    ]
    for axis in meta["request"]["axes"]:
        head = headline(run, replace(choice, measured_axis=axis))
        text = _plain(" ".join([head.sentence, *head.warnings]))
        lines.append(f"- **{_plain(words.axis_name(axis)).capitalize()}.** {text}")
    lines += ["", _plain(headline(run, choice).caveat), "", "## Limits", ""]
    lines += [f"- {text}" for text in (words.JUDGE, *LIMITS)]
    lines += [
        "",
        "## Loading",
        "",
        "`zeroed/` loads with `from_pretrained` of transformers and is no smaller. `cut/` is smaller and loads with "
        "`engine.surgery.replay.load_cut`; plain transformers cannot load uneven heads.",
        "",
        f"Base weights {meta['model']['weight_hash']}, revision {meta['model'].get('revision') or 'none'}; "
        f"audit {run.id}, {meta['created']}, judge {_plain(meta['judge']['name'])} {meta['judge'].get('hash') or ''}.",
    ]
    return "\n".join(lines) + "\n"


LIMITS = (
    "Only the harms, subgroups, prompts and text named here were assessed; others were not.",
    "A smaller difference between subgroups is not proof of no harm, and can mean that all fare equally badly.",
    "An interval that includes zero shows no change, but does not show that there is none.",
)


def _plain(text: str) -> str:
    """Names from outside, safe inside markdown."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace("\n", " ")
    return "".join(f"\\{letter}" if letter in "`*[]|" else letter for letter in escaped)
