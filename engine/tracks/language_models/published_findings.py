"""What published head scores show: correlations between axes, shared top heads, and what FASP
Algorithm 1 would cut."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from engine.core.errors import Fault, RequestError
from engine.core.levels import exact_count
from engine.stats.correlation import correlation, expected_in_axes, in_axes, top_heads
from engine.stats.reliability import icc_c1, repeats_of
from engine.tracks.language_models.published_scores import PublishedScores
from engine.tracks.language_models.selection.ties import RULES, protected, tied_at_boundary


def published_findings(
    scores: PublishedScores, gamma: float = 0.3, share: float = 0.2, ties: str = "index"
) -> dict[str, Any]:
    """Findings about one model, JSON-able; all head ids are 1-based.

    correlation: {axis: {axis: r}}, Pearson over heads of the means over seeds (FASP Fig. 4).
    top_heads: per axis the int(share x heads) whose removal leaves the lowest bias, most harmful
    first, perplexity not considered (FASP Fig. 3). in_axes: in how many of these lists a head is;
    in_axes_by_chance: heads expected in 0, 1, … lists if they were independent. selection: FASP
    Algorithm 1 with gamma and share; `tied`: protected heads that share their perplexity with an
    unprotected one, and per axis how many cuts the other rule for ties would change. icc:
    consistency of one seed per axis. repeats: its interval, the overlap of two seeds' top shares
    against chance, and the seeds needed for .8 (None: never). RequestError when gamma or share is
    outside [0, 1) or leaves too few heads.
    """
    _check(gamma, share)
    wide = scores.wide()
    tops = top_heads(wide, share)
    return {
        "model": scores.model,
        "n_heads": scores.n_heads,
        "seeds": scores.seeds,  # 0 where only their means were published
        "correlation": _nested(correlation(wide, "pearson")),
        "spearman": _nested(correlation(wide, "spearman")),
        "top_heads": tops,
        "in_axes": in_axes(tops),
        "in_axes_by_chance": [
            float(x) for x in expected_in_axes(exact_count(share, len(wide)), len(wide), len(tops))
        ],
        "selection": _selection(wide, scores.ppl_after(), gamma, share, ties),
        "icc": {str(axis): _number(_icc(scores.table, str(axis))) for axis in wide.columns},
        "repeats": {str(axis): _repeats(scores.table, str(axis), share) for axis in wide.columns},
        "notes": list(scores.notes),
    }


def all_findings(
    scores: Sequence[PublishedScores], gamma: float = 0.3, share: float = 0.2, ties: str = "index"
) -> dict[str, Any]:
    """Findings of one model as they are; of several as {"models": [findings, …]}."""
    found = [published_findings(one, gamma, share, ties) for one in scores]
    return found[0] if len(found) == 1 else {"models": found}


def _check(gamma: float, share: float) -> None:
    faults = [
        Fault(name, f"{value} is outside [0, 1).", "Published: gamma 0.3, share 0.2.")
        for name, value in (("gamma", gamma), ("share", share))
        if not 0 <= value < 1
    ]
    if not faults and gamma + share > 1:
        faults = [Fault("gamma + share", f"{gamma} + {share} is above 1.", "Lower one of them.")]
    if faults:
        raise RequestError(faults)


def _selection(
    wide: pd.DataFrame, ppl_after: pd.Series, gamma: float, share: float, rule: str
) -> dict[str, Any]:
    """FASP Algorithm 1: the critical heads stay, the most harmful of the others are cut.

    wide: bias per head (rows) and axis. ppl_after: perplexity without the head; NaN where it was
    not published.
    """
    n_cut = exact_count(share, len(wide))
    z_ppl = -ppl_after.fillna(
        -np.inf
    ).to_numpy()  # up to a constant, the perplexity of the whole model
    chosen, other = (
        protected(z_ppl, gamma, name) for name in (rule, next(one for one in RULES if one != rule))
    )
    heads, differ = _cuts(wide, ppl_after, chosen, n_cut), _cuts(wide, ppl_after, other, n_cut)
    tied = {
        "protected": tied_at_boundary(z_ppl, protected(z_ppl, gamma), range(len(z_ppl))),
        "cut_otherwise": {axis: len(set(heads[axis]) - set(differ[axis])) for axis in heads},
    }
    critical = sorted(int(head) for head in ppl_after.index[list(chosen)])
    return {
        "gamma": gamma,
        "share": share,
        "ties": rule,
        "critical": critical,
        "heads": heads,
        "tied": tied,
    }


def _cuts(
    wide: pd.DataFrame, ppl_after: pd.Series, chosen: Sequence[int], n_cut: int
) -> dict[str, list[int]]:
    """Heads (1-based) that are cut per axis when `chosen` (0-based) are protected."""
    critical = ppl_after.index[list(chosen)]
    free = wide[ppl_after.notna()].drop(index=critical)
    return {
        str(axis): [
            int(head)
            for head in (
                free[axis].dropna().sort_values(ascending=False, kind="stable").index[:n_cut]
            )
        ]
        for axis in free.columns
    }


def _repeats(table: pd.DataFrame, axis: str, share: float) -> dict[str, Any]:
    by_seed = -table[table["axis"] == axis].pivot(index="head", columns="seed", values="bias_after")
    if by_seed.shape[1] < 2:
        return {}
    found = repeats_of(by_seed, share)
    numbers = {
        "low": found.low,
        "high": found.high,
        "overlap": found.overlap.share,
        "by_chance": found.overlap.expected,
    }
    return {
        **{name: _number(value) for name, value in numbers.items()},
        "seeds_needed": found.needed,
    }


def _icc(table: pd.DataFrame, axis: str) -> float:
    by_seed = table[table["axis"] == axis].pivot(index="head", columns="seed", values="bias_after")
    return icc_c1(by_seed.to_numpy())


def _nested(matrix: pd.DataFrame) -> dict[str, dict[str, float | None]]:
    return {
        str(row): {str(col): _number(matrix.loc[row, col]) for col in matrix.columns}
        for row in matrix.index
    }


def _number(value: float) -> float | None:
    """JSON has no NaN."""
    return None if math.isnan(value) else float(value)
