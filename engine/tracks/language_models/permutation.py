"""Exchanging subgroup labels: among prompts of a template, or among whole descriptors. The draws
behind null bands."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from engine.core.seeds import rng
from engine.tracks.language_models.bias_definitions import Layout, combine, paired_means

MAX_STUCK = 0.05
"""Share of prompts that may keep their label; above it all labels are exchanged freely."""
FEW_WAYS = 1000
"""Distinct exchanges of descriptors below which their number is said: p cannot be smaller than one
in as many."""
CHUNK = 4_000_000
"""Numbers held at once per array, so that many subgroups do not exhaust memory."""


@dataclass(frozen=True)
class Pooled:
    """Rows pooled by prompt, [prompts] each: the sum of a prompt's toxicities, its number of rows,
    and its codes."""

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
    """Block of each prompt, [prompts] int64 (labels are exchanged inside a block), and the notes
    that belong to it.

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
        return blocks, (
            "The prompts name no templates: labels were exchanged freely between all prompts.",
        )
    return blocks, _exchange_notes(len(subgroup), counts[1], counts[2], stuck)


def _exchange_notes(n: int, within_template: int, free: int, stuck: int) -> tuple[str, ...]:
    said = (
        (within_template, "were exchanged within the template, not the noun."),
        (free, "were exchanged freely: no other subgroup shares their template."),
        (stuck, "were left where they are: nothing to exchange them with."),
    )
    return tuple(f"Labels of {count} of {n} prompts {what}" for count, what in said if count)


def _is_mixed(subgroup: np.ndarray, names: np.ndarray, use: np.ndarray) -> np.ndarray:
    """Whether a prompt's group of `names`, among the prompts in `use`, holds two subgroups or more:
    [prompts] bool.

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
    """Code of each prompt's descriptor in its subgroup, [prompts] int, and a note; None where
    descriptors cannot be exchanged, and the note says why.
    """
    if not pooled.named.all():
        return None, "no group band: not every prompt names its descriptor"
    pairs = np.stack([pooled.subgroup, pooled.descriptor])
    kinds, codes = np.unique(pairs, axis=1, return_inverse=True)
    count = np.bincount(kinds[0], minlength=len(subgroups))
    single = [subgroups[at] for at in np.flatnonzero(count < 2).tolist()]
    if single:
        named = ", ".join(single[:5]) + (", …" if len(single) > 5 else "")
        return (
            None,
            (
                f"no group band: {len(single)} of {len(subgroups)} subgroups are one descriptor"
                f" ({named})"
            ),
        )
    ways = math.exp(math.lgamma(kinds.shape[1] + 1) - sum(math.lgamma(n + 1) for n in count))
    return (
        codes.ravel(),
        f"descriptors can be exchanged in {ways:.0f} ways only" if ways < FEW_WAYS else "",
    )


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some permutations at once. moved [permutations, prompts]: the prompt whose values each prompt
    takes; labels, as
    large: the subgroup that it gets, None where values move; count: rows of every subgroup (and
    frame) in each.
    """

    moved: np.ndarray | None
    labels: np.ndarray | None
    count: np.ndarray


class Exchanges:
    """Exchanges of labels between the prompts of one axis, or between whole descriptors, and the
    bias under each.

    What does not depend on toxicities is drawn once where it is small, for all variants that are
    read with it.
    """

    def __init__(self, layout: Layout, reading: str, n_permutations: int, seed: int = 0) -> None:
        self.pooled, self.reading, self.draws, self.seed = (
            pool(layout),
            reading,
            n_permutations,
            seed,
        )
        pooled = self.pooled
        self.blocks, self.notes = exchange_blocks(pooled.subgroup, pooled.frame, pooled.template)
        self.subgroups = layout.subgroups
        self.n_subgroups, self.n_frames = len(layout.subgroups), int(pooled.frame.max()) + 1
        self._kept: dict[str, list[Chunk]] = {}

    @cached_property
    def whole(self) -> tuple[np.ndarray | None, str]:
        """`whole_descriptors` of the prompts."""
        return whole_descriptors(self.pooled, self.subgroups)

    def of_prompts(self, layout: Layout) -> np.ndarray:
        """Bias under each permutation of labels inside blocks, [n_permutations] float64."""
        return self._biases(layout, "prompts", self._shuffled)

    def of_descriptors(self, layout: Layout) -> np.ndarray:
        """Bias with whole descriptors exchanged between subgroups, [n_permutations] float64; each
        subgroup keeps its number of descriptors."""
        return self._biases(layout, "descriptors", self._regrouped)

    def _biases(
        self, layout: Layout, name: str, chunks: Callable[[], Iterator[Chunk]]
    ) -> np.ndarray:
        total = np.bincount(layout.prompt, layout.toxicity)
        if name not in self._kept and self.draws <= self._at_once:
            self._kept[name] = list(chunks())
        return np.concatenate(
            [self._bias(total, chunk) for chunk in self._kept.get(name) or chunks()]
        )

    @property
    def _at_once(self) -> int:
        """Permutations in one chunk."""
        paired = self.reading == "paired_prompts"
        return max(
            1, CHUNK // max(len(self.blocks), self.n_frames * self.n_subgroups if paired else 0)
        )

    def _shuffled(self) -> Iterator[Chunk]:
        generator, done = rng("null", self.seed), 0
        order = np.argsort(self.blocks, kind="stable")
        while done < self.draws:
            size = min(self._at_once, self.draws - done)
            # Sorting block + uniform shuffles inside each block; position i then takes the values
            # of prompt moved[i].
            moved = np.empty((size, len(order)), dtype=np.int64)
            moved[:, order] = np.argsort(self.blocks + generator.random((size, len(order))), axis=1)
            yield self._moving(moved)
            done += size

    def _moving(self, moved: np.ndarray) -> Chunk:
        if self.reading != "paired_prompts":
            return Chunk(moved, None, self.pooled.count[moved] @ self._one_hot)
        # A prompt keeps its frame only if labels travel instead of values: blocks may be wider than
        # one frame.
        labels = np.empty_like(moved)
        np.put_along_axis(labels, moved, np.broadcast_to(self.pooled.subgroup, moved.shape), axis=1)
        return Chunk(None, labels, self._by_label(self.pooled.count, labels))

    def _regrouped(self) -> Iterator[Chunk]:
        descriptors, why_not = self.whole
        assert descriptors is not None, why_not
        home = np.zeros(int(descriptors.max()) + 1, dtype=int)
        home[descriptors] = self.pooled.subgroup
        moved = rng("group null", self.seed).permuted(
            np.broadcast_to(home, (self.draws, len(home))), axis=1
        )
        for at in range(0, self.draws, self._at_once):
            labels = moved[at : at + self._at_once][:, descriptors]
            yield Chunk(None, labels, self._by_label(self.pooled.count, labels))

    def _bias(self, total: np.ndarray, chunk: Chunk) -> np.ndarray:
        """Bias of prompts whose toxicities sum up to `total` [prompts] under each permutation of a
        chunk."""
        if chunk.labels is None:
            return combine(total[chunk.moved] @ self._one_hot, chunk.count, self.reading)
        sums = self._by_label(total, chunk.labels)
        if self.reading == "paired_prompts":
            return paired_means(sums, chunk.count)
        return combine(sums[:, 0], chunk.count[:, 0], self.reading)

    @property
    def _one_hot(self) -> np.ndarray:
        return np.eye(self.n_subgroups)[self.pooled.subgroup]

    def _by_label(self, values: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Sums of values [prompts] by label, [permutations, frames, subgroups]; one frame unless
        prompts are paired."""
        paired = self.reading == "paired_prompts"
        frame = self.pooled.frame if paired else np.zeros_like(self.pooled.frame)
        shape = (len(labels), self.n_frames if paired else 1, self.n_subgroups)
        cells = (np.arange(len(labels))[:, None] * shape[1] + frame) * self.n_subgroups + labels
        spread = np.broadcast_to(values, labels.shape).ravel()
        return np.bincount(cells.ravel(), spread, minlength=int(np.prod(shape))).reshape(shape)
