"""The plain words in which an audit of a text classifier is told."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from engine.core import words
from engine.report import in_words
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.classifier_telling import CHANCE, better, groups, harm, worse
from engine.report.classifier_telling import more as of_any
from engine.report.contract import Telling
from engine.store.runs import Run
from engine.tracks.text_classifiers.panels.headline import level_row, lost_groups
from engine.tracks.text_classifiers.panels.lookup import TICKET

INVENTED = {
    "remarks": {"people": "invented peoples", "where": "invented towns"},
    "topics": {"voice": "invented voices"},
}
"""Axes of the texts that the project writes itself."""


def does(run: Run, variant: Mapping[str, Any]) -> str:
    return f"Cutting {variant['n_cut']:.0f} of {lookup.total_heads(run)} heads"


def more(run: Run, choice: Choice, variant: Mapping[str, Any]) -> str:
    """Whether the cut model is as good as the full one on all texts, and for whom alone it is
    not."""
    always = of_any(run, choice, variant)
    row = (
        None
        if variant["variant"] == "dense" or lookup.is_predicted(variant)
        else level_row(run, dict(variant))
    )
    if row is None or row["state"] not in TICKET:
        return always
    lost = [words.quoted(group) for group in lost_groups(run, dict(variant), choice.measured)]
    alone = f"; for {in_words.names(lost)} alone it is not" if lost else ""
    return (
        "Over all texts the cut model is as good as the full one, by the spread of its"
        f" seeds{alone}. {always}".strip()
    )


TELLING = Telling(does, partial(groups, invented=INVENTED), harm, worse, better, CHANCE, more=more)
