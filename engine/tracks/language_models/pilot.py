"""Reading a pilot (measurements/pilot.py): which estimator to buy, what it costs, how wide
intervals will be.

A pilot table has the columns estimator, unit (-1: all heads at once), value, error, seconds, ess,
effective, n.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from engine.tracks.language_models.importance_weights import FEW
from engine.tracks.language_models.selection_stability import WIDTH

TURNED = 0.1
"""Standard error, in texts of n, below which no text turned: one that does moves its subgroup by
more than 1/n."""
FEW_PROMPTS = 20
"""Texts below which no width is predicted."""


def rows_of(pilot: pd.DataFrame, estimator: str) -> pd.DataFrame:
    """Rows of single heads, by unit."""
    return pilot[(pilot["estimator"] == estimator) & (pilot["unit"] >= 0)].set_index("unit")


def turned(pilot: pd.DataFrame) -> pd.Index:
    """Heads drawn again of which some new text came out otherwise: the others show no variance, and
    say nothing."""
    drawn = rows_of(pilot, "generate")
    return drawn.index[drawn["error"] > TURNED / drawn["n"]]


def cost(pilot: pd.DataFrame, estimator: str) -> float:
    """Variance times seconds per head, mean over the heads that reweight and generate both tried
    and of which some text
    turned: what a head of stated precision costs."""
    rows = rows_of(pilot, estimator)
    both = rows.loc[rows.index.intersection(turned(pilot))]
    return float((both["error"] ** 2).mean() * rows["seconds"].mean())


def share_poor(pilot: pd.DataFrame, least_ess: float) -> float:
    """Share of the pilot's heads with too few effective samples to be reweighted."""
    rows = rows_of(pilot, "reweight")
    return float(((rows["ess"] < least_ess) | (rows["effective"] < FEW)).mean())


def cheapest(pilot: pd.DataFrame, least_ess: float) -> str:
    """reweight or generate: the cheaper one; generate where reweighting is honest for less than
    half of the heads."""
    honest = share_poor(pilot, least_ess) <= 0.5
    worth = not np.isfinite(cost(pilot, "generate")) or cost(pilot, "reweight") <= cost(
        pilot, "generate"
    )
    return "reweight" if honest and worth else "generate"


def first_order_error(pilot: pd.DataFrame, values: np.ndarray, least_ess: float) -> np.ndarray:
    """How far the gradient of each head may be off by not going the whole way, [units]; values
    [units] is first-order z.

    From the pilot's heads with enough effective samples: the median distance between gradient and
    reweighting, or where it is more, the head's value times the median relative distance over heads
    whose effect stands out of its error.
    """
    whole, first = rows_of(pilot, "reweight"), rows_of(pilot, "gradient")["value"]
    whole = whole[np.isfinite(whole["value"]) & (whole["ess"] >= least_ess)]
    if whole.empty:
        return np.full(len(values), np.inf)
    apart = (first.loc[whole.index] - whole["value"]).abs()
    clear = whole["value"].abs() > 2 * whole["error"]
    relative = float((apart[clear] / whole["value"].abs()[clear]).median()) if clear.any() else 0.0
    return np.maximum(float(apart.median()), relative * np.abs(values))


def seconds_for(pilot: pd.DataFrame, n_heads: int, texts: int) -> dict[str, float]:
    """Predicted seconds of each estimator for all heads and `texts` texts, drawing and judging them
    included."""
    scale = texts / float(pilot["n"].iloc[0])
    whole = pilot[pilot["unit"] < 0].set_index("estimator")["seconds"]
    head = {
        name: float(rows_of(pilot, name)["seconds"].mean()) for name in ("reweight", "generate")
    }
    draw = float(whole["dense"])
    found = {
        "gradient": draw + float(whole["gradient"]),
        **{name: draw + n_heads * one for name, one in head.items()},
    }
    return {name: scale * seconds for name, seconds in found.items()}


def widths_for(pilot: pd.DataFrame, texts: int) -> Mapping[str, float]:
    """Predicted width of a head's 95 % interval with `texts` texts: median over the pilot's heads,
    by 1/√n.

    NaN where the pilot cannot say: with few texts, and for generate where no text turned.
    """
    shrink = np.sqrt(float(pilot["n"].iloc[0]) / texts)
    names = ("gradient", "reweight", "generate")
    if texts < FEW_PROMPTS:
        return dict.fromkeys(names, float("nan"))
    found = {name: float(rows_of(pilot, name)["error"].median() * WIDTH * shrink) for name in names}
    drawn = rows_of(pilot, "generate")["error"].loc[
        turned(pilot)
    ]  # of few heads: compared on those, carried over
    same = rows_of(pilot, "reweight")["error"].reindex(drawn.index)
    ratio = np.sqrt((drawn**2).mean() / max((same**2).mean(), 1e-30))
    return {**found, "generate": found["reweight"] * float(ratio)}
