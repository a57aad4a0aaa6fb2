"""How much is computed at once within the memory that there is: on a CPU the budget, on a GPU what
its memory has free.

Batches are as large as is quick and never larger than a share of the room that the model leaves.
Where there is enough room their sizes depend on the model only, so that the same request has the
same last digits on every machine.
"""

from __future__ import annotations

from typing import Any

import torch

from engine.core import memory
from engine.core.errors import Fault, RequestError

OVERHEAD = 500 << 20
"""Bytes of Python and its packages, on a CPU."""
AT_ONCE = 4
"""What is computed at once takes one part in so many of the room."""
CPU_NUMBERS, GPU_NUMBERS = 2**22, 2**26
"""Logits of texts that are held at once, some four times over."""


def on_device(device: torch.device) -> int:
    """Bytes that model and work may take together."""
    if device.type == "cuda":
        free, whole = torch.cuda.mem_get_info(device)
        held = torch.cuda.memory_reserved(device)
        return min(free + held, memory.stated() or whole)
    return max(0, memory.budget() - OVERHEAD)


def refuse_too_large(
    name: str, parameters: int, device: torch.device, dtype: torch.dtype, layers: int
) -> None:
    """RequestError for a model that does not fit, naming what it needs."""
    needed, there = parameters * dtype.itemsize, on_device(device)
    if needed <= there:
        return
    where = "the budget of memory leaves" if device.type == "cpu" else f"{device} has"
    what = (
        f"{name} needs {memory.in_words(needed)} for its weights alone, {where}"
        f" {memory.in_words(there)}"
    )
    if needed / max(layers, 1) > there:
        what += f", less than one of its {layers} layers takes ({memory.in_words(needed / layers)})"
    more = memory.in_words(needed + OVERHEAD)
    fix = (
        f"Allow at least {more} (--memory, {memory.STATED})"
        if device.type == "cpu"
        else "Take a larger device"
    )
    raise RequestError(Fault("memory", f"{what}.", f"{fix}, or a smaller model."))


def fitting(lm: Any, most: int, numbers: float) -> int:
    """How many of `most` things, each of so many float32 numbers, fit at once; at least 1. lm: a
    TransformerModel."""
    room = on_device(lm.device) - lm.n_parameters * lm.dtype.itemsize
    return max(1, min(most, int(room / AT_ONCE / (4 * max(numbers, 1.0)))))


def _width(lm: Any) -> int:
    return int(getattr(lm.model.config, "hidden_size", 0) or 1)


def tokens_at_once(lm: Any, most: int) -> int:
    """How many of `most` tokens are read at once: what enters every block and what its heads hand
    on is kept."""
    return fitting(lm, most, _width(lm) * (2 * lm.n_layers + 8))


def texts_at_once(lm: Any, most: int, tokens: int) -> int:
    """How many of `most` texts of so many tokens are drawn at once: keys, values and logits are
    kept."""
    return fitting(lm, most, 2.0 * _width(lm) * lm.n_layers * tokens + 3.0 * lm.vocab_size)


def logits_at_once(lm: Any) -> int:
    """Logits that are held at once, in numbers."""
    return CPU_NUMBERS if lm.device.type == "cpu" else GPU_NUMBERS


def positions_at_once(lm: Any) -> int:
    """Positions of texts whose logits are held at once."""
    return max(1, logits_at_once(lm) // lm.vocab_size)


def rows_at_once(lm: Any, most: int, tokens: int) -> int:
    """How many of `most` texts of so many tokens are scored at once: all their logits are held."""
    numbers = tokens * lm.vocab_size
    return fitting(lm, min(most, max(1, logits_at_once(lm) // numbers)), 3.0 * numbers)


def judged_at_once(model: torch.nn.Module, most: int, tokens: int) -> int:
    """How many of `most` texts of so many tokens a classifier of texts judges at once: what one
    block computes is held, its attention above all."""
    first, config = next(model.parameters()), model.config
    width, heads = (
        int(getattr(config, name, 0) or 1) for name in ("hidden_size", "num_attention_heads")
    )
    parameters = sum(one.numel() for one in model.parameters())
    room = on_device(first.device) - parameters * first.dtype.itemsize
    numbers = max(1.0, tokens * (12.0 * width + 3.0 * heads * tokens))
    return max(1, min(most, int(room / AT_ONCE / (4 * numbers))))


def needed(lm: Any, batch: int, tokens: int) -> int:
    """About the bytes that an audit takes: the model, and the largest of what is computed at once.
    batch, tokens: texts that are drawn at once where there is room, and their length."""
    drawn = texts_at_once(lm, batch, tokens) * (
        2.0 * _width(lm) * lm.n_layers * tokens + 3.0 * lm.vocab_size
    )
    scored = 3.0 * min(logits_at_once(lm), rows_at_once(lm, batch, tokens) * tokens * lm.vocab_size)
    held = OVERHEAD if lm.device.type == "cpu" else 0
    return int(held + lm.n_parameters * lm.dtype.itemsize + 4 * max(drawn, scored))


def traced_at_once(lm: Any, most: int) -> int:
    """How many of `most` tokens are read at once where gradients are wanted: all that is computed
    is held."""
    return fitting(
        lm, min(most, positions_at_once(lm)), 4.0 * lm.vocab_size + 24.0 * _width(lm) * lm.n_layers
    )
