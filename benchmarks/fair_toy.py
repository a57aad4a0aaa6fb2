"""Is BiFP's mask among the best there are? A problem of 12 weights whose 495 masks of 4 are all
trained and ranked.

Some features serve the majority group, others the minority, two serve both a little. A linear model
may keep four of its twelve weights. Every mask's weights are trained to convergence under the lower
level's objective, cross-entropy + λ max(F - τ, 0) with the surrogate gap F; the masks whose gap
then meets τ are ranked by cross-entropy. The `place` of a mask is the share of those that are
better. BiFP-uns runs through the same code as on images.
"""

from __future__ import annotations

import copy
import itertools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.stats import binomtest
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.report import Measure, parser, show
from engine.core.types import rng
from engine.tracks.fair_training.methods import NONE, FairJob, FairMethod, fair_method
from engine.training.fit import Batches
from engine.training.losses import Targets
from engine.training.recipe import Recipe

FEATURES, KEPT, IMAGES = 12, 4, 500
MAJORITY, MINORITY = 5, 5
"""How many features serve each group; the others serve both."""
SHARE = 0.15
"""Share of the minority."""
STRENGTH, TOLERANCE, SLACK = 2.0, 0.02, 0.005
"""λ, τ, and by how much a trained gap may lie above τ and still meet it (the hinge holds it at τ).
λ is a price, and a constraint only where it is high enough: at 1, the weights of 18 % of the masks
rather pay it than meet τ."""
BEST, OFTEN = 0.05, 0.8
"""The bar: among the best so many of the masks that meet τ, in so many of the seeds."""
CHOSEN_ON, SEEDS = 10, 20
"""λ and the batch size were chosen on seeds 0 to 9, so the table is of the 20 after them."""
OURS = "bifp-uns"
ITERATIONS = 400
RECIPE = Recipe(rate=0.02, batch=64, weight_decay=0.0, mirror=False)


@dataclass(frozen=True)
class Toy:
    """x [n, 12]; y [n] in {0, 1}; groups [n] in {0: majority, 1: minority}; serves [12]: 0, 1, or 2
    for both."""

    x: np.ndarray
    y: np.ndarray
    groups: np.ndarray
    serves: np.ndarray
    seed: int
    strength: float = STRENGTH
    tolerance: float = TOLERANCE


class Linear(nn.Module):
    """Two classes of one linear score s: logits (-s/2, s/2). Its 12 weights are what is cut; the
    bias stays."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Linear(FEATURES, 1)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, 12] -> logits [batch, 2]."""
        half = self.score(x) / 2
        return torch.cat([-half, half], dim=1)


def toy(seed: int) -> Toy:
    """A problem of its own: which features serve whom, and how well, is drawn."""
    draw = rng("fair toy", seed)
    serves = draw.permutation(
        np.repeat([0, 1, 2], [MAJORITY, MINORITY, FEATURES - MAJORITY - MINORITY])
    )
    power = draw.uniform(0.6, 1.0, FEATURES) * draw.choice([-1, 1], FEATURES)
    groups = (draw.random(IMAGES) < SHARE).astype(int)
    y = draw.integers(0, 2, IMAGES)
    helps = np.where(serves == 2, 0.4, serves == groups[:, None])
    x = helps * power * (2 * y[:, None] - 1) + draw.normal(size=(IMAGES, FEATURES))
    return Toy(x.astype(np.float32), y, groups, serves, seed)


@cache
def every_mask() -> np.ndarray:
    """All ways to keep 4 of 12, [495, 12] bool."""
    kept = np.array(list(itertools.combinations(range(FEATURES), KEPT)))
    found = np.zeros((len(kept), FEATURES), dtype=bool)
    np.put_along_axis(found, kept, True, axis=1)
    return found


def ranked(problem: Toy, steps: int = 600) -> pd.DataFrame:
    """Every mask with its weights trained to convergence, all at once, on all training rows.

    Columns loss (cross-entropy, nats), gap (surrogate), met (gap <= τ), place (share of the masks
    that meet τ with a lower loss; NaN where τ is not met); rows as in `every_mask`.
    """
    x, sign = torch.as_tensor(problem.x), torch.as_tensor(2 * problem.y - 1).float()
    groups = [torch.as_tensor(problem.groups == group) for group in (0, 1)]
    masks = torch.as_tensor(every_mask()).float()
    weights = torch.zeros(len(masks), FEATURES, requires_grad=True)
    bias = torch.zeros(len(masks), requires_grad=True)

    def measured() -> tuple[Tensor, Tensor]:
        """Cross-entropy and surrogate gap per mask."""
        margin = sign * ((weights * masks) @ x.T + bias[:, None])
        right = torch.sigmoid(margin)
        one, other = (right[:, group].mean(dim=1) for group in groups)
        return functional.softplus(-margin).mean(dim=1), (one - other).abs()

    optimizer = torch.optim.Adam([weights, bias], lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        loss, gap = measured()
        (loss + problem.strength * (gap - problem.tolerance).clamp(min=0)).sum().backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        found = pd.DataFrame(dict(zip(("loss", "gap"), map(Tensor.numpy, measured()), strict=True)))
    found["met"] = found["gap"] <= problem.tolerance + SLACK
    found["place"] = found.loc[found["met"], "loss"].rank(method="min").sub(1) / found["met"].sum()
    return found


def job_of(problem: Toy, model: nn.Module, method: FairMethod, **more: Any) -> FairJob:
    """The same job that images are trained by. more: iterations, and settings of the method."""
    y, rows = torch.as_tensor(problem.y), np.arange(len(problem.x))
    batches = Batches(rows, problem.x.__getitem__, torch.as_tensor, RECIPE.batch, problem.seed)
    sparsity = 0.0 if method.units == NONE else 1 - KEPT / FEATURES
    classifier: Any = SimpleNamespace(model=model)  # what a classifier is to a training
    graph: Any = None  # of filters, of which there are none
    return FairJob(
        classifier,
        graph,
        batches,
        Targets(functional.one_hot(y, 2).float(), torch.ones(len(y))),
        problem.groups,
        np.full((len(y), 2), 0.5, np.float32),
        (sparsity,),
        problem.strength if method.fair else 0.0,
        more.pop("iterations", ITERATIONS),
        RECIPE,
        problem.seed,
        tolerance=problem.tolerance,
        settings=more,
    )


def dense(problem: Toy, fair: bool = False) -> Linear:
    """All weights trained as on images, from zero: what every method starts from. A copy of its
    own."""
    return copy.deepcopy(_dense(problem.seed, fair))


@cache
def _dense(seed: int, fair: bool) -> Linear:
    problem, model = toy(seed), Linear()
    with torch.no_grad():
        for one in model.parameters():
            one.zero_()
    method = fair_method("dense-fair" if fair else "dense-tuned")
    list(method.train(job_of(problem, model, method)))
    return model


def bifp(
    problem: Toy, fair_mask: bool = True, fair_weights: bool = True, **settings: Any
) -> np.ndarray:
    """The mask that BiFP-uns finds, [12] bool; with or without the fairness term in mask and
    weights.

    settings: of the method, as declared where not given.
    """
    method: Any = fair_method("bifp-uns")
    method = replace(method, fair_mask=fair_mask, fair_weights=fair_weights)
    (one,) = method.train(job_of(problem, dense(problem), method, **settings))
    return one.keep


def snip(problem: Toy) -> np.ndarray:
    """SNIP's mask; what is trained afterwards changes weights only, so pf-snip has the same."""
    method = fair_method("snip")
    (one,) = method.train(job_of(problem, dense(problem), method, iterations=1))
    return one.keep


def magnitude(problem: Toy, fair: bool = False) -> np.ndarray:
    """The largest weights of the dense model, trained plainly or fairly."""
    weights = dense(problem, fair).score.weight.detach()[0].abs().numpy()
    return weights >= np.sort(weights)[-KEPT]


def greedy(problem: Toy) -> np.ndarray:
    """The mask with the lowest cross-entropy of all, whatever the gap: what a perfect plain method
    would find."""
    free = ranked(replace(problem, strength=0.0))
    return every_mask()[free["loss"].argmin()]


WAYS: Mapping[str, Any] = {
    OURS: bifp,
    "bifp-uns, λ = 1": lambda one: bifp(replace(one, strength=1.0)),
    "bifp-uns, implicit term as published": lambda one: bifp(one, implicit="published"),
    "bifp-uns, no implicit term": lambda one: bifp(one, implicit="none"),
    "bifp-uns without the fairness term in the mask": lambda one: bifp(one, fair_mask=False),
    "bifp-uns without it in the weights": lambda one: bifp(one, fair_weights=False),
    "bifp-uns without it in both": lambda one: bifp(one, fair_mask=False, fair_weights=False),
    "magnitude": magnitude,
    "magnitude after fair training (as fp)": lambda one: magnitude(one, fair=True),
    "snip (and pf-snip: the same mask)": snip,
}


def place_of(table: pd.DataFrame, keep: np.ndarray) -> float:
    """Share of the masks that meet τ and have a lower loss; NaN where this one does not meet it."""
    return float(table["place"].iloc[int((every_mask() == keep).all(axis=1).argmax())])


def places(seeds: Sequence[int], ways: Mapping[str, Any] = WAYS) -> pd.DataFrame:
    """One row per seed and way: seed, way, place, met (of all masks, the share that meets τ)."""
    rows = []
    for seed in seeds:
        problem = toy(seed)
        table = ranked(problem)
        rows += [
            {
                "seed": seed,
                "way": name,
                "place": place_of(table, find(problem)),
                "met": table["met"].mean(),
            }
            for name, find in ways.items()
        ]
    return pd.DataFrame(rows)


def summary(found: pd.DataFrame) -> pd.DataFrame:
    """Per way: among the best 5 % in which share of the seeds (Wilson's 95 % interval), in which it
    met τ, median place of those."""
    table = found.groupby("way", sort=False)["place"].agg(
        best=lambda place: (place < BEST).mean(),
        low=lambda place: _wilson(place).low,
        high=lambda place: _wilson(place).high,
        met=lambda place: place.notna().mean(),
        place="median",
    )
    chance = found.groupby("seed")["met"].first().mean()
    table.loc["any mask, at random"] = [BEST * chance, np.nan, np.nan, chance, 0.5]
    return table


def _wilson(place: pd.Series) -> Any:
    return binomtest(int((place < BEST).sum()), len(place)).proportion_ci(0.95, method="wilson")


def main() -> int:
    """A row per way, over seeds; the bar is that of bifp-uns as it is declared."""
    words = parser(__doc__)
    words.add_argument("--seeds", type=int, default=SEEDS)
    words.add_argument("--first", type=int, default=CHOSEN_ON, help="the first seed")
    asked = words.parse_args()
    table = summary(places(range(asked.first, asked.first + asked.seeds)))
    measures = [
        Measure(
            f"{name} ({row['low']:.2f} to {row['high']:.2f}; τ met in {row['met']:.2f}, median"
            f" place {row['place']:.3f}): among the best {BEST:.0%} of the masks that meet τ",
            round(row["best"], 3),
            "of the seeds",
            OFTEN if name == OURS else None,
            at_least=True,
        )
        for name, row in table.iterrows()
    ]
    return show(measures, asked.json)


if __name__ == "__main__":
    sys.exit(main())
