"""A recommendation, where the evidence carries one.

**The rule.** Levels of the chosen method are gone through from the least cut up, and the first
that does not pass ends it; the last that passed is recommended. A level *passes* when no loss is
found there, neither in the quality nor in any judged group of the axis that is read, and none
could well have been missed:

- A loss is found where its 95 % interval leaves out zero, not corrected for anything, so that
  every hint counts against a recommendation; a loss whose whole interval is a trifle (`TRIFLE`)
  counts as none.
- A loss could not well have been missed where every interval leaves out losses of more than
  `COARSE`, widened for all methods that were looked at on the axis (Bonferroni): by Student's t
  with one less than the models behind a mean, which is cautious, or by the normal distribution
  where there is one model. Levels need no such widening: their order is fixed, and each is
  reached only through those before it.

Else nothing is recommended, and the sentence says why. All of it is read off the data on which
results are reported, and that is said: it tells what was found, and is no promise for other data.
Predicted levels, and sets that a person chose after looking, are never recommended.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scipy.special import ndtri, stdtrit

from engine.core import words
from engine.report import in_words, phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.contract import Measure, Reading
from engine.report.moved import judged
from engine.report.tracks import track_of
from engine.store.runs import Run

TRIFLE = 0.01
"""A loss nobody minds: of a score between 0 and 1, or as a share of the perplexity."""
COARSE = 0.1
"""A loss that an audit must be able to see, on the same scales."""
RULE = (
    "Of the measured cuts by this method, from the smallest up, the last one before something is"
    " found to be lost, in the quality or in a group. A loss below 0.01, or 1 % of the perplexity,"
    " counts as none. It is given only where a loss of more than 0.1, or 10 % of the perplexity, is"
    " ruled out, with intervals widened for all methods."
)
"""The rule in short, for where one points."""


@dataclass(frozen=True)
class Advice:
    """level: what is recommended, None where the evidence carries nothing; then `said` tells why,
    "" where nothing is cut or compared."""

    level: float | None
    said: str


@dataclass(frozen=True)
class Loss:
    """How much worse something got, above zero, on the scale of TRIFLE; `most` is what could have
    been missed.

    group: unquoted; "" for the quality.
    """

    group: str
    low: float
    high: float
    most: float

    @property
    def is_found(self) -> bool:
        return self.low > 0 and self.high > TRIFLE

    @property
    def passes(self) -> bool:
        return math.isfinite(self.most) and not self.is_found and self.most <= COARSE


def advice(run: Run, choice: Choice) -> Advice:
    """What to do, by the rule above; never of a predicted level."""
    if (
        track_of(run).telling.unlearned(run)
        or choice.method == "dense"
        or choice.method in track_of(run).uncut
        or words.is_by_hand(choice.method)
    ):
        return Advice(None, "")
    passed = None
    for level in measured_levels(run, choice):
        found = losses(run, replace(choice, level=level))
        if not found or not all(loss.passes for loss in found):
            return (
                Advice(None, _why_not(run, choice, level, found))
                if passed is None
                else _told(run, choice, *passed)
            )
        passed = level, found
    return Advice(None, "") if passed is None else _told(run, choice, *passed)


def _told(run: Run, choice: Choice, level: float, found: Sequence[Loss]) -> Advice:
    """A level at which nothing is lost, and of what size a loss could have been missed."""
    worst, track = max(found, key=lambda loss: loss.most), track_of(run)
    said = f"At {track.level.say(level)} nothing is lost that can be measured"
    if worst.most > 0:
        said += f"; a loss of {_size(run, choice, worst)} could have been missed"
    methods = phrasing.count(len(lookup.methods(run, choice.axis)), "method")
    return Advice(
        level,
        f"{said}. Seen on the test {track.items}, with {methods} looked at: check it on others.",
    )


def _why_not(run: Run, choice: Choice, level: float, found: Sequence[Loss]) -> str:
    """Why not even the smallest cut is recommended."""
    track, reading = track_of(run), lookup.reading(run, choice)
    where = track.level.say(level)
    lost = sorted((loss for loss in found if loss.is_found), key=lambda loss: -loss.high)
    if lost:
        which = "smallest" if len(measured_levels(run, choice)) > 1 else "only"
        return f"Not recommended: the {which} level measured, {where}, {_lost(reading, lost)}."
    known = [loss for loss in found if math.isfinite(loss.most)]
    if len(known) < len(found) or not known:
        return f"Not recommended: there are too few {track.items} to tell what {where} costs."
    missed = _size(run, choice, max(known, key=lambda loss: loss.most))
    more = f"More {track.items} or {track.repeat}s" if _models(run) > 1 else f"More {track.items}"
    return (
        f"Not recommended yet: at {where} no loss was found, but one of {missed} could"
        f" have been missed. {more} would tell."
    )


def _lost(reading: Reading, lost: Sequence[Loss]) -> str:
    """What is lost, as what a cut does: "clearly worsens toxicity for “a” and perplexity"."""
    groups = in_words.names([words.quoted(loss.group) for loss in lost if loss.group])
    told = [f"{reading.group.name} for {groups}"] * bool(groups)
    told += [] if all(loss.group for loss in lost) else [reading.quality.name]
    return f"clearly worsens {phrasing.listing(told)}"


def _size(run: Run, choice: Choice, loss: Loss) -> str:
    reading, size = lookup.reading(run, choice), in_words.short(loss.most)
    if loss.group:
        return f"up to {size} for {words.quoted(loss.group)}"
    if reading.quality.metric == "perplexity":
        return f"up to {in_words.per_cent(loss.most)} of the perplexity"
    return f"up to {size} of {reading.quality.name}"


def measured_levels(run: Run, choice: Choice) -> list[float]:
    """Levels of the method that cut something and were measured, ascending."""
    found = []
    for level in lookup.levels(run, choice.method, choice.axis):
        if level != track_of(run).level.none:
            variant = lookup.variant_of(run, replace(choice, level=level))
            found += [] if lookup.is_predicted(variant) else [level]
    return found


def losses(run: Run, choice: Choice) -> list[Loss]:
    """What a cut did to every judged group and to the quality, as losses; empty where one of both
    was not measured."""
    variant, reading = lookup.variant_of(run, choice)["variant"], lookup.reading(run, choice)
    groups = judged(run, choice, variant).to_dict("records")
    quality = lookup.measured(run, variant, reading.quality, choice)
    if quality is None or not groups:
        return []
    factor = wider(len(lookup.methods(run, choice.axis)), _models(run))
    found = [_loss(reading.group, row, row["group"], factor) for row in groups]
    return [*found, _loss(reading.quality, quality, "", factor)]


def _loss(measure: Measure, row: Mapping[str, Any], group: str, factor: float) -> Loss:
    before = row["value"] - row["delta"]
    scale = before if measure.metric == "perplexity" and before > 0 else 1.0
    low, high = sorted(measure.sign * row[end] / scale for end in ("delta_low", "delta_high"))
    middle = measure.sign * row["delta"] / scale
    return Loss(str(group), low, high, middle + (high - middle) * factor)


def wider(looks: int, models: int) -> float:
    """By what half of a 95 % interval grows when so many looks have to hold at once; models: those
    behind a mean."""
    ends = 1 - 0.025 / max(looks, 1), 0.975
    one, alone = (stdtrit(models - 1, end) if models > 1 else ndtri(end) for end in ends)
    return float(one / alone)


def _models(run: Run) -> int:
    """How many models every mean is made of."""
    return track_of(run).models_behind(run)
