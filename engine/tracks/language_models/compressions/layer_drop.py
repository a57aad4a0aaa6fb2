"""Whole layers dropped: those whose output points the way of their input (as ShortGPT, Men et al.
2024)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

from engine.core.types import exact_count
from engine.tracks.language_models.compressions import Compression, Text

if TYPE_CHECKING:
    from engine.models.load_language_model import LanguageModel


@final
class LayerDrop(Compression):
    """The int(level·layers) layers with the highest mean cosine of input and output over all tokens
    are taken out; ties go to the lower layer. What is left loads anywhere: config.json describes
    it."""

    name = "layer_drop"
    reads_text = True
    own_levels = True
    saves = "layers"

    def levels(self, model: Any, asked: Sequence[float], bits: float = 32) -> Sequence[float]:
        """One level per number of layers: the share it drops. A level below one layer drops none
        and is left out."""
        counts = sorted({exact_count(level, model.n_layers) for level in asked} - {0})
        return [round(count / model.n_layers, 3) for count in counts]

    def change(self, lm: LanguageModel, level: float, text: Text, seed: int) -> None:
        cosines = cosines_of(lm, text)
        order = sorted(range(len(cosines)), key=lambda layer: (-cosines[layer], layer))
        drop_layers(lm, sorted(order[: round(level * len(cosines))]))


def cosines_of(lm: LanguageModel, text: Text) -> list[float]:
    """Mean cosine of what goes into every layer and what comes out, over all tokens."""
    from contextlib import ExitStack

    import torch

    from engine.tracks.language_models.compressions._linear import blocks_of, read

    blocks = blocks_of(lm)
    sums, counts = [0.0] * len(blocks), [0] * len(blocks)

    def seen(layer: int, args: Any, kwargs: Any, out: Any) -> None:
        before = args[0] if args else kwargs["hidden_states"]
        after = out[0] if isinstance(out, tuple) else out
        found = torch.cosine_similarity(before.float(), after.float(), dim=-1)
        sums[layer] += float(found.sum())
        counts[layer] += found.numel()

    with ExitStack() as hooks:
        for layer, block in enumerate(blocks):
            handle = block.register_forward_hook(
                lambda _, args, kwargs, out, layer=layer: seen(layer, args, kwargs, out),
                with_kwargs=True,
            )
            hooks.callback(handle.remove)
        read(lm, text)
    return [total / count for total, count in zip(sums, counts, strict=True)]


def drop_layers(lm: LanguageModel, gone: Sequence[int]) -> None:
    """Take layers out, in place; the config then says how many there are, and of each what it
    is."""
    blocks, config = lm.adapter.blocks(lm.model), lm.model.config
    count, kept = len(blocks), [layer for layer in range(len(blocks)) if layer not in gone]
    left = [blocks[layer] for layer in kept]
    del blocks[:]
    blocks.extend(left)
    for place, block in enumerate(left):
        for part in block.modules():
            for name in ("layer_idx", "layer_id"):
                if hasattr(part, name):
                    setattr(part, name, place)
    for name, value in list(vars(config).items()):  # what a config says layer by layer
        is_long = isinstance(value, list | tuple) and len(value) == count
        if is_long and not name.endswith(
            "token_id"
        ):  # several tokens that end a text are no layers
            setattr(config, name, [value[layer] for layer in kept])
    if hasattr(config, "attention_types"):  # GPT-Neo: the same once more, as runs of kinds
        config.attention_types = [[[kind], 1] for kind in config.attention_layers]
    config.num_hidden_layers = len(left)
