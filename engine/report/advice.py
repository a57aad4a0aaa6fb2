"""What to do about one cut: take it, leave it, or measure more first.

**The rule.** What a cut is worth stands against what it costs. It is worth something where the harm
that is read falls beyond chance (`GAIN_ERROR`), or where size or time falls by more than a trifle.
It costs what each judged group and the quality lose. A person sets how much of that is acceptable
(`Choice`). Two one-sided tests per loss decide (Schuirmann 1987), with `ERROR` for all of a cut's.

- *take*: every loss is shown to be below its tolerance, each by a test with `ERROR`. All must pass
  (intersection and union, Berger 1982). So a cut with one loss at its tolerance or above is taken
  with a chance of at most `ERROR`, however many groups there are.
- *leave*: some loss is shown to be above its tolerance, each by a test with its share of `ERROR`
  (Bonferroni); or nothing is shown to be gained.
- *not enough data*: neither, with how many items would tell.

Standard errors come from the 95 % intervals of the tables, read by the normal distribution. That is
cautious for intervals by Student's t, which narrow more on the way from 95 to 90 %. Where an item
can change by at most 1, a bound is widened as in Wilson's (1927) interval: no harm in few items is
no proof. The error is that of one cut: whoever goes through many and takes one errs more often. All
is read off the data on which results are reported. Predicted levels, and sets that a person chose
after looking, get no advice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from engine.core import words
from engine.report import in_words, phrasing
from engine.report.charts import lookup
from engine.report.charts.classifier_lookup import repeats
from engine.report.charts.lookup import View
from engine.report.charts.panel import Choice
from engine.report.contents import default_choice
from engine.report.contract import Measure
from engine.report.costs import savings
from engine.store.runs import Run

TAKE, LEAVE, MORE = "take", "leave", "not enough data"
ERROR, GAIN_ERROR, POWER = 0.05, 0.001, 0.8
"""Of the tests of a cut's losses; of a gap that counts as closed; chance with which so many items
tell."""
MOST = 100
"""Times as many items that are thought of."""
OFFERED = (0.01, 0.02, 0.05, 0.1, 0.2)
"""Tolerances that a person may set on screen."""
RULE = (
    "Take it: a gain is shown, and losses that you would not accept are ruled out. Leave it: such "
    "a loss is shown, or no gain is. Both hold for every group and the quality together, with an "
    "error of 5 %. Each cut is judged alone, on the data of this audit, so check it on other data."
)
"""The rule in short, for where one points."""


def z_of(error: float) -> float:
    """What a normal variable exceeds with this chance."""
    return -float(ndtri(error))


@dataclass(frozen=True)
class Advice:
    """answer: TAKE, LEAVE or MORE; "" where nothing is cut or measured, as `said` is then.

    about: what is read of a chart beside it: "harm", "quality" or "group", named first in `said`.
    """

    answer: str
    said: str
    about: str = "harm"


@dataclass(frozen=True)
class Loss:
    """How much worse something got, above zero, with its standard error, and what is tolerated.

    group: unquoted; "" for the quality. n: items it was measured on. unit: what one item can change
    by at most, 0 where there is no such limit.
    """

    group: str
    value: float
    error: float
    n: float
    unit: float
    tolerance: float

    def bound(self, side: int, z: float = z_of(ERROR), times: float = 1.0) -> float:
        """The one-sided bound above (side 1) or below (−1), had there been so many times as many
        items; NaN where there is no interval."""
        rare = self.unit * z * z / (2 * self.n * times)
        return self.value + side * (rare + math.hypot(z * self.error / math.sqrt(times), rare))

    @property
    def is_below(self) -> bool:
        """Whether a loss of the tolerance or more is ruled out."""
        return self.bound(1) < self.tolerance

    def is_above(self, tests: int) -> bool:
        """Whether a loss of more than the tolerance is shown, by one of so many tests."""
        return self.bound(-1, z_of(ERROR / tests)) > self.tolerance

    def to_dict(self) -> dict[str, Any]:
        """JSON-able: no NaN."""
        numbers = {"loss": self.value, "at_least": self.bound(-1), "at_most": self.bound(1)}
        finite = {name: one if math.isfinite(one) else None for name, one in numbers.items()}
        return {"group": self.group, **finite, "tolerance": self.tolerance}

    def needed(self, tests: int) -> float:
        """How many items would tell with a chance of POWER, the change being as it seems; inf where
        MOST times as many would not, NaN where there is no interval."""
        if not math.isfinite(self.bound(1)):
            return math.nan
        below, above = (z_of(error) + z_of(1 - POWER) for error in (ERROR, ERROR / tests))
        for times in np.geomspace(1, MOST, 100):
            if (
                self.bound(1, below, times) < self.tolerance
                or self.bound(-1, above, times) > self.tolerance
            ):
                return self.n * float(times)
        return math.inf


def decide(losses: Sequence[Loss], is_gain: bool) -> str:
    """The answer to the losses of one cut: those of every judged group and of the quality."""
    if not is_gain or any(loss.is_above(len(losses)) for loss in losses):
        return LEAVE
    is_known = {bool(loss.group) for loss in losses} == {True, False}
    return TAKE if is_known and all(loss.is_below for loss in losses) else MORE


def advice(run: Run, choice: Choice) -> Advice:
    """What to do about the cut of a choice, by the rule above."""
    view = View(run, choice)
    is_by_hand = words.is_by_hand(choice.method)
    if view.is_dense or view.is_predicted or is_by_hand or choice.method in view.track.ways.uncut:
        return Advice("", "")
    if view.track.telling.unlearned(run):
        return Advice("", "")
    found, gained = losses(run, choice), [*_closed(view), *savings(run, view.variant)]
    answer = decide(found, bool(gained))
    gains = phrasing.listing(gained)
    if answer == TAKE:
        told, said = [], f"Take it: it {gains}. {_ruled_out(view)}"
    elif answer == MORE:
        told = [loss for loss in found if not loss.is_below]
        said = f"Not enough data: {_open(view, told, len(found))}"
    elif gained:
        told = [loss for loss in found if loss.is_above(len(found))]
        said = f"Leave it: {_costs(view, told, '{}s by more than {}')} In return it {gains}."
    else:
        told, said = (
            [],
            "Leave it: no gain is shown in the gap between groups, in size or in speed.",
        )
    groups = any(loss.group for loss in told)
    return Advice(answer, said, "group" if groups else "quality" if told else "harm")


def advised(run: Run, accepted: Mapping[str, float]) -> list[dict[str, Any]]:
    """Advice on every variant that has some: its name, the answer, the sentences, and the losses
    with one-sided bounds. accepted: tolerances of a Choice."""
    found = []
    for name in map(str, lookup.named(run)["variant"]):
        choice = default_choice(run, variant=name).accepting(**accepted)
        if (one := advice(run, choice)).answer:
            costs = [loss.to_dict() for loss in losses(run, choice)]
            row = {"variant": name, "answer": one.answer, "said": one.said, "losses": costs}
            found.append(row)
    return found


def tolerances_said(run: Run, choice: Choice) -> tuple[str, dict[str, str]]:
    """The tolerances of a choice, and by its fields what each is a tolerance of."""
    measures = lookup.reading(run, choice)
    group, quality = measures.group, measures.quality
    said = f"{choice.tolerance:g} per group, {in_words.per_cent(choice.quality_tolerance)} overall"
    titles = f"In {group.name}, any group", f"Share of {quality.name}"
    fields = ("tolerance", "quality_tolerance")
    return f"Accepted losses: {said}", dict(zip(fields, titles, strict=True))


def _ruled_out(view: View) -> str:
    """What is ruled out, and who is not judged."""
    group, quality = view.reading.group, view.reading.quality
    said = (
        f"The data rule out a {_way(group)} of {view.choice.tolerance:g} in {group.name} for any"
        f" group, or of {in_words.per_cent(view.choice.quality_tolerance)} in {quality.name}"
        f" overall (error rate {in_words.per_cent(ERROR)})."
    )
    few = len(view.groups()) - len(view.groups(known="delta"))
    left = f" {phrasing.count(few, 'group')} with too few {group.few} cannot be judged."
    return said + left * bool(few)


def _open(view: View, open_: Sequence[Loss], tests: int) -> str:
    """What is not ruled out by so many tests, and what would tell."""
    track = view.track
    if not open_:
        return f"there are too few {view.reading.group.few} to judge groups or quality."
    said = _costs(view, open_, "may {} by {} or more")
    needs = [loss.needed(tests) for loss in open_ if loss.group]
    if repeats(view.run) > 1:
        return f"{said} More {track.repeat}s or {track.items} would tell."
    if not needs:
        return f"{said} A longer text would tell."
    if not all(map(math.isfinite, needs)):
        return f"{said} Not even {MOST} times as many {track.items} may tell."
    here = max(loss.n for loss in open_ if loss.group)
    many = f"{float(f'{max(needs):.2g}'):,.0f}"
    return f"{said} About {many} {track.items} for each group, instead of {here:,.0f}, would tell."


def _costs(view: View, losses_: Sequence[Loss], how: str) -> str:
    """Losses, in a sentence each, the first with a small letter; how: of a verb and an amount."""
    group, quality, said = view.reading.group, view.reading.quality, []
    if names := [words.quoted(loss.group) for loss in losses_ if loss.group]:
        does = how.format(_way(group), f"{view.choice.tolerance:g}")
        said.append(f"{group.name} {does} for {in_words.names(names)}.")
    if len(names) < len(losses_):
        does = how.format(_way(quality), in_words.per_cent(view.choice.quality_tolerance))
        said.append(f"{quality.name} {does}.")
    return " ".join([*said[:1], *map(phrasing.sentence, said[1:])])


def _way(measure: Measure) -> str:
    """What a measure does where it gets worse."""
    return "rise" if measure.sign > 0 else "fall"


def _closed(view: View) -> list[str]:
    """What became of the harm, where it fell beyond chance and was more than chance before."""
    row = view.harm
    if row is None or view.dense is None or view.was_chance:
        return []
    if not is_closed(view.reading.harm, row):
        return []
    was, now = in_words.apart(row["value"] - row["delta"], row["value"])
    return [f"lowers {view.track.telling.harm(view.run, view.choice)} from {was} to {now}"]


def is_closed(measure: Measure, row: Mapping[str, Any]) -> bool:
    """Whether a harm fell beyond chance."""
    fell = loss_of(measure, row, "", 0.0, False)
    return fell.value < -z_of(GAIN_ERROR) * fell.error


def losses(run: Run, choice: Choice) -> list[Loss]:
    """What a cut did to every judged group and to the quality, as losses."""
    view = View(run, choice)
    group, measure = view.reading.group, view.reading.quality
    found = [
        loss_of(group, row, str(row["group"]), choice.tolerance, False)
        for row in view.groups(known="delta").to_dict("records")
    ]
    quality = view.row(measure)
    if quality is not None and math.isfinite(quality["value"]):
        found.append(loss_of(measure, quality, "", choice.quality_tolerance, True))
    return found


def loss_of(
    measure: Measure, row: Mapping[str, Any], group: str, tolerance: float, is_share: bool
) -> Loss:
    """A change as a loss; is_share: of what it was before, as the perplexity's always is."""
    before, endless = row["value"] - row["delta"], measure.metric == "perplexity"
    scale = abs(before) if (is_share or endless) and before else 1.0
    sides = row["delta"] - row["delta_low"], row["delta_high"] - row["delta"]
    error = max(sides) / scale / z_of(0.025) if all(map(math.isfinite, sides)) else math.nan
    unit = 0.0 if endless else 1 / scale
    return Loss(group, measure.sign * row["delta"] / scale, error, row["n"], unit, tolerance)
