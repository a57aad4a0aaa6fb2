"""What a text classifier answers to many texts: probabilities, in batches of similar length."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from engine.models import runtime
from engine.models.load_text_classifier import TextClassifier

MOST_UNKNOWN = 0.05
"""Share of tokens that a tokenizer does not know without a note: its own model's texts have hardly
any."""


def unknown_words(
    classifier: TextClassifier, texts: Sequence[str], second: Sequence[str] | None
) -> tuple[str, ...]:
    """A note where the tokenizer knows no token for much of the texts, as that of another model
    does not."""
    tokenizer = classifier.tokenizer
    rows = tokenizer([*texts, *(second or ())], add_special_tokens=False, verbose=False)[
        "input_ids"
    ]
    tokens = np.concatenate([np.asarray(row, dtype=np.int64) for row in rows])
    share = float((tokens == tokenizer.unk_token_id).mean()) if len(tokens) else 0.0
    if share <= MOST_UNKNOWN:
        return ()
    what = (
        f"{share:.0%} of the test texts' tokens are {tokenizer.unk_token}, which the model's"
        " tokenizer does not know"
    )
    return (f"{what}: do tokenizer and texts belong to this model?",)


def probabilities_of(
    classifier: TextClassifier,
    texts: Sequence[str],
    second: Sequence[str] | None,
    batch: int = 64,
    check: Callable[[], None] = lambda: None,
    inside: Callable[[float], None] = lambda share: None,
) -> np.ndarray:
    """softmax of the logits of every text, in order, [texts, classes] float32.

    second: second texts of pairs, or None. Texts of similar length go together, for padding is
    work; batches shrink when memory is short.
    """
    lengths = [len(one) + len(other) for one, other in zip(texts, second or texts, strict=True)]
    order = np.argsort(lengths, kind="stable")

    @torch.no_grad()
    def run(size: int) -> np.ndarray:
        found = np.zeros((len(texts), len(classifier.classes)), dtype=np.float32)
        for start in range(0, len(order), size):
            check()
            rows = order[start : start + size]
            inputs = classifier.encode(
                [texts[row] for row in rows], second and [second[row] for row in rows]
            )
            found[rows] = torch.softmax(classifier.logits(inputs), dim=-1).cpu().numpy()
            inside(min(1.0, (start + size) / len(order)))
        return found

    return runtime.with_backoff(run, batch)
