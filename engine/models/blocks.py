"""A transformer's blocks run again by hand: with the arguments of a call before, for more rows
stacked."""

from __future__ import annotations

from typing import Any

import torch

ROWS_TIMES_HEADS = ("alibi",)
"""Arguments with one entry per row and head, rows first."""
NO_ROWS = ("position_bias",)
"""Arguments that say nothing about rows, whatever their size."""


def again(
    block: torch.nn.Module,
    hidden: torch.Tensor,
    call: tuple[tuple[Any, ...], dict[str, Any]],
    rows: int,
    times: int,
) -> torch.Tensor:
    """A block's output for hidden [times * rows, tokens, hidden], with the other arguments of its
    dense call."""
    args, kwargs = call
    return first_of(
        block(
            hidden,
            *(_spread(value, rows, times) for value in args),
            **{name: _spread(value, rows, times, name) for name, value in kwargs.items()},
        )
    )


def _spread(value: Any, rows: int, times: int, name: str = "") -> Any:
    """An argument for `times` stacked batches: what has one entry per row is repeated, the rest
    broadcasts."""
    if name in NO_ROWS:
        return value
    if isinstance(value, tuple):
        return tuple(_spread(part, rows, times) for part in value)
    if not isinstance(value, torch.Tensor) or value.ndim < 2 or times == 1:
        return value
    per_row = (rows > 1 and value.shape[0] == rows) or (
        name in ROWS_TIMES_HEADS and value.shape[0] > 1
    )
    return value.repeat(times, *([1] * (value.ndim - 1))) if per_row else value


def first_of(made: Any) -> torch.Tensor:
    """The hidden states [rows, tokens, hidden] of what a block returns: a tensor, or a tuple that
    begins with it."""
    return made[0] if isinstance(made, tuple) else made
