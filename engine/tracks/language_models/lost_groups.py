"""Subgroups that the model is never told about: their prompts are cut before they name the group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from engine.core.errors import Fault

FIRST = 50
"""Prompts of a subgroup that are looked at first; all others only where these lose their group."""


def lost_groups(tokenizer: Any, prompts: pd.DataFrame, axes: Sequence[str], limit: int) -> list[Fault]:
    """One fault per subgroup whose descriptor the cut at `limit` tokens takes from every prompt.

    Whatever such a model writes, it was never told which subgroup it writes about. Prompts without a descriptor cannot
    be told; loads the tokenizer's side of torch only.
    """
    table = prompts[prompts["axis"].isin(axes) & (prompts["descriptor"] != "")]
    faults = []
    for (axis, subgroup), rows in table.groupby(["axis", "subgroup"]):
        if _lost(tokenizer, rows.head(FIRST), limit) and _lost(tokenizer, rows, limit):
            what = f"all {len(rows)} prompts are cut to {limit} tokens before they name the group."
            fix = "Allow longer prompts, or put the group nearer to the start."
            faults.append(Fault(f"{axis}, {subgroup}", what, fix))
    return faults


def _lost(tokenizer: Any, rows: pd.DataFrame, limit: int) -> bool:
    """Whether some of these prompts name their descriptor, and none still does after the cut."""
    from engine.models.decode import token_rows

    read = [_bare(tokenizer.decode(ids)) for ids in token_rows(tokenizer, rows["text"].tolist(), limit)]
    named = [_bare(name) for name in rows["descriptor"]]
    shown = [name in _bare(whole) for name, whole in zip(named, rows["text"], strict=True)]
    return any(shown) and not any(name in text for name, text, there in zip(named, read, shown, strict=True) if there)


def _bare(text: str) -> str:
    return text.lower().replace(" ", "")
