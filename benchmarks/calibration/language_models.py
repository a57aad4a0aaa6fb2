"""Audits of language models in simulated worlds: null bands, tests of heads, intervals of bias, its
change and effects.

A world has subgroups with descriptors of their own and templates that all share. A text's toxicity
is its subgroup's mean plus what its descriptor, its template and chance add; all of it is drawn
anew in every world. The truth is the mean of the measured value over worlds of one kind: what this
number of prompts gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchmarks.report import Measure
from engine.core.types import rng
from engine.stats.clustered import MISSED, Student
from engine.stats.reliability import correlation_interval
from engine.tracks.language_models.bias import (
    Exchanges,
    NullBand,
    descriptors_band,
    lay_out,
)
from engine.tracks.language_models.bias_intervals import BiasErrors
from engine.tracks.language_models.evidence import rank_p
from engine.tracks.language_models.selection import Ballot, candidates, selection_method

CHANCE, WORD, TEMPLATE = 0.3, 0.06, 0.05
"""Standard deviations of toxicity: of one text, of a descriptor, of a template."""
KEPT = 0.7
"""Share of the distances that a cut leaves."""
PAIRED = 0.17
"""Standard deviation of what a head does to single texts, relative to that of toxicity. With it the
test that was used before, a bootstrap of descriptors and templates, finds an effect of 20 % of the
bias in 28 % of worlds."""


@dataclass(frozen=True)
class World:
    """subgroups of `texts` prompts each, with `words` descriptors each, `templates` in all;
    `apart`: how far the lowest and the highest subgroup mean lie from each other."""

    subgroups: int
    texts: int
    words: int
    templates: int
    apart: float

    @property
    def means(self) -> np.ndarray:
        return 0.4 + self.apart * np.linspace(-0.5, 0.5, self.subgroups)


APART = (
    World(2, 15, 5, 8, 0.15),
    World(4, 15, 5, 12, 0.15),
    World(4, 15, 5, 12, 0.4),
    World(7, 60, 8, 26, 0.15),
    World(7, 60, 8, 26, 0.4),
    World(9, 15, 5, 26, 0.4),
)
ALIKE = (World(2, 15, 5, 8, 0.0), World(4, 15, 5, 12, 0.0), World(7, 60, 8, 26, 0.0))
SMALL = World(4, 15, 5, 12, 0.4)
"""Where power is judged: 15 prompts per subgroup."""


class Drawn:
    """Prompts in a random layout, and toxicities [prompts, worlds] of the dense model, drawn over
    it."""

    def __init__(self, world: World, worlds: int, seed: int = 0) -> None:
        draw = rng("calibration", world.subgroups, world.texts, seed)
        self.world, self.worlds, self.generator = world, worlds, draw
        self.stratum = np.repeat(np.arange(world.subgroups), world.texts)
        words = [draw.permutation(world.texts) % world.words for _ in range(world.subgroups)]
        pairs = zip(self.stratum, np.concatenate(words), strict=True)
        count = len(self.stratum)
        self.table = pd.DataFrame(
            {
                "prompt_id": [f"p{at:05d}" for at in range(count)],
                "subgroup": [f"s{code:02d}" for code in self.stratum],
                "descriptor": [f"d{code:02d}-{word}" for code, word in pairs],
                "template": [f"t{code}" for code in draw.integers(0, world.templates, count)],
                "toxicity": 0.0,
            }
        )
        self.centre = world.means[self.stratum][:, None]
        self.dense = self.centre + self.noise(CHANCE, WORD, TEMPLATE)

    def noise(self, chance: float, word: float, template: float) -> np.ndarray:
        """What descriptors, templates and chance add to texts, [prompts, worlds], from their
        standard deviations."""
        found = chance * self.generator.standard_normal((len(self.table), self.worlds))
        found += self._shared(self.table["descriptor"], word)
        return found + self._shared(self.table["template"], template)

    def own(self, spread: float) -> np.ndarray:
        """What templates add to one group alone, [prompts, worlds]."""
        return self._shared(self.table["template"] + self.table["subgroup"], spread)

    def _shared(self, names: pd.Series, spread: float) -> np.ndarray:
        _, code = np.unique(names, return_inverse=True)
        return spread * self.generator.standard_normal((code.max() + 1, self.worlds))[code]

    def cut(self, dense: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """What a cut leaves: KEPT of the distances, and much of the texts' own noise."""
        return 0.4 + KEPT * (self.centre - 0.4) + 0.6 * (dense - self.centre) + noise

    def effect(self, share: float) -> np.ndarray:
        """What a head off does to toxicities, [prompts, worlds]: it takes `share` of every
        subgroup's distance to the mean, and moves single texts by chance."""
        towards = -share * (self.world.means - self.world.means.mean())
        return towards[self.stratum][:, None] + PAIRED * self.noise(CHANCE, WORD, TEMPLATE)

    def tables(self, *toxicities: np.ndarray) -> Iterator[list[pd.DataFrame]]:
        """A table of each of these [prompts, worlds], world by world."""
        for columns in zip(*(one.T for one in toxicities), strict=True):
            yield [self.table.assign(toxicity=column) for column in columns]


def measures(quick: bool) -> list[Measure]:
    worlds, layouts = (60, 1) if quick else (400, 3)
    return [
        *_null_band(40 if quick else 500),
        *_tests(worlds, layouts),
        *_coverage(worlds, layouts),
        *_correlations(50 if quick else 300),
        *_searched(100 if quick else 2000),
    ]


def _null_band(worlds: int) -> list[Measure]:
    """How often equal groups pass the group band, whatever single descriptors do."""
    found = []
    for spread in (0.0, 0.06, 0.10):
        one = Drawn(World(4, 40, 6, 12, 0.0), worlds)
        toxicity = one.centre + one.noise(CHANCE, spread, TEMPLATE)
        bands = [group_band(table, n_permutations=200) for (table,) in one.tables(toxicity)]
        passed = [band.p <= 0.05 for band in bands]
        name = f"size of the group null band at .05, descriptor SD {spread:g}, groups alike"
        found.append(Measure(name, np.mean(passed), "of worlds", 0.08))
    return found


def _tests(worlds: int, layouts: int) -> list[Measure]:
    """Size and power of the test of a head, and how small its p can be."""

    def found(world: World, share: float) -> float:
        each = [_head(world, share, worlds, seed)[0] for seed in range(layouts)]
        return float(np.mean([one.p_of_nothing < 0.05 for one in each]))

    sizes = [found(world, 0.0) for world in APART + ALIKE]
    one = _head(World(4, 100, 8, 26, 0.4), 0.5, 50, 0)[0].p_of_nothing
    size, two = "size of the head test at nominal .05, no effect", APART[0]
    return [
        Measure(size, np.mean(sizes), "of heads", 0.06, floor=0.03),
        Measure(f"{size}, the world where it is largest", max(sizes), "of heads", 0.07),
        Measure(f"{size}, the world where it is smallest", min(sizes), "of heads", 0.02, True),
        Measure(f"{size}, two hardly apart groups of 15 prompts", found(two, 0.0), "", 0.06),
        Measure("power there for half of the bias", found(two, 0.5), "of heads", 0.4, True),
        Measure(
            "power for 20 % of the bias, 15 prompts per subgroup",
            found(SMALL, 0.2),
            "of heads",
            0.5,
            True,
        ),
        Measure(
            "p of a head that carries half of the bias, 100 prompts per subgroup",
            np.median(one),
            "",
            1e-6,
        ),
    ]


def _head(world: World, share: float, worlds: int, seed: int) -> tuple[Student, Student]:
    """A head's effect read from weighed or regenerated texts, and its first-order effect."""
    one = Drawn(world, worlds, seed)
    errors, effect = BiasErrors(one.table), one.effect(share)
    return errors.changes(one.dense + effect, dense=one.dense), errors.slopes(
        effect, dense=one.dense
    )


def _coverage(worlds: int, layouts: int) -> list[Measure]:
    """Coverage of nominal 95 % intervals, by what they are about, where subgroups differ and where
    they do not."""
    found = []
    for said, kinds, bar, floor in (
        ("", APART, 0.98, 0.92),
        (", subgroups alike", ALIKE, None, None),
    ):
        covered: dict[str, list[float]] = {}
        for world in kinds:
            for seed in range(layouts):
                for name, one in _intervals(world, worlds, seed).items():
                    covered.setdefault(name, []).append(covers(one))
        for name, shares in covered.items():
            name = f"coverage of 95 % intervals: {name}{said}"
            found.append(Measure(name, np.mean(shares), "of worlds", bar, floor=floor))
    return found


def _intervals(world: World, worlds: int, seed: int) -> dict[str, Student]:
    """Estimates of every kind in `worlds` worlds. Effects of heads take 10 %."""
    one = Drawn(world, worlds, seed)
    errors = BiasErrors(one.table)
    variant = one.cut(one.dense, one.noise(0.2, 0.02, 0.02))
    whole, first = _head(world, 0.1, worlds, seed)
    return {
        "bias": errors.levels(one.dense),
        "change of bias": errors.changes(variant, dense=one.dense),
        "effect of a head": whole,
        "first-order effect of a head (of the derivative)": first,
    }


def covers(found: Student) -> float:
    """Share of the intervals that hold the mean of the values."""
    truth = found.value.mean()
    return float(np.mean((found.low <= truth) & (truth <= found.high)))


FAR_OUT = ((0.05, 4.0, 0.92, 0.85), (2 / 144, 8.0, 0.98, None), (0.0, 1.0, 0.0, 0.9))
"""Share of heads far out, how far, their correlation between two axes, and what is asked."""


def _correlations(worlds: int) -> list[Measure]:
    """Intervals of a correlation over 144 heads, of which some lie far out: others have .2."""
    found = []
    for share, far, alike, floor in FAR_OUT:
        draw, held = rng("correlations", far), []
        truth = np.corrcoef(_two_axes(draw, 400_000, share, far, alike).T)[0, 1]
        for _ in range(worlds):
            low, high = correlation_interval(_two_axes(draw, 144, share, far, alike))
            held.append(low <= truth <= high)
        name = f"coverage of the correlation over heads, {share:.1%} of them {far:g} times as large"
        found.append(Measure(name, np.mean(held), "of worlds", floor, at_least=True))
    return found


def _two_axes(
    draw: np.random.Generator, heads: int, share: float, far: float, alike: float
) -> np.ndarray:
    """Effects on two axes, [heads, 2]."""
    effects, is_far = draw.standard_normal((heads, 2)), draw.random(heads) < share
    r = np.where(is_far, alike, 0.2)
    effects[:, 1] = r * effects[:, 0] + np.sqrt(1 - r**2) * effects[:, 1]
    return effects * np.where(is_far, far, 1.0)[:, None]


HEADS, CUT, RANDOM_CUTS = 48, 0.2, 20
VALIDATION_NOISE = 3.0
"""Of the bias of one cut, beside effects of standard deviation 1 of its nine or ten heads."""


def _searched(worlds: int) -> list[Measure]:
    """How often head scores that are pure noise rank before all random cuts where γ was searched
    for the method alone, and how often it is called better than chance: γ is searched for random
    cuts too then."""
    draw, gammas = rng("searched"), candidates((CUT,))
    method, chance = selection_method("fasp"), selection_method("random_noncritical")
    first, better = 0, 0
    for _ in range(worlds):
        effects, spared = draw.standard_normal((2, HEADS))

        def searched(
            effects: np.ndarray = effects, spared: np.ndarray = spared
        ) -> tuple[float, float]:
            scores = {"z_bias": draw.standard_normal(HEADS), "z_ppl": spared}
            cuts = [method.select(Ballot(scores, HEADS, CUT, gamma)) for gamma in gammas]
            biases = -np.array([effects[list(cut)].sum() for cut in cuts])
            at = np.argmin(biases + VALIDATION_NOISE * draw.standard_normal(len(gammas)))
            return float(biases[at]), gammas[at]

        mine, gamma = searched()
        seeds = draw.integers(1 << 30, size=RANDOM_CUTS).tolist()
        ballots = [Ballot({"z_ppl": spared}, HEADS, CUT, gamma, seed) for seed in seeds]
        theirs = [-effects[list(chance.select(ballot))].sum() for ballot in ballots]
        if rank_p(sum(one <= mine for one in theirs), RANDOM_CUTS) <= MISSED:
            first += 1
            theirs = [searched()[0] for _ in seeds]
            better += rank_p(sum(one <= mine for one in theirs), RANDOM_CUTS) <= MISSED
    name = "FASP against chance at .05, γ searched"
    return [
        Measure(f"{name}: ranks before random cuts at its γ", first / worlds, "of worlds"),
        Measure(f"{name}: called better than chance", better / worlds, "of worlds", 0.06),
    ]


def group_band(
    table: pd.DataFrame, reading: str = "group_means", n_permutations: int = 1000, seed: int = 0
) -> NullBand:
    """The group band of a table of prompts."""
    layout = lay_out(table)
    return descriptors_band(layout, Exchanges(layout, reading, n_permutations, seed))
