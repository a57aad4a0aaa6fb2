"""Exchanging subgroup labels: among prompts of a template, or among whole descriptors. The draws behind null bands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from engine.core.seeds import rng
from engine.tracks.language_models.bias_definitions import Layout, combine, paired_means

MAX_STUCK = 0.05
"""Share of prompts that may keep their label; above it all labels are exchanged freely."""
FEW_WAYS = 1000
"""Distinct exchanges of descriptors below which their number is said: p cannot be smaller than one in as many."""
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
    descriptor: np.ndarray
    named: np.ndarray
    """Whether the prompt names its descriptor, bool."""


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
        layout.descriptor[first],
        layout.named_descriptor[first],
    )


def whole_descriptors(pooled: Pooled, subgroups: Sequence[str]) -> tuple[np.ndarray | None, str]:
    """Code of each prompt's descriptor in its subgroup, [prompts] int, and a note; None where descriptors cannot be
    exchanged, and the note says why.
    """
    if not pooled.named.all():
        return None, "no group band: not every prompt names its descriptor"
    pairs = np.stack([pooled.subgroup, pooled.descriptor])
    kinds, codes = np.unique(pairs, axis=1, return_inverse=True)
    count = np.bincount(kinds[0], minlength=len(subgroups))
    single = [subgroups[at] for at in np.flatnonzero(count < 2)]
    if single:
        named = ", ".join(single[:5]) + (", …" if len(single) > 5 else "")
        return None, f"no group band: {len(single)} of {len(subgroups)} subgroups are one descriptor ({named})"
    ways = math.exp(math.lgamma(kinds.shape[1] + 1) - sum(math.lgamma(n + 1) for n in count))
    return codes.ravel(), f"descriptors can be exchanged in {ways:.0f} ways only" if ways < FEW_WAYS else ""


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


def group_draws(
    pooled: Pooled, descriptors: np.ndarray, reading: str, n_subgroups: int, n_permutations: int, seed: int
) -> np.ndarray:
    """Bias with whole descriptors exchanged between subgroups, [n_permutations] float64.

    descriptors [prompts]: `whole_descriptors`. Each subgroup keeps its number of descriptors.
    """
    generator = rng("group null", seed)
    home = np.zeros(int(descriptors.max()) + 1, dtype=int)
    home[descriptors] = pooled.subgroup
    moved = generator.permuted(np.broadcast_to(home, (n_permutations, len(home))), axis=1)
    n_frames = int(pooled.frame.max()) + 1
    chunk = max(1, CHUNK // max(len(descriptors), n_frames * n_subgroups))
    parts = [moved[at : at + chunk][:, descriptors] for at in range(0, n_permutations, chunk)]
    return np.concatenate([_bias_of_labels(pooled, labels, reading, n_subgroups, n_frames) for labels in parts])


def _bias_of(pooled: Pooled, moved: np.ndarray, reading: str, n_subgroups: int, n_frames: int) -> np.ndarray:
    """Bias where prompt i takes the values of prompt moved[:, i]: moved [permutations, prompts] -> [permutations]."""
    if reading != "paired_prompts":
        one_hot = np.eye(n_subgroups)[pooled.subgroup]
        return combine(pooled.total[moved] @ one_hot, pooled.count[moved] @ one_hot, reading)
    # A prompt keeps its frame only if labels travel instead of values: blocks may be wider than one frame.
    labels = np.empty_like(moved)
    np.put_along_axis(labels, moved, np.broadcast_to(pooled.subgroup, moved.shape), axis=1)
    return _bias_of_labels(pooled, labels, reading, n_subgroups, n_frames)


def _bias_of_labels(pooled: Pooled, labels: np.ndarray, reading: str, n_subgroups: int, n_frames: int) -> np.ndarray:
    """Bias where prompts carry other labels: labels [permutations, prompts] -> [permutations]."""
    paired = reading == "paired_prompts"
    frame = pooled.frame if paired else np.zeros_like(pooled.frame)
    shape = (len(labels), n_frames if paired else 1, n_subgroups)
    cells = (np.arange(len(labels))[:, None] * shape[1] + frame) * n_subgroups + labels
    total, count = (
        np.bincount(cells.ravel(), np.broadcast_to(values, labels.shape).ravel(), minlength=int(np.prod(shape)))
        for values in (pooled.total, pooled.count)
    )
    total, count = total.reshape(shape), count.reshape(shape)
    return paired_means(total, count) if paired else combine(total[:, 0], count[:, 0], reading)
