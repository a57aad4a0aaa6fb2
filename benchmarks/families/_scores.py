"""One bias score of every head of a tiny language model, three ways, each against the exact one.

The score: the difference of two groups of prompts in the mean of a number that each next token has.
With so few tokens it can be computed exactly for every head off (all tokens, their probabilities).
`generate` draws with the head off and has to lie within its own noise; `reweight` reads what the
dense model would write, and has to be exact; `gradient` is of first order: it has to be what a
small change of the gate does, and how near that is to a head that is off is told. Output
projections are made smaller, so that heads matter little, as they do in a trained model.
"""

from __future__ import annotations

import numpy as np
import torch

from benchmarks.report import Measure
from engine.core.types import Decoding, HeadMask
from engine.models.decode import sample
from engine.models.load_language_model import LanguageModel
from engine.surgery.heads.mask import gated, masked
from engine.surgery.heads.prefix import row_gradients, row_logps
from tests.tiny import text

PROMPTS, DRAWS = 8, 64
SMALL = 0.02
"""Factor of the output projections."""
NOISE = 4.5
"""Standard errors that drawn scores may lie off, largest of all heads."""


def scores(name: str, lm: LanguageModel) -> list[Measure]:
    """Changes the model's weights."""
    with torch.no_grad():
        for layer in range(lm.n_layers):
            lm.adapter.output_projection(lm.model, layer).weight.mul_(SMALL)
    world = _World(lm)
    exact, off = world.exact(), world.drawn_off()
    reweighted, sloped = world.quick()
    corr = f"{name}: bias score by {{}} against the exact one, Pearson over {len(exact)} heads"
    return [
        Measure(
            f"{name}: bias score by generate, largest distance from the exact one",
            off,
            "standard errors",
            NOISE,
        ),
        Measure(corr.format("reweight"), _pearson(reweighted, exact), "", 0.999, at_least=True),
        Measure(corr.format("gradient"), _pearson(sloped, exact), ""),
        Measure(
            f"{name}: gradient against gates moved by a hundredth, Pearson",
            _pearson(sloped, world.moved()),
            "",
            0.999,
            at_least=True,
        ),
    ]


def _pearson(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.corrcoef(one, other)[0, 1])


class _World:
    """Prompts of two groups; every token has a number."""

    def __init__(self, lm: LanguageModel) -> None:
        noise = np.random.default_rng(7)
        self.lm, self.size = lm, int(lm.model.config.vocab_size)
        self.texts = [text(*noise.integers(0, 40, size=4)) for _ in range(PROMPTS)]
        self.prompts = [lm.tokenizer(one)["input_ids"] for one in self.texts]
        self.sign = np.where(np.arange(PROMPTS) % 2, 2.0, -2.0) / PROMPTS
        self.value = noise.random(self.size)
        self.masks = [
            HeadMask(lm.n_layers, lm.n_heads, (divmod(unit, lm.n_heads),))
            for unit in range(lm.n_layers * lm.n_heads)
        ]
        self.dense = self._probabilities()

    def exact(self) -> np.ndarray:
        """Change of the score with each head off, [heads]."""
        self.off = []
        for mask in self.masks:
            with masked(self.lm, mask):
                self.off.append(self._probabilities())
        return np.array([self._score(one) for one in self.off]) - self._score(self.dense)

    def drawn_off(self) -> float:
        """How far drawn scores are from exact ones, in standard errors: the largest of all
        heads."""
        texts = [one for one in self.texts for _ in range(DRAWS)]
        names = [f"{prompt}-{draw}" for prompt in range(PROMPTS) for draw in range(DRAWS)]
        decoding, worst = Decoding(max_new_tokens=1, top_k=0, top_p=1.0, temperature=1.0), 0.0
        for mask, wanted in zip(self.masks, self.off, strict=True):
            with masked(self.lm, mask):
                tokens = sample(self.lm, texts, names, [0] * len(texts), decoding)
            means = self.value[np.array(tokens)[:, 0]].reshape(PROMPTS, DRAWS).mean(1)
            spread = wanted @ self.value**2 - (wanted @ self.value) ** 2
            error = np.sqrt((self.sign**2 * spread).sum() / DRAWS)
            worst = max(worst, float(abs(self.sign @ means - self._score(wanted)) / error))
        return worst

    def quick(self) -> tuple[np.ndarray, np.ndarray]:
        """Changes of the score with each head off by reweighting and by gradients, [heads] each:
        every next token of every prompt is a text of the dense model, as often as it is likely."""
        rows = [[*prompt, token] for prompt in self.prompts for token in range(self.size)]
        first = [len(row) - 1 for row in rows]
        dense, off = row_logps(self.lm, rows, first, range(len(self.masks)))
        _, slopes = row_gradients(self.lm, rows, first)
        each = (self.sign[:, None] * self.dense * self.value).ravel()
        return np.exp(off - dense) @ each - each.sum(), -(slopes.T @ each)

    def moved(self) -> np.ndarray:
        """Minus the derivative of the score at each gate, by central differences, [heads]."""
        found = []
        for mask in self.masks:
            ends = []
            for gate in (0.99, 1.01):
                gates = torch.ones(mask.n_layers, mask.n_heads)
                gates[mask.cut[0]] = gate
                with gated(self.lm, gates):
                    ends.append(self._score(self._probabilities()))
            found.append((ends[0] - ends[1]) / 0.02)
        return np.array(found)

    @torch.no_grad()
    def _probabilities(self) -> np.ndarray:
        """Of every next token after every prompt, [prompts, tokens] float64."""
        logits = self.lm.model(input_ids=torch.tensor(self.prompts), use_cache=False).logits[:, -1]
        return logits.double().softmax(-1).numpy()

    def _score(self, probabilities: np.ndarray) -> float:
        return float(self.sign @ (probabilities @ self.value))
