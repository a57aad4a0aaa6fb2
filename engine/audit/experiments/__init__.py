"""The experiments of the performance-weighted loss paper as requests: one experiment, one file, found by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from engine.audit.experiments.base import Experiment, ExperimentAsk
from engine.errors import RequestError, unknown

__all__ = ["Experiment", "ExperimentAsk", "experiment_named", "experiments"]


@cache
def experiments() -> Mapping[str, Experiment]:
    """Every experiment there is, by name."""
    from engine.audit import experiments as package
    from engine.discover import concrete_classes

    return {kind.name: kind() for kind in concrete_classes(package, Experiment)}


def experiment_named(name: str) -> Experiment:
    """The experiment, or RequestError with the known names."""
    if name not in experiments():
        raise RequestError(unknown("experiment", name, experiments()))
    return experiments()[name]
