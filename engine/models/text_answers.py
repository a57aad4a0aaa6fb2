"""What a text classifier answers to many texts: probabilities, in batches of similar length."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from engine.models import runtime
from engine.models.load_text_classifier import TextClassifier


def probabilities_of(
    classifier: TextClassifier,
    texts: Sequence[str],
    second: Sequence[str] | None,
    batch: int = 64,
    check: Callable[[], None] = lambda: None,
    inside: Callable[[float], None] = lambda share: None,
) -> np.ndarray:
    """softmax of the logits of every text, in order, [texts, classes] float32.

    second: second texts of pairs, or None. Texts of similar length go together, for padding is work; batches shrink
    when memory is short.
    """
    lengths = [len(one) + len(other) for one, other in zip(texts, second or texts, strict=True)]
    order = np.argsort(lengths, kind="stable")

    @torch.no_grad()
    def run(size: int) -> np.ndarray:
        found = np.zeros((len(texts), len(classifier.classes)), dtype=np.float32)
        for start in range(0, len(order), size):
            check()
            rows = order[start : start + size]
            inputs = classifier.encode([texts[row] for row in rows], second and [second[row] for row in rows])
            found[rows] = torch.softmax(classifier.logits(inputs), dim=-1).cpu().numpy()
            inside(min(1.0, (start + size) / len(order)))
        return found

    return runtime.with_backoff(run, batch)
