"""The advice about a cut in simulated worlds: how often it is taken though it harms a group, how
often it is not though it does no harm, and whether a cut that gains nothing is ever taken.

Worlds are those of `language_models`. A cut turns the verdict on some texts, either way, and moves
all texts of a descriptor or a template a little. Harm is exactly as large as tolerated: more is
easier to see. The quality is drawn with its interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.calibration.groups import rows_of
from benchmarks.calibration.language_models import Drawn, World
from benchmarks.report import Measure
from engine.report.charts.panel import Choice
from engine.report.tracks import Measure as Metric
from engine.report.verdict import ERROR, GAIN_ERROR, LEAVE, TAKE, Loss, decide, is_closed, loss_of
from engine.tracks.language_models.bias_intervals import BiasErrors

TOLERATED = Choice("", "", 0.0).tolerance, Choice("", "", 0.0).quality_tolerance
TURNED, WORD, TEMPLATE = 0.02, 0.01, 0.01
"""Share of texts that a cut turns; standard deviations of what it does to a descriptor's texts and
to a template's. The tables then give changes at 60 prompts a standard error of .037. The median
over the demo's changes that do not clearly differ from zero is .029."""
QUALITY, NOISE = 0.01, 0.005
"""By how much a cut makes the quality worse, as a share of it, and the standard error of that."""


@dataclass(frozen=True)
class Cut:
    """What a cut does to texts of some groups, beside chance. diffuse: toxicity added to each;
    rare: share that becomes toxic."""

    name: str
    groups: tuple[int, ...] = ()
    diffuse: float = 0.0
    rare: float = 0.0


NO_HARM = Cut("no harm")
HARMS = (
    Cut("one group worse by the tolerance", (0,), TOLERATED[0]),
    Cut("one group worse by the tolerance, in one text of twenty", (3,), rare=TOLERATED[0]),
    Cut("all groups worse by the tolerance", (0, 1, 2, 3), TOLERATED[0]),
)
WORLDS = {
    "4 × 60 prompts": World(4, 60, 5, 12, 0.15),
    "4 × 60 prompts, 3 words, 6 templates": World(4, 60, 3, 6, 0.15),
    "4 × 300 prompts": World(4, 300, 10, 26, 0.15),
}


def measures(quick: bool) -> list[Measure]:
    worlds = 60 if quick else 1000
    found = []
    for name, world in WORLDS.items():
        for cut in HARMS:
            taken = _answers(world, cut, worlds).count(TAKE) / worlds
            found.append(Measure(f"advice, {name}: takes a cut, {cut.name}", taken, "", ERROR))
    edge = _answers(WORLDS["4 × 300 prompts"], HARMS[2], worlds).count(LEAVE) / worlds
    found.append(Measure("advice: leaves a cut that costs no more than tolerated", edge, "", ERROR))
    for name, world in WORLDS.items():
        taken = _answers(world, NO_HARM, worlds).count(TAKE) / worlds
        bar = 0.85 if name == "4 × 300 prompts" else None
        found.append(Measure(f"advice, {name}: takes a cut, no harm", taken, "", bar, True))
    return [*found, _gains_nothing(20 * worlds)]


def _answers(world: World, cut: Cut, worlds: int) -> list[str]:
    """Answers to a cut that gains something."""
    one = Drawn(world, worlds)
    rows = rows_of(one, np.zeros_like(one.dense), _changes(one, cut))
    return [decide([*map(_loss, each), _quality(one)], True) for each in rows]


def _changes(one: Drawn, cut: Cut) -> np.ndarray:
    """What a cut adds to toxicities, [prompts, worlds]."""
    draw, hit = one.generator, np.isin(one.stratum, cut.groups)[:, None]
    turned = draw.choice((-1.0, 0.0, 1.0), one.dense.shape, p=(TURNED / 2, 1 - TURNED, TURNED / 2))
    harmed = cut.diffuse + (draw.random(one.dense.shape) < cut.rare)
    return turned + one.noise(0.0, WORD, TEMPLATE) + hit * harmed


def _loss(row: dict[str, Any]) -> Loss:
    """What a group loses, as the tables of an audit have it."""
    return loss_of(Metric("toxicity"), row, str(row["group"]), TOLERATED[0], False)


def _quality(one: Drawn) -> Loss:
    """What the quality loses."""
    seen = QUALITY + NOISE * one.generator.standard_normal()
    return Loss("", seen, NOISE, 10_000, 0.0, TOLERATED[1])


def _gains_nothing(worlds: int) -> Measure:
    """How often a gap counts as closed that a cut leaves as it is."""
    one = Drawn(WORLDS["4 × 60 prompts"], worlds)
    bias = BiasErrors(one.table).changes(one.dense + _changes(one, NO_HARM), dense=one.dense)
    ends = zip(bias.value, bias.low, bias.high, strict=True)
    rows = [
        {"value": 1 + value, "delta": value, "delta_low": low, "delta_high": high, "n": 1}
        for value, low, high in ends
    ]
    closed = np.mean([is_closed(Metric("bias:group_means"), row) for row in rows])
    return Measure(
        "advice, 4 × 60 prompts: sees a gain where there is none", closed, "", GAIN_ERROR
    )
