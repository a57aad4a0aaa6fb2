"""The experiments of the performance-weighted loss paper as requests: one experiment, one row, found by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from engine.core.errors import RequestError, unknown
from engine.tracks.image_classifiers.experiments.base import Experiment, ExperimentAsk

__all__ = ["Experiment", "ExperimentAsk", "experiment_named", "experiments"]


@cache
def experiments() -> Mapping[str, Experiment]:
    """Every experiment there is, by name."""
    from engine.core.discover import members
    from engine.tracks.image_classifiers import experiments as package

    return {one.name: one for one in members(package, Experiment)}


def experiment_named(name: str) -> Experiment:
    """The experiment, or RequestError with the known names."""
    if name not in experiments():
        raise RequestError(unknown("experiment", name, experiments()))
    return experiments()[name]
