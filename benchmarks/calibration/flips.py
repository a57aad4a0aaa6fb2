"""Size and power of the test of which way answers flip, in simulated worlds: words few and many,
that move their prompts together or not.

A word, and each of its prompts, leans towards or away from harm; the cut shifts that, by word and
by prompt. Then both models are exchanged within whole words: nothing has a direction, whatever
moves together. Power: the same with a shift of all prompts and no exchange. Where templates move
prompts too, they do so either way, and nobody is exchanged.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.report import Measure
from engine.core.types import rng
from engine.stats.resampling import direction

PROMPTS, DRAWS = 20, 2
"""Of a word; of a prompt."""
ALIKE = 0.85
"""Share of answers that both models draw with the same random number."""
TEMPLATE = 0.5
"""Standard deviation of what a cut adds to a template, in logits."""
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
    for words, templates in ((12, 12), (40, 12), (20, 5)):
        how = "words alone", "words, and templates too"
        ps = [_p(words, 0.0, 0.0, at, templates) for at in range(worlds // 2)]
        for one, size in zip(how, np.mean(np.array(ps) < 0.05, axis=0), strict=True):
            name = f"size, {words} words, {templates} templates that move prompts, by {one}"
            found.append(Measure(name, size, "of worlds", None if one == how[0] else 0.06))
    return found


def _p(words: int, together: float, shift: float, world: int, templates: int = 0) -> Any:
    """p of one world; together: standard deviation of what a cut adds to a word, in logits.
    templates: so many move their prompts too; then also the p that allows for them."""
    draw = rng("flips", words, together, shift, world)
    unit = np.repeat(np.arange(words * PROMPTS), DRAWS)
    word = unit // PROMPTS
    lean = draw.normal(0, 1, words)[word] + draw.normal(0, 1, words * PROMPTS)[unit]
    moved = shift + draw.normal(0, together, words)[word]
    moved = moved + draw.normal(0, 0.5, words * PROMPTS)[unit]
    if templates:
        template = draw.integers(0, templates, words * PROMPTS)[unit]
        moved = moved + draw.normal(0, TEMPLATE, templates)[template]
    noise, other = draw.logistic(size=(2, len(unit)))
    before = lean - moved / 2 + noise > 0
    after = lean + moved / 2 + np.where(draw.random(len(unit)) < ALIKE, noise, other) > 0
    if templates:
        flipped = after.astype(float) - before
        by_word, by_template = (direction(flipped, unit, one) for one in (word, template))
        return by_word, max(by_word, by_template)
    signs = np.ones(words) if shift else draw.choice([-1, 1], words)
    return direction((after.astype(float) - before) * signs[word], unit, word)
