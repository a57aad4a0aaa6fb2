"""Drafts for the texts of a pruned variant: finished texts of the model that differs from it in the fewest heads.

Which texts a draft comes from changes no text, only how much of it can be read instead of drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.tracks.language_models.context import FEW_TEST, PromptContext, Shard
from engine.tracks.language_models.measurements._texts import drafts_of

Place = tuple[str, str, int]
"""Axis, split and decoding seed."""


@dataclass(frozen=True)
class Near:
    """Finished texts, and in how many heads their model differs."""

    shard: Shard
    apart: int


def nearest(context: PromptContext, place: Place, cuts: Sequence[tuple[int, ...]]) -> Near | None:
    """The nearest finished texts of all prompts of a place; for several cuts the dense model's."""
    cut = cuts[0]
    for other in sorted(_known(context, place), key=lambda one: _apart(cut, one)) if len(cuts) == 1 else [()]:
        for shard in _holding(place, other):
            if context.kept(shard):
                return Near(shard, _apart(cut, other))
    return None


def remember(context: PromptContext, places: Sequence[Place], cuts: Sequence[tuple[int, ...]]) -> None:
    """These texts are drawn."""
    for place in places:
        context.drawn.setdefault(place, []).extend(cuts)


def _known(context: PromptContext, place: Place) -> list[tuple[int, ...]]:
    """Cuts whose texts may be there: the dense model, and those drawn in this process."""
    axis, split, seed = place
    wider = context.drawn.get((axis, "test", seed), []) if split == FEW_TEST else []
    return list(dict.fromkeys([(), *context.drawn.get(place, []), *wider]))


def _holding(place: Place, cut: tuple[int, ...]) -> Iterator[Shard]:
    """Where texts of one cut for this place would be."""
    shard = Shard("texts", cut, *place)
    yield from dict.fromkeys([shard, Shard("texts", cut, place[0], drafts_of(shard).split, place[2])])


def _apart(cut: tuple[int, ...], other: tuple[int, ...]) -> int:
    """How many heads one of them lacks and the other has."""
    return len(set(cut) ^ set(other))
