"""Mean ablation: what each head hands over on average, and a model whose silenced heads do just
that."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from engine.core.errors import Fault, MaskError, PruneAuditError, RequestError
from engine.core.types import Hooks
from engine.models.load_language_model import LanguageModel
from engine.surgery.heads.mask import is_masked
from engine.surgery.heads.record import MaskRecord


@torch.no_grad()
def head_means(
    lm: LanguageModel,
    windows: list[tuple[list[int], int]],
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
) -> np.ndarray:
    """Mean output of every head over text, [layers, heads * head_dim] float32, summed in float64.

    windows: token ids, and how many positions at their end count (so that overlapping windows count
    each token once).
    """
    total = torch.zeros(
        lm.n_layers,
        lm.n_heads * lm.adapter.head_dim,
        dtype=torch.float64,
        device=lm.device,
    )
    wanted = [0]

    def add(layer: int) -> Any:
        def hook(module: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> None:
            total[layer] += args[0][0, -wanted[0] :].double().sum(0)

        return hook

    with ExitStack() as stack:
        for layer in range(lm.n_layers):
            projection = lm.adapter.output_projection(lm.model, layer)
            stack.callback(projection.register_forward_pre_hook(add(layer)).remove)
        for ids, last in windows:
            hooks.check()
            wanted[0] = last
            lm.model(input_ids=torch.tensor([ids], device=lm.device), use_cache=False)
    means = (total / sum(last for _, last in windows)).float().cpu().numpy()
    if not np.isfinite(means).all():
        raise PruneAuditError(
            f"{lm.name} in {lm.dtype} gives no finite head outputs. Try --dtype float32."
        )
    return means


def centred(lm: LanguageModel, means: np.ndarray) -> LanguageModel:
    """`lm`, changed in place: it computes what it did, but a silenced head hands over its mean
    instead of zero.

    means: [layers, heads * head_dim] as from `head_means`. MaskError for another shape, a model
    that is cut or masked, or one centred already.
    """
    shape = (lm.n_layers, lm.n_heads * lm.adapter.head_dim)
    if lm.cut is not None or lm.means is not None or is_masked(lm):
        raise MaskError(f"{lm.name} is cut, masked or centred already; centre the whole model.")
    if means.shape != shape:
        raise MaskError(f"means of shape {means.shape} do not fit {lm.name}: {shape}.")
    means = np.ascontiguousarray(means, dtype=np.float32)
    lm.adapter.centre(lm.model, torch.from_numpy(means))
    return replace(lm, means=means)


def means_table(means: np.ndarray, n_heads: int) -> pd.DataFrame:
    """means [layers, heads * head_dim] as a table: unit, and a column ("0", "1", …) per number of a
    head's output."""
    rows = means.reshape(len(means) * n_heads, -1)
    table = pd.DataFrame(rows, columns=[str(place) for place in range(rows.shape[1])])
    table.insert(0, "unit", np.arange(len(rows)))
    return table


def means_of(table: pd.DataFrame, n_layers: int) -> np.ndarray:
    """The inverse of `means_table`: [layers, heads * head_dim] float32."""
    return (
        table.sort_values("unit")
        .drop(columns="unit")
        .to_numpy(dtype=np.float32)
        .reshape(n_layers, -1)
    )


def for_record(lm: LanguageModel, record: MaskRecord) -> LanguageModel:
    """`lm` as the mask file wants its heads silenced. RequestError for means of another width."""
    if not record.means:
        return lm
    width = lm.adapter.head_dim
    if len(record.means[0]) != width:
        what = f"hold {len(record.means[0])} numbers per head; those of {lm.name} are {width} wide."
        raise RequestError(
            Fault("mask means", what, "Give a mask.json as exported, with its own model.")
        )
    means = np.zeros((lm.n_layers, lm.n_heads, width), dtype=np.float32)
    for (layer, head), row in zip(record.units, record.means, strict=True):
        means[layer, head] = row
    return centred(lm, means.reshape(lm.n_layers, -1))
