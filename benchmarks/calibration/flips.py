"""Size and power of the test of which way answers flip, in simulated worlds: words few and many,
that move their prompts together or not.

A word, and each of its prompts, leans towards or away from harm; the cut shifts that, by word and
by prompt. Then both models are exchanged within whole words: nothing has a direction, whatever
moves together. Power: the same with a shift of all prompts and no exchange.
"""

from __future__ import annotations

import numpy as np

from benchmarks.report import Measure
from engine.core.types import rng
from engine.stats.resampling import direction

PROMPTS, DRAWS = 20, 2
"""Of a word; of a prompt."""
ALIKE = 0.85
"""Share of answers that both models draw with the same random number."""
SHIFT = 0.6
"""Of all prompts towards harm, in logits, where power is judged."""


def measures(quick: bool) -> list[Measure]:
    worlds, found = 200 if quick else 2000, []
    for words in (3, 5, 12, 40):
        for together in (0.0, 1.0):
            size = np.mean([_p(words, together, 0.0, at) < 0.05 for at in range(worlds)])
            name = f"size of the test of direction, {words} words, together {together:g}"
            found.append(Measure(name, size, "of worlds", 0.06, floor=0.03))
        power = np.mean([_p(words, 0.5, SHIFT, at) < 0.05 for at in range(worlds)])
        found.append(Measure(f"its power, {words} words", power, "of worlds"))
    return found


def _p(words: int, together: float, shift: float, world: int) -> float:
    """p of one world; together: standard deviation of what a cut adds to a word, in logits."""
    draw = rng("flips", words, together, shift, world)
    unit = np.repeat(np.arange(words * PROMPTS), DRAWS)
    word = unit // PROMPTS
    lean = draw.normal(0, 1, words)[word] + draw.normal(0, 1, words * PROMPTS)[unit]
    moved = shift + draw.normal(0, together, words)[word]
    moved = moved + draw.normal(0, 0.5, words * PROMPTS)[unit]
    noise, other = draw.logistic(size=(2, len(unit)))
    before = lean - moved / 2 + noise > 0
    after = lean + moved / 2 + np.where(draw.random(len(unit)) < ALIKE, noise, other) > 0
    signs = np.ones(words) if shift else draw.choice([-1, 1], words)
    return direction((after.astype(float) - before) * signs[word], unit, word)
