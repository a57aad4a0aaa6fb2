"""Cuts that config.json can describe: as many heads in every layer, whole key/value groups. They
load anywhere.

What a config must be able to say, and what loaders ask of it: `num_attention_heads` and
`num_key_value_heads` for all layers alike, the first a multiple of the second; `head_dim` by its
own name, for it no longer is the hidden size over the heads; the hidden size itself stays, so that
the output projection maps heads x width back to it. Some families' configs (Llama's) also want the
hidden size to divide by the heads, though nothing is computed from it: `Shape.left`.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core.errors import Fault, MaskError, RequestError
from engine.core.types import HeadMask
from engine.surgery.heads.replay import whole

if TYPE_CHECKING:
    from engine.models.load_language_model import LanguageModel


LEAVE_OUT = "Leave it out: the cut model then loads here, and with zeros anywhere."


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
        return max(
            (self.groups - left for left in fits if 0 < self.groups - left <= most), default=0
        )


def shape_of(config: Any) -> Shape:
    """Of the config of a language model."""
    heads = int(config.num_attention_heads)
    shared = int(getattr(config, "num_key_value_heads", None) or heads)
    group = max(1, heads // shared)
    fits = tuple(left for left in range(1, shared) if _is_accepted(config, left * group, left))
    return Shape(int(config.num_hidden_layers), heads, group, fits)


def _is_accepted(config: Any, heads: int, shared: int) -> bool:
    """Whether the family's config may say so many heads: some want the hidden size to divide by
    them all the same."""
    return _saying(config, heads, shared) is not None


def _saying(config: Any, heads: int, shared: int) -> Any:
    """The config with so many heads of the same width, None where the family refuses it."""
    said = {"num_attention_heads": heads, "num_key_value_heads": shared, "head_dim": _width(config)}
    try:
        return type(config).from_dict({**config.to_dict(), **said})
    except Exception:  # each family has its own way to refuse
        return None


def _width(config: Any) -> int:
    """Of a head, where the config says it, else what remains: the hidden size over the heads."""
    return int(
        getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    )


def even_faults(config: Any) -> list[Fault]:
    """Why a model's config could not say how many heads are left. A family that is read by
    structure is tried: some read a `head_dim` that their config does not name (Phi), some do not
    though it is there."""
    missing = [name for name in ("head_dim", "num_key_value_heads") if not hasattr(config, name)]
    grouped = hasattr(config, "num_key_value_heads")
    what = _structural_fault(config) if grouped else "".join(missing)
    if what and missing:
        what = (
            f"the config.json of {config.model_type!r} has no {' and no '.join(missing)}: fewer"
            " heads of the same "
        )
        what += "width cannot be said in it."
    return [Fault("deployable", what, LEAVE_OUT)] if what else []


def _structural_fault(config: Any) -> str:
    """What is wrong with a family that is read by structure: its heads stay in, or it does not
    build what its config says of heads. "" where nothing is."""
    from engine.models.structure.read import layout_of  # loads torch

    layout, shape = layout_of(config, True), shape_of(config)
    if layout.whole:
        return f"the heads of {config.model_type!r} are zeroed, not cut out: {layout.whole}."
    if not shape.left:
        return ""
    left = shape.left[0]
    try:
        built = layout_of(_saying(config, left * shape.group, left), True)
        same = (built.heads, built.groups, built.width) == (left * shape.group, left, layout.width)
    except RequestError:
        same = False
    what = f"{config.model_type!r} gives fewer heads another width, whatever its config.json says."
    return "" if same else what


def is_even(mask: HeadMask, shape: Shape) -> bool:
    """Whether every layer keeps as many heads, at least one group, and only whole groups are
    cut."""
    counts = {len(mask.cut_in(layer)) for layer in range(mask.n_layers)}
    if len(counts) != 1 or not 0 < min(counts) < mask.n_heads:
        return False
    if shape.left is not None and (mask.n_heads - min(counts)) // shape.group not in shape.left:
        return False
    whole_groups = {(layer, head // shape.group) for layer, head in mask.cut}
    return len(whole_groups) * shape.group == len(mask.cut)


def save_even(small: LanguageModel, shape: Shape, folder: str | Path) -> Path:
    """Write a cut model with a config.json that describes it. MaskError where its cut is not
    even."""
    mask = small.cut
    if (
        mask is None
        or not is_even(mask, shape)
        or not shape.may_take(len(mask.cut_in(0)) // shape.group)
    ):
        raise MaskError(
            "only a cut of as many whole groups of heads in every layer can be described by"
            " config.json."
        )
    config = copy.deepcopy(small.model.config)
    gone = len(mask.cut_in(0))
    config.head_dim = small.adapter.head_dim
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
