"""Subgroups that the model is never told about: their prompts are cut before they name the group,
its tokenizer has no tokens for the name, or the prompts are those of other subgroups too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from engine.core.errors import Fault
from engine.core.words import axis_name

NAMED = 3
"""Subgroups that a fault names."""
FIRST = 50
"""Prompts of a subgroup that are looked at first; all others only where these lose their group."""
MOST = 2000
"""Prompts of an axis whose length is looked at."""


def lost_groups(
    tokenizer: Any, prompts: pd.DataFrame, axes: Sequence[str], limit: int
) -> list[Fault]:
    """One fault per axis and cause with subgroups whose descriptor no prompt has left: the cut at
    `limit` tokens takes it, or the tokenizer does.

    Whatever such a model writes, it was never told which subgroup it writes about. Prompts without
    a descriptor cannot be told; loads the tokenizer's side of torch only.
    """
    table = prompts[prompts["axis"].isin(axes) & (prompts["descriptor"] != "")]
    lost: dict[tuple[str, bool], dict[str, int]] = {}
    for (axis, subgroup), rows in table.groupby(["axis", "subgroup"]):
        if _lost(tokenizer, rows.head(FIRST), limit) and _lost(tokenizer, rows, limit):
            unread = _lost(tokenizer, rows.head(FIRST), None)
            lost.setdefault((str(axis), unread), {})[str(subgroup)] = len(rows)
    found = [
        _fault(axis, names, None if unread else limit) for (axis, unread), names in lost.items()
    ]
    bare = prompts[prompts["axis"].isin(axes) & (prompts["descriptor"] == "")]
    return found + [
        fault
        for axis, rows in bare.groupby("axis")
        for fault in _alike(tokenizer, str(axis), rows, limit)
    ]


def _alike(tokenizer: Any, axis: str, rows: pd.DataFrame, limit: int) -> list[Fault]:
    """A fault for subgroups all of whose prompts, as the model reads them, are prompts of other
    subgroups too."""
    from engine.models.decode import token_rows

    read = rows.assign(
        read=[tuple(ids) for ids in token_rows(tokenizer, rows["text"].tolist(), limit)]
    )
    shared = read.groupby("read")["subgroup"].transform("nunique") > 1
    if not (
        names := [
            str(name)
            for name, all_of_it in shared.groupby(read["subgroup"]).all().items()
            if all_of_it
        ]
    ):
        return []
    what = (
        f"every prompt of {', '.join(names[:NAMED])} is, up to {limit} tokens, one of another"
        " subgroup too."
    )
    return [Fault(axis, what, "Allow more prompt tokens, or give prompts that name their group.")]


def cut_prompts(
    tokenizer: Any, prompts: pd.DataFrame, axes: Sequence[str], limit: int
) -> tuple[str, ...]:
    """A sentence for every axis with prompts of which the model reads the first `limit` tokens
    only."""
    from engine.models.decode import token_rows

    said = []
    for axis in axes:
        texts = prompts.loc[prompts["axis"] == axis, "text"].head(MOST).tolist()
        if cut := sum(len(ids) > limit for ids in token_rows(tokenizer, texts, None)):
            said.append(
                f"{axis_name(axis)}: {cut:,} of {len(texts):,} prompts are longer than {limit}"
                " tokens: their ends are not read. More prompt tokens keep them."
            )
    return tuple(said)


def _fault(axis: str, names: dict[str, int], limit: int | None) -> Fault:
    """names: how many prompts each subgroup has; limit: None where they are lost without a cut."""
    shown = ", ".join(list(names)[:NAMED]) + (
        f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    )
    every = f"all {sum(names.values())} prompts of {shown}"
    if limit is None:
        what = (
            f"the tokenizer has no tokens for the group in {every}: the model would never read it."
        )
        return Fault(
            axis, what, "Give other words for it, or a tokenizer that belongs to the model."
        )
    what = f"{every} are cut to {limit} tokens before they name the group."
    return Fault(axis, what, "Allow more prompt tokens, or put the group nearer to the start.")


def _lost(tokenizer: Any, rows: pd.DataFrame, limit: int | None) -> bool:
    """Whether some of these prompts name their descriptor, and none still does after the cut."""
    from engine.models.decode import token_rows

    read = [
        _bare(tokenizer.decode(ids)) for ids in token_rows(tokenizer, rows["text"].tolist(), limit)
    ]
    named = [_bare(name) for name in rows["descriptor"]]
    shown = [name in _bare(whole) for name, whole in zip(named, rows["text"], strict=True)]
    return any(shown) and not any(
        name in text for name, text, there in zip(named, read, shown, strict=True) if there
    )


def _bare(text: str) -> str:
    return text.lower().replace(" ", "")
