"""The text that compressions look at: the first windows of the text for validation, which nothing
is reported on."""

from __future__ import annotations

from engine.tracks.language_models.context import PromptContext
from engine.tracks.language_models.perplexity import LONGEST

WINDOWS = 128
"""At most so many, as in the papers."""
SHORTEST = 8


def calibration_of(context: PromptContext) -> list[list[int]]:
    """Windows of token ids, all of one length: the model's, or the whole text where that is
    shorter."""
    tokens = context.tokens["validation"]
    length = min(LONGEST, context.lm.n_positions, len(tokens))
    starts = range(0, len(tokens) - length + 1, length)
    return (
        [tokens[start : start + length] for start in starts][:WINDOWS] if length >= SHORTEST else []
    )
