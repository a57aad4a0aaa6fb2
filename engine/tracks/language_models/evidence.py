"""Fewer draws of every prompt, where all reported intervals are narrow enough before.

Decoding seeds are drawn one after the other, for the dense model and every variant alike, so that
each change stays one of pairs. After each the intervals are those that an audit of so many seeds
reports. The run takes the first number of seeds with which the widest is as narrow as asked. The
rule sees widths and no values; in the simulated worlds of `python -m benchmarks.calibration --only
stopping`, where intervals cover .97, it changes nothing that shows. It sees them by finished parts
alone, so a resumed audit stops where an uninterrupted one does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import brentq

from engine.core.errors import PruneAuditError
from engine.core.text import visible
from engine.core.types import POOLED, Values, rng
from engine.report import phrasing
from engine.report.charts import lookup
from engine.stats.clustered import MISSED, POWER, TAILS, benjamini_hochberg, smallest_effect
from engine.store.runs import Run, where
from engine.tracks.language_models.benchmark_tables import tail
from engine.tracks.language_models.bias import PROMPT, combine, evaluate
from engine.tracks.language_models.bias_intervals import FEW, BiasErrors
from engine.tracks.language_models.request import AuditRequest
from engine.tracks.language_models.variants import DENSE

TEST = "test"
DRAWN = "drawn"
"""Where run.json says what was drawn."""


@dataclass(frozen=True)
class Drawn:
    """How often every prompt was drawn, of how often at most, and the widest interval then. It is
    of a variant's change of bias on an axis, or of the dense model's bias where nothing is cut.
    Widths in the unit of bias; NaN where an interval could not be given.
    """

    seeds: int
    most: int
    asked: float
    widest: float
    variant: str
    axis: str

    @property
    def is_narrow(self) -> bool:
        return self.widest <= self.asked

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {**asdict(self), "widest": None if np.isnan(self.widest) else self.widest}


def looks(request: AuditRequest) -> list[AuditRequest]:
    """The request with one seed, two, … up to those asked, where it may stop before; else as it
    is."""
    if request.stop_at is None:
        return [request]
    return [replace(request, seeds=count) for count in range(1, request.seeds + 1)]


def drawn_of(results: pd.DataFrame, drawn: AuditRequest, asked: AuditRequest) -> Drawn:
    """What was reached with the seeds of `drawn`; results: that table of the audit."""
    rows = where(results, metric=f"bias:{asked.reading}", split=TEST)
    cut = rows[rows["variant"] != DENSE]
    widths = (cut["delta_high"] - cut["delta_low"]).to_numpy(dtype=float)
    if cut.empty:  # nothing but the dense model is measured: its bias is what is reported
        cut, widths = rows, (rows["high"] - rows["low"]).to_numpy(dtype=float)
    at = int(np.argmax(np.where(np.isnan(widths), np.inf, widths)))
    row = cut.iloc[at]
    assert asked.stop_at is not None, "nothing was to be reached"
    return Drawn(
        drawn.seeds,
        asked.seeds,
        float(asked.stop_at),
        float(widths[at]),
        str(row["variant"]),
        row["axis"],
    )


def as_drawn(request: AuditRequest, meta: Values) -> AuditRequest:
    """The request of a finished run with as many seeds as its variants were drawn with; meta: its
    run.json."""
    return replace(request, seeds=seeds_drawn(meta)) if DRAWN in meta else request


def seeds_drawn(meta: Values) -> int:
    """How often every prompt of a run was drawn for its variants."""
    return int((meta.get(DRAWN) or meta["request"])["seeds"])


def said(meta: Values, name: str) -> str:
    """The sentence for run and screens; name: the axis in words."""
    found = meta[DRAWN]
    times = f"{found['seeds']} of at most {found['most']} times"
    what = "the dense model's bias" if found["variant"] == DENSE else "a change of bias"
    if found["widest"] is None:
        return (
            f"Every prompt was drawn {times}: an interval could not be given on {name}, with too"
            f" few {FEW}."
        )
    width = f"on {name}, was {found['widest']:.3g} wide, {found['asked']:g} were asked"
    if found["widest"] <= found["asked"]:
        return f"Every prompt was drawn {times}, since the widest interval of {what}, {width}."
    return (
        f"Every prompt was drawn {times}, and the widest interval of {what}, {width}. More draws of"
        " the same prompts narrow it only so far: ask for more prompts."
    )


# What a table of head scores could have found: the smallest effect with 80 % power, and the
# prompts for half of it.


OF_HEADS = 0.9
"""The effect is one that would have been found in this share of the heads: noisy heads hide more
than quiet ones."""
MOST = 64
"""Times as many prompts, at most, that half the effect may ask for."""


def power_of(scores: pd.DataFrame) -> dict[str, Values]:
    """Per axis with tested effects on bias: effect, level, power, of_heads, heads, prompts,
    half_prompts. JSON-able.

    level is .05 over the number of heads tested: what Benjamini-Hochberg asks of the first head
    where no other has an effect. half_prompts: with that many prompts, and as many more descriptors
    and templates, half the effect would have been found; null where even MOST times as many would
    not do.
    """
    rows = scores[
        (scores["score"] == "z_bias") & (scores["seed"] == POOLED) & scores["error"].gt(0)
    ]
    return {str(axis): _axis(part) for axis, part in rows.groupby("axis")}


def _axis(rows: pd.DataFrame) -> dict[str, Any]:
    level, prompts = MISSED / len(rows), int(rows["n"].max())
    effect = _effect(rows, level, 1.0)
    reached = _effect(rows, level, MOST) <= effect / 2
    half = None
    if reached:
        times = brentq(lambda more: _effect(rows, level, more) - effect / 2, 1.0, MOST, xtol=1e-3)
        half = math.ceil(prompts * times)
    return {
        "effect": effect,
        "level": level,
        "power": POWER,
        "of_heads": OF_HEADS,
        "heads": len(rows),
        "prompts": prompts,
        "half_prompts": half,
    }


def _effect(rows: pd.DataFrame, level: float, more: float) -> float:
    """Smallest effect with `more` times the prompts: errors shrink by the root, degrees of freedom
    grow with them."""
    error, freedom = rows["error"].to_numpy() / math.sqrt(more), rows["freedom"].to_numpy() * more
    return float(np.quantile(smallest_effect(error, freedom, level), OF_HEADS))


# A rank among random cuts as a p-value, and whether more texts could still move it past a level.


ELSEWHERE = 99
"""Random cuts that a cut is ranked among on another source of prompts."""


def rank_p(below: Any, n: Any) -> Any:
    """Chance of ranking so well among n controls when the method is one of them: (1 + controls no
    worse) / (1 + n).

    Of numbers or of arrays.
    """
    return (1 + below) / (1 + n)


def ranks(table: pd.DataFrame) -> pd.DataFrame:
    """Of every variant that is set against chance, by name: n cuts, how many are no worse, p by
    rank, and q over them all (Benjamini-Hochberg). table: `controls` of a run."""
    found = (
        table.assign(below=table["bias"] <= table["method_bias"])
        .groupby("variant")["below"]
        .agg(["sum", "size"])
    )
    p = rank_p(found["sum"].to_numpy(), found["size"].to_numpy())
    return found.assign(p=p, q=benjamini_hochberg(p))


def is_settled(below: np.ndarray, unclear: np.ndarray) -> bool:
    """Whether the rank lies on one side of MISSED whichever way the controls that cannot be told
    apart turn out.

    below and unclear [controls] bool: no worse than the method; not told apart from it.
    """
    least, most = int((below & ~unclear).sum()), int((below | unclear).sum())
    return rank_p(most, len(below)) <= MISSED or rank_p(least, len(below)) > MISSED


# A change in per cent of the full model's value, with its interval, from what a run holds (FASP,
# Figs. 2 and 5).
#
# The full model's value v0 was measured too, on the same prompts as a variant's value v, so v / v0
# has Fieller's interval (1954): the ratios r at which v − r v0 is no further from zero than its own
# half width w,
#
#     (v − r v0)² ≤ w(v)² − 2 r c + r² w(v0)²,   c = (w(v)² + w(v0)² − w(v − v0)²) / 2,
#
# w the half widths of the stored intervals of v, v0 and v − v0, and c what v and v0 share. It has
# ends only where v0 is told from zero. An end that was clipped (no bias is below 0) does not count
# for a half width.


LEAST = -100.0
"""Per cent: neither a bias nor a perplexity falls below zero."""


def per_cent(rows: pd.DataFrame, dense: Values) -> pd.DataFrame:
    """Change of each row's value against `dense`, in per cent: columns value, low, high, with the
    index of `rows`.

    rows: value, low, high, delta, delta_low, delta_high; dense: value, low, high of the same
    quantity. Ends are NaN where an interval is missing, or where that of the full model reaches
    zero.
    """
    value, before = rows["value"].to_numpy(dtype=float), float(dense["value"])
    own, wide = _half(rows), _half(pd.DataFrame([dense]))[0]
    moved = _half(rows, "delta", "delta_low", "delta_high")
    shared = np.clip((own**2 + wide**2 - moved**2) / 2, -own * wide, own * wide)
    ends = zip(("value", "low", "high"), fieller(value, own, before, wide, shared), strict=True)
    found = pd.DataFrame({name: 100 * (ratio - 1) for name, ratio in ends}, index=rows.index)
    return found.assign(low=found["low"].clip(lower=LEAST))


def fieller(
    value: np.ndarray, own: np.ndarray, before: float, wide: float, shared: np.ndarray | float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """value / before with both ends of its interval, [rows] each; own, wide: half widths of the
    two, shared: c above. Ends are NaN where `before` may be zero."""
    square, middle = before**2 - wide**2, before * value - shared
    if not square > 0:
        return value / before, np.full_like(value, np.nan), np.full_like(value, np.nan)
    reach = np.sqrt(np.maximum(middle**2 - square * (value**2 - own**2), 0.0))
    return value / before, (middle - reach) / square, (middle + reach) / square


def _half(
    rows: pd.DataFrame, value: str = "value", low: str = "low", high: str = "high"
) -> np.ndarray:
    """The wider side of each interval, [rows] float."""
    at, below, above = (rows[name].to_numpy(dtype=float) for name in (value, low, high))
    return np.maximum(above - at, at - below)


# Two ways to make a model smaller, prompt by prompt: the difference of their biases, with its
# interval and its null.
#
# Every way writes to the same prompts under the same noise, so what the two share falls out of the
# difference. Null: of every prompt a coin says which of the two ways wrote which texts, as if both
# wrote alike.


N_NULL = 999
WAY_COLUMNS = [
    "variant",
    "delta",
    "delta_low",
    "delta_high",
    "null_low",
    "null_high",
    "null_p",
    "null_q",
    "detectable",
]


@lookup.remembered("generations", "prompts")
def differences(
    run: Run, reference: str, others: tuple[str, ...], axis: str, reading: str
) -> pd.DataFrame:
    """Bias of every other variant minus that of the reference, on test prompts: one row each,
    `WAY_COLUMNS`.

    delta with its interval; null_low, null_high, null_p: what exchanging the two gives; null_q:
    Benjamini-Hochberg over the rows. detectable: the difference that the interval would have found
    in four of five repeats, at .05 over the number of rows. Variants whose texts were not kept, or
    are of other prompts, have no row.
    """
    verdicts = _verdicts(run, axis, (reference, *others))
    rows = []
    if reference in verdicts:
        errors = BiasErrors(verdicts[reference])
        for name in (name for name in others if name in verdicts):
            with suppress(PruneAuditError):  # other prompts or seeds: nothing to pair
                rows.append({"variant": name, **_row(errors, verdicts[name], reading)})
    table = pd.DataFrame(
        rows, columns=[name for name in (*WAY_COLUMNS, "error", "freedom") if name != "null_q"]
    )
    found = table.assign(null_q=benjamini_hochberg(table["null_p"].to_numpy(dtype=float)))
    if len(table):
        error, freedom = (found[name].to_numpy(dtype=float) for name in ("error", "freedom"))
        found["detectable"] = smallest_effect(error, freedom, MISSED / len(table))
    return found[WAY_COLUMNS]


def _verdicts(run: Run, axis: str, names: tuple[str, ...]) -> dict[str, pd.DataFrame]:
    """The judged texts of these variants with the columns of their prompts, by variant."""
    where = {"split": [lookup.REPORTED], "axis": [axis]}
    drawn = run.part(
        "generations", {**where, "variant": names}, ["prompt_id", "toxicity", "variant"]
    )
    prompts = run.part("prompts", where, PROMPT)
    both = drawn.merge(prompts, on="prompt_id", validate="many_to_one")
    return {str(name): part.reset_index(drop=True) for name, part in both.groupby("variant")}


def _row(errors: BiasErrors, other: pd.DataFrame, reading: str) -> dict[str, float]:
    theirs = errors.toxicities(other)
    found = errors.changes(theirs[:, None], reading)
    value = float(found.value[0])
    # Difference of the biases where coins exchange the two ways' mean toxicities [prompts]
    # each: [N_NULL].
    mine = errors.dense
    moved = rng("paired ways", len(mine)).integers(0, 2, (N_NULL, len(mine))) * (theirs - mine)
    null = _biases(errors, theirs - moved, reading) - _biases(errors, mine + moved, reading)
    low, high = np.quantile(null, TAILS)
    ends = {
        name: float(getattr(found, part)[0]) if errors.holds else np.nan
        for name, part in (
            ("delta_low", "low"),
            ("delta_high", "high"),
            ("error", "error"),
            ("freedom", "freedom"),
        )
    }
    return {
        "delta": value,
        **ends,
        "null_low": float(low),
        "null_high": float(high),
        "null_p": tail(null, value),
    }


def _biases(errors: BiasErrors, values: np.ndarray, reading: str) -> np.ndarray:
    """Bias of each row of values [draws, prompts]: [draws]."""
    layout = errors.layout
    if reading == "paired_prompts":
        return np.array([evaluate(layout.with_toxicity(row), reading) for row in values])
    weights = np.eye(len(layout.subgroups))[layout.subgroup] * errors.rows[:, None]
    return combine(values @ weights, weights.sum(axis=0), reading)


def transfer_text(*rows: Values) -> str:
    """What arrives elsewhere, in sentences, none of them twice; rows: of `transfer`."""
    places: dict[str, list[str]] = {}
    for row in rows:
        source = visible(str(row["source"]))
        for sentence, note in _arriving(row):
            places.setdefault(sentence, []).append(source + note)
    return " ".join(
        said.format(phrasing.listing(where, len(where))) for said, where in places.items()
    )


def _arriving(row: Values) -> Iterator[tuple[str, str]]:
    """Sentences with a place for sources, and what stands after this source there."""
    if math.isnan(row["home_low"]):
        yield "The uncut model's bias at home may be zero, so no share can be given.", ""
    elif not (row["home_high"] < 0 or row["home_low"] > 0):
        yield "The change at home may be zero, so no share of it can arrive.", ""
    elif math.isnan(row["away_low"]):
        yield "The uncut model's bias on {} may be zero, so no share can be given.", ""
    else:
        share, *ends = (phrasing.percent(row[f"arrives{end}"]) for end in ("", "_low", "_high"))
        yield f"{share} of the change at home arrives on {{}} ({' to '.join(ends)}).", ""
    found = "more" if row["p"] <= MISSED else "no more"
    n = phrasing.count(int(row["n_random"]), "random cut")
    yield f"Bias falls {found} than by {n} of as many heads on {{}}.", f" (p = {row['p']:.2g})"
    least = row["away_detectable"]
    if least >= 100:
        yield "Even a fall to no bias would be missed in more than one of five tries on {}.", ""
    elif not math.isnan(least):
        yield f"A change of {least:.0f} % would have been found in four of five tries on {{}}.", ""
