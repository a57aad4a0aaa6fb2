"""|∂L/∂ξ_h| of the loss on every head's gate, window by window (Michel et al. 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
import torch

from engine.surgery.heads.mask import gated
from engine.tracks.language_models.context import Measurement, PromptContext, Shard
from engine.tracks.language_models.nll import token_nll
from engine.tracks.language_models.perplexity import spans_of


class GateGradients(Measurement):
    """Columns: value (Σ over windows of |∂L/∂ξ_h|, L the mean loss of the window in nats per
    token), in unit order."""

    name = "michel"
    version = 2
    any_threads = True

    def parts(self, context: PromptContext, shard: Shard) -> dict[str, Any]:
        tokens, window = len(context.tokens[shard.split]), asdict(context.settings.window)
        return {
            "corpus": context.corpus.digest,
            "tokens": tokens,
            "split": shard.split,
            "window": window,
        }

    def compute(self, context: PromptContext, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        return [pd.DataFrame({"value": self._sums(context, shard.split)}) for shard in shards]

    def _sums(self, context: PromptContext, split: str) -> np.ndarray:
        """Σ over windows of |∂ loss/∂ξ_h| (nats per token and unit of gate) of every head, [units]
        float64."""
        lm, tokens = context.lm, torch.tensor(context.tokens[split], dtype=torch.int64)
        total = torch.zeros(lm.n_layers, lm.n_heads, dtype=torch.float64)
        for span in spans_of(len(tokens), context.settings.window, lm.n_positions):
            context.hooks.check()
            ids = tokens[span.start : span.end].unsqueeze(0).to(lm.device)
            gates = torch.ones(lm.n_layers, lm.n_heads, device=lm.device, requires_grad=True)
            with torch.enable_grad(), gated(lm, gates):
                nll = token_nll(lm.model(input_ids=ids, use_cache=False).logits, ids)
                loss = nll[:, span.first - span.start - 1 :].mean()
                total += torch.autograd.grad(loss, gates)[0].abs().double().cpu()
        return total.reshape(-1).numpy()

    def size(self, context: PromptContext, shard: Shard) -> float:
        return 3.0 * len(context.tokens[shard.split]) / 100.0
