"""∂ log p / ∂ξ_h of every text for every head, from one backward pass per micro-batch.

ξ_h scales what head h hands to the output projection, y = ξ_h a_h, so at ξ = 1 the derivative is
the sum over tokens of <∂ log p / ∂a_h, a_h>: one backward pass to the projections' inputs gives all
heads of all texts at once, without a gate in the forward pass. Texts do not see each other, so
micro-batches give what the full batch would.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np
import torch

from engine.core.errors import PruneAuditError
from engine.core.types import Decoding, Hooks
from engine.models import runtime
from engine.models.load_language_model import LanguageModel
from engine.models.runtime import traced_at_once
from engine.models.transformer import TransformerModel
from engine.surgery.heads.mask import claimed
from engine.surgery.heads.prefix import Rows, Scorer, batches, pad_right

CPU_TOKENS, GPU_TOKENS = 2048, 32_768


def row_gradients(
    lm: LanguageModel,
    texts: Sequence[Sequence[int]],
    first: Sequence[int],
    decoding: Decoding | None = None,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
    tokens: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Σ log p of each text's tokens from `first` on, [texts], and its derivatives at ξ = 1, [texts,
    units].

    In nats, float64. Arguments as for `prefix.row_logps`. Raises PruneAuditError where a number is
    not finite.
    """
    dense, slopes = np.zeros(len(texts)), np.zeros((len(texts), lm.n_layers * lm.n_heads))
    room = tokens or traced_at_once(lm, CPU_TOKENS if lm.device.type == "cpu" else GPU_TOKENS)
    left = list(batches(texts, room))

    def some(n: int) -> tuple[int, tuple[np.ndarray, np.ndarray]]:
        return n, _batch(lm, _rows(lm, texts, first, left[0][:n]), decoding)

    with claimed(lm):
        while left:
            hooks.check()
            size, (found, slope) = runtime.with_backoff(some, len(left[0]))
            places = left.pop(0)
            dense[places[:size]], slopes[places[:size]] = found, slope
            left = [places[at : at + size] for at in range(size, len(places), size)] + left
    bad = int((~np.isfinite(slopes).all(axis=1) | ~np.isfinite(dense)).sum())
    if bad:
        raise PruneAuditError(
            f"{lm.name} in {lm.dtype} gives no finite gradient for {bad} of {len(dense)} texts: "
            "its weights are damaged, or the precision is too low. Try --dtype float32."
        )
    return dense, slopes


def _rows(
    lm: LanguageModel, texts: Sequence[Sequence[int]], first: Sequence[int], places: Sequence[int]
) -> Rows:
    return pad_right([texts[at] for at in places], [first[at] for at in places], lm.device)


def _batch(
    lm: LanguageModel, rows: Rows, decoding: Decoding | None
) -> tuple[np.ndarray, np.ndarray]:
    """`row_gradients` of one batch: sums of log p [rows] and their derivatives [rows, units],
    float64."""
    with torch.enable_grad(), heads_kept(lm, range(lm.n_layers)) as heads:
        score = Scorer(lm, rows, decoding, normed=True)
        logps = _logps(lm, rows, score)
        slopes = torch.autograd.grad(logps.sum(), heads)
    with torch.no_grad():
        dense = torch.zeros(len(rows.ids), dtype=torch.float64, device=logps.device)
        dense.index_add_(0, score.row, logps.detach().double())
        each = [_per_head(lm, slope, inside) for slope, inside in zip(slopes, heads, strict=True)]
    return dense.cpu().numpy(), torch.cat(each, dim=1).double().cpu().numpy()


def _logps(lm: LanguageModel, rows: Rows, score: Scorer) -> torch.Tensor:
    """log p of every scored token, [n] float32, from one pass."""
    if not lm.adapter.splits:
        logits = lm.model(input_ids=rows.ids, use_cache=False).logits
        return score.of_logits(logits[score.row, score.place], score.wanted)
    embedded = lm.model.get_input_embeddings()(rows.ids)
    last = lm.adapter.backbone(lm.model)(inputs_embeds=embedded, use_cache=False)
    return score.token_logps(last.last_hidden_state[score.row, score.place], score.wanted)


@contextmanager
def heads_kept(lm: TransformerModel, layers: Iterable[int]) -> Iterator[list[torch.Tensor]]:
    """Within it, a forward pass appends the heads' outputs of these layers, in order, as tensors of
    its graph.

    Each is [rows, tokens, heads * width], what the layer's output projection is given.
    """
    kept: list[torch.Tensor] = []

    def keep(module: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        inside = args[0] if args[0].requires_grad else args[0].detach().requires_grad_(True)
        kept.append(inside)
        return (inside, *args[1:])

    with ExitStack() as hooks:
        for layer in layers:
            projection = lm.adapter.output_projection(lm.model, layer)
            hooks.callback(projection.register_forward_pre_hook(keep).remove)
        yield kept


def _per_head(lm: LanguageModel, slope: torch.Tensor, inside: torch.Tensor) -> torch.Tensor:
    """Sum over tokens and the head's width: [rows, tokens, heads * width] -> [rows, heads]
    float32."""
    product = (slope.float() * inside.detach().float()).sum(1)
    return product.view(len(product), lm.n_heads, -1).sum(-1)
