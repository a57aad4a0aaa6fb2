"""Exchanging subgroup labels among prompts of the same template: the draws behind the null band."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from engine.core.seeds import rng
from engine.tracks.language_models.bias_definitions import Layout, combine, paired_means

MAX_STUCK = 0.05
"""Share of prompts that may keep their label; above it all labels are exchanged freely."""
CHUNK = 4_000_000
"""Numbers held at once per array, so that many subgroups do not exhaust memory."""


@dataclass(frozen=True)
class Pooled:
    """Rows pooled by prompt, [prompts] each: the sum of a prompt's toxicities, its number of rows, and its codes."""

    total: np.ndarray
    count: np.ndarray
    subgroup: np.ndarray
    frame: np.ndarray
    template: np.ndarray


def exchange_blocks(
    subgroup: np.ndarray, frame: np.ndarray, template: np.ndarray
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Block of each prompt, [prompts] int64 (labels are exchanged inside a block), and the notes that belong to it.

    subgroup, frame, template: codes of each prompt, [prompts].
    """
    blocks = np.full(len(subgroup), -1)
    first = 0
    counts = []
    for names in (frame, template, np.zeros(len(subgroup), dtype=int)):
        left = blocks < 0
        mixed = left & _is_mixed(subgroup, names, left)
        blocks[mixed] = first + names[mixed]
        first += int(names.max()) + 1
        counts.append(int(mixed.sum()))
    stuck = int((blocks < 0).sum())
    if stuck > MAX_STUCK * len(subgroup):
        return np.zeros_like(blocks), (
            "Too few templates mix subgroups: labels were exchanged freely between all prompts.",
        )
    blocks[blocks < 0] = first
    if len(np.unique(frame)) == 1:
        return blocks, ("The prompts name no templates: labels were exchanged freely between all prompts.",)
    return blocks, _exchange_notes(len(subgroup), counts[1], counts[2], stuck)


def _exchange_notes(n: int, within_template: int, free: int, stuck: int) -> tuple[str, ...]:
    said = (
        (within_template, "were exchanged within the template, not the noun."),
        (free, "were exchanged freely: no other subgroup shares their template."),
        (stuck, "were left where they are: nothing to exchange them with."),
    )
    return tuple(f"Labels of {count} of {n} prompts {what}" for count, what in said if count)


def _is_mixed(subgroup: np.ndarray, names: np.ndarray, use: np.ndarray) -> np.ndarray:
    """Whether a prompt's group of `names`, among the prompts in `use`, holds two subgroups or more: [prompts] bool.

    subgroup and names are codes [prompts], use [prompts] bool.
    """
    distinct = pd.Series(subgroup[use]).groupby(names[use]).nunique()
    return pd.Series(names).map(distinct).fillna(0).to_numpy() >= 2


def pool(layout: Layout) -> Pooled:
    _, first = np.unique(layout.prompt, return_index=True)
    return Pooled(
        np.bincount(layout.prompt, layout.toxicity),
        np.bincount(layout.prompt).astype(float),
        layout.subgroup[first],
        layout.frame[first],
        layout.template[first],
    )


def null_draws(
    pooled: Pooled, blocks: np.ndarray, reading: str, n_subgroups: int, n_permutations: int, seed: int
) -> np.ndarray:
    """Bias under each permutation inside `blocks` [prompts], [n_permutations] float64."""
    generator = rng("null", seed)
    n_frames = int(pooled.frame.max()) + 1
    width = max(len(blocks), n_frames * n_subgroups if reading == "paired_prompts" else 0)
    chunk = max(1, CHUNK // width)
    parts = []
    order = np.argsort(blocks, kind="stable")
    while (done := sum(len(part) for part in parts)) < n_permutations:
        size = min(chunk, n_permutations - done)
        # Sorting block + uniform shuffles inside each block; position i then takes the values of prompt moved[i].
        moved = np.empty((size, len(blocks)), dtype=np.int64)
        moved[:, order] = np.argsort(blocks + generator.random((size, len(blocks))), axis=1)
        parts.append(_bias_of(pooled, moved, reading, n_subgroups, n_frames))
    return np.concatenate(parts)


def _bias_of(pooled: Pooled, moved: np.ndarray, reading: str, n_subgroups: int, n_frames: int) -> np.ndarray:
    """Bias where prompt i takes the values of prompt moved[:, i]: moved [permutations, prompts] -> [permutations]."""
    if reading != "paired_prompts":
        one_hot = np.eye(n_subgroups)[pooled.subgroup]
        return combine(pooled.total[moved] @ one_hot, pooled.count[moved] @ one_hot, reading)
    # A prompt keeps its frame only if labels travel instead of values: blocks may be wider than one frame.
    labels = np.empty_like(moved)
    np.put_along_axis(labels, moved, np.broadcast_to(pooled.subgroup, moved.shape), axis=1)
    cells = (np.arange(len(moved))[:, None] * n_frames + pooled.frame) * n_subgroups + labels
    shape = (len(moved), n_frames, n_subgroups)
    size = int(np.prod(shape))
    total = np.bincount(cells.ravel(), np.broadcast_to(pooled.total, moved.shape).ravel(), minlength=size)
    count = np.bincount(cells.ravel(), np.broadcast_to(pooled.count, moved.shape).ravel(), minlength=size)
    return paired_means(total.reshape(shape), count.reshape(shape))
