"""Further prompts of the source that nobody asked for: validation prompts that an audit may draw on
when it pays."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from engine.core.seeds import key_of
from engine.core.types import PromptSet, digest_of
from engine.data.prompts.load import MIN_FRAMES

SPARE = "spare"


def with_spares(asked: PromptSet, source: PromptSet, seed: int = 0) -> PromptSet:
    """`asked` (with its splits) and, as splits "spare 1", "spare 2", …, what `source` holds beyond
    it.

    A round has no more prompts of a subgroup than validation has, and equally many of each
    subgroup. Where an axis has MIN_FRAMES templates or more, templates of test prompts are left
    out, as they are of validation. Of a source that has its own split, spares are validation
    prompts.
    """
    left = source.table[~source.table["prompt_id"].isin(asked.table["prompt_id"])]
    if source.own_split:
        left = left[left["split"] == "validation"]
    parts = [
        _rounds(rows, asked.table[asked.table["axis"] == axis], seed)
        for axis, rows in left.groupby("axis")
    ]
    spare = pd.concat([left.iloc[:0].assign(split=""), *parts])
    if spare.empty:
        return asked
    table = pd.concat([asked.table, spare], ignore_index=True)
    digest = digest_of([asked.digest, sorted(spare["prompt_id"] + spare["split"])])
    return replace(asked, table=table, digest=digest)


def _rounds(left: pd.DataFrame, asked: pd.DataFrame, seed: int) -> pd.DataFrame:
    """The prompts `left` of one axis with their split, as many as all subgroups have."""
    test = asked[asked["split"] == "test"]
    if asked["template"].nunique() >= MIN_FRAMES:
        left = left[~left["template"].isin(test["template"])]
    wanted = asked[asked["split"] == "validation"].groupby("subgroup").size()
    each = int(left.groupby("subgroup").size().reindex(wanted.index, fill_value=0).min())
    ordered = left.assign(
        _order=left["prompt_id"].map(lambda name: key_of("spare", seed, name))
    ).sort_values("_order")
    place = ordered.groupby("subgroup").cumcount()
    rounds = (place // int(wanted.min()) + 1).map(lambda number: f"{SPARE} {number}")
    return ordered.assign(split=rounds)[(place < each).to_numpy()].drop(columns="_order")
