"""The screens of the tracks, found by name; pages and panels ask the run's track and name none."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from engine.audit import tracks as entries
from engine.core import words
from engine.report.contract import Prediction, Track
from engine.store.runs import Run


@cache
def tracks() -> Mapping[str, Track]:
    """Every track by name. Found at the first call, not at import: a track's file imports the
    panels it is made of."""
    return {name: entry.part("screen")() for name, entry in entries.tracks().items()}


def track_name(meta: Mapping[str, object]) -> str:
    """The name of a run's track, from its run.json."""
    return entries.track_of_meta(meta).name


def track_of(run: Run) -> Track:
    """The track of a run, in the run's own words. RequestError for one that this version does not
    know."""
    return tracks()[track_name(run.meta)].of_run(run)


def prediction_of(run: Run) -> Prediction | None:
    """What is said of levels of a run that nobody measured; None where nothing can be."""
    found: Prediction | None = entries.track_of_run(run).given("prediction")
    return found


def question(page: str, run: Run | None) -> str:
    """A page's title: what the run's track calls it, else what it is called everywhere, or by
    another track that it shows."""
    known = [words.gathered("PAGES"), *(track.screens.questions for track in tracks().values())]
    if run:
        own = track_of(run)
        known = [own.screens.questions, words.of_track(own.name, "PAGES"), *known]
    return next(titles[page] for titles in known if page in titles)
