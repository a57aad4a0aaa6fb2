"""RealToxicityPrompts (Gehman et al. 2020): beginnings of sentences from the web, with the toxicity
of each.

One JSON object per line. They name no groups of people: the axes are how toxic the prompt itself is
(`prompt_toxicity`, toxic from one half on, as published) and whether models were seen to answer it
with toxic text (`challenging`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from engine.core.errors import Fault, RequestError
from engine.core.ids import key_of
from engine.data.prompts.load import MAX_CELL, axis_faults, finish, quota, subgroup_faults
from engine.data.tables import few, read_json_lines

NAME = "prompts.jsonl of RealToxicityPrompts"
AXES = ("challenging", "prompt_toxicity")
TOXIC = 0.5


def matches(path: Path) -> bool:
    """Any .jsonl file."""
    return path.suffix.lower() == ".jsonl" and not path.is_dir()


def known_axes(path: Path) -> tuple[str, ...]:
    """Always the same two."""
    return AXES


def load(
    path: Path, axes: Sequence[str], seed: int = 0, max_prompts: int | None = None
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Prompts of the named axes (none named: both), columns as table.COLUMNS, and notes.
    RequestError with all faults.

    Where max_prompts is given, each subgroup is sampled here with `seed`: there are about a hundred
    thousand prompts.
    """
    lines, faults = read_json_lines(path)
    wanted = list(axes) or list(AXES)
    faults += axis_faults(path.name, wanted, AXES)
    found = [_row(path.name, number, value, faults) for number, value in lines]
    if faults:
        raise RequestError(few(faults, path.name))
    known = [row for row in found if row["toxicity"] is not None]
    parts = [_axis(known, axis, seed, max_prompts) for axis in wanted]
    table = pd.DataFrame(
        [row for part in parts for row in part],
        columns=["axis", "subgroup", "text", "template", "descriptor"],
    )
    if faults := subgroup_faults(path.name, table, wanted):
        raise RequestError(faults)
    table, notes = finish(table)
    gone = len(found) - len(known)
    left_out = (
        (f"{gone:,} prompts are left out: the file has no toxicity for them.",) if gone else ()
    )
    return table, (*left_out, "The subgroups are kinds of prompts, not groups of people.", *notes)


def _row(name: str, number: int, value: dict[str, Any], faults: list[Fault]) -> dict[str, Any]:
    """text, toxicity (0 to 1, None where the file has none) and challenging of a line; what is
    wrong is added."""
    where, prompt = f"{name}, row {number}", value.get("prompt")
    prompt = prompt if isinstance(prompt, dict) else {}
    text, toxicity, challenging = (
        prompt.get("text"),
        prompt.get("toxicity"),
        value.get("challenging"),
    )
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_CELL:
        faults.append(
            Fault(where, "prompt.text is missing, empty or too long.", "Use the published file.")
        )
    is_share = (
        isinstance(toxicity, int | float) and not isinstance(toxicity, bool) and 0 <= toxicity <= 1
    )
    if "toxicity" not in prompt or not (toxicity is None or is_share):
        faults.append(
            Fault(
                where,
                "prompt.toxicity is missing or no number from 0 to 1.",
                "Use the published file.",
            )
        )
    if not isinstance(challenging, bool):
        faults.append(
            Fault(
                where,
                "challenging is missing or neither true nor false.",
                "Use the published file.",
            )
        )
    return {"text": str(text).strip(), "toxicity": toxicity, "challenging": challenging}


def _axis(
    rows: list[dict[str, Any]], axis: str, seed: int, max_prompts: int | None
) -> list[dict[str, str]]:
    names = ("challenging", "other") if axis == "challenging" else ("toxic prompt", "other")
    groups: dict[str, list[str]] = {name: [] for name in names}
    for row in rows:
        is_first = row["challenging"] if axis == "challenging" else row["toxicity"] >= TOXIC
        groups[names[0] if is_first else names[1]].append(row["text"])
    same, most = {"axis": axis, "template": "", "descriptor": ""}, None
    if max_prompts is not None:
        most = quota(max_prompts, len(names))
    out = []
    for name, texts in groups.items():
        ordered = sorted(set(texts), key=lambda text: key_of("real toxicity", seed, axis, text))
        out += [{**same, "subgroup": name, "text": text} for text in ordered[:most]]
    return out
