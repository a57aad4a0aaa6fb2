"""Cuts that config.json can describe: as many heads in every layer, whole key/value groups. They load anywhere.

What a config must be able to say, and what loaders ask of it: `num_attention_heads` and `num_key_value_heads` for all
layers alike, the first a multiple of the second; `head_dim` by its own name, for it no longer is the hidden size over
the heads; the hidden size itself stays, so that the output projection maps heads x width back to it. Some families'
configs (Llama's) also want the hidden size to divide by the heads, though nothing is computed from it: `Shape.left`.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core.errors import Fault, MaskError
from engine.core.types import HeadMask
from engine.surgery.heads.replay import whole

if TYPE_CHECKING:
    from engine.models.load_language_model import LanguageModel


@dataclass(frozen=True)
class Shape:
    """How heads lie: so many layers, heads in each, and query heads that share a key/value head.

    left: numbers of key/value groups per layer that a config may say; None where any is taken.
    """

    n_layers: int
    n_heads: int
    group: int = 1
    left: tuple[int, ...] | None = None

    @property
    def groups(self) -> int:
        """Key/value groups of a layer."""
        return self.n_heads // self.group

    def may_take(self, most: int) -> int:
        """The most groups, up to `most`, that every layer can lose; 0 where none can."""
        fits = range(1, self.groups) if self.left is None else self.left
        return max((self.groups - left for left in fits if 0 < self.groups - left <= most), default=0)


def shape_of(config: Any) -> Shape:
    """Of the config of a language model."""
    heads = int(config.num_attention_heads)
    shared = int(getattr(config, "num_key_value_heads", None) or heads)
    group = max(1, heads // shared)
    fits = tuple(left for left in range(1, shared) if _is_accepted(config, left * group, left))
    return Shape(int(config.num_hidden_layers), heads, group, fits)


def _is_accepted(config: Any, heads: int, shared: int) -> bool:
    """Whether the family's config may say so many heads: some want the hidden size to divide by them all the same."""
    said = {"num_attention_heads": heads, "num_key_value_heads": shared, "head_dim": getattr(config, "head_dim", 1)}
    try:
        type(config).from_dict({**config.to_dict(), **said})
    except Exception:  # each family has its own way to refuse
        return False
    return True


def even_faults(config: Any) -> list[Fault]:
    """Why a model's config could not say how many heads are left."""
    missing = [name for name in ("head_dim", "num_key_value_heads") if not hasattr(config, name)]
    if not missing:
        return []
    what = f"the config.json of {config.model_type!r} has no {' and no '.join(missing)}: fewer heads of the same width "
    fix = "Leave it out: the cut model then loads here, and with zeros anywhere."
    return [Fault("deployable", f"{what}cannot be said in it.", fix)]


def is_even(mask: HeadMask, shape: Shape) -> bool:
    """Whether every layer keeps as many heads, at least one group, and only whole groups are cut."""
    counts = {len(mask.cut_in(layer)) for layer in range(mask.n_layers)}
    if len(counts) != 1 or not 0 < min(counts) < mask.n_heads:
        return False
    if shape.left is not None and (mask.n_heads - min(counts)) // shape.group not in shape.left:
        return False
    whole_groups = {(layer, head // shape.group) for layer, head in mask.cut}
    return len(whole_groups) * shape.group == len(mask.cut)


def save_even(small: LanguageModel, shape: Shape, folder: str | Path) -> Path:
    """Write a cut model with a config.json that describes it. MaskError where its cut is not even."""
    mask = small.cut
    if mask is None or not is_even(mask, shape) or not shape.may_take(len(mask.cut_in(0)) // shape.group):
        raise MaskError("only a cut of as many whole groups of heads in every layer can be described by config.json.")
    config = copy.deepcopy(small.model.config)
    gone = len(mask.cut_in(0))
    config.head_dim = small.adapter.head_dim(small.model)
    config.num_attention_heads = shape.n_heads - gone
    config.num_key_value_heads = (shape.n_heads - gone) // shape.group

    def fill(draft: Path) -> None:
        own, small.model.config = small.model.config, config
        try:
            small.model.save_pretrained(draft)
        finally:
            small.model.config = own
        small.tokenizer.save_pretrained(draft)

    return whole(Path(folder), fill)
