"""Which panels an export of a whole run holds, and which variant it is about when none was
chosen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pandas as pd

from engine.audit.experiments import Experiment, ExperimentAsk
from engine.core.errors import RequestError, unknown
from engine.report.charts import lookup
from engine.report.charts.panel import Choice, Panel
from engine.report.tracks import Some, track_of
from engine.store.runs import Run


class Drawn(Experiment):
    """A figure whose charts are panels of its runs."""

    draws: tuple[Some, ...]

    def panels(
        self, runs: Sequence[Run], ask: ExperimentAsk, dark: bool = False
    ) -> Iterator[Panel]:
        for run in runs:
            yield from _made(self.draws, run, default_choice(run, dark=dark))


def default_choice(
    run: Run, axis: str | None = None, variant: str | None = None, dark: bool = False
) -> Choice:
    """The named variant, of one of several trials their mean; else the track's first method at the
    level where its readers start. Not picked by result. Without an axis the target's, else the
    first of which the variant is reported.

    RequestError for a variant that cannot be named; the known ones are.
    """
    level, reading = track_of(run).level, default_reading(run)
    axes = [axis] if axis else run.request["axes"]
    if variant is not None:
        row = variant_row(run, variant)
        pooled = row.get("pooled")
        variant = pooled if pooled and isinstance(pooled, str) else variant
        table = lookup.reported(run)
        of = (one for one in axes if variant in set(lookup.of_axis(run, table, one)["variant"]))
        axis = next(of, axes[0])
        target = row.get("target_axis") or axis
        amount = float(row[level.column])
        return Choice(row["method"], target, amount, axis, reading, dark, variant=variant)
    axis = axes[0]
    found = lookup.methods(run, axis)
    if not found:
        return Choice("dense", axis, level.none, None, reading, dark)
    first = level.first(lookup.levels(run, found[0], axis))
    return Choice(found[0], axis, first, None, reading, dark)


def default_reading(run: Run) -> str:
    """The reading of harm the run was asked for, else the track's usual one."""
    asked, known = run.request.get("reading"), track_of(run).readings.names
    return asked if asked in known else known[0]


def variant_row(run: Run, variant: str, table: pd.DataFrame | None = None) -> dict:
    """A variant by its id, as `runs show` prints it: one that may be asked for, or any of these."""
    table = lookup.named(run) if table is None else table
    rows = table[table["variant"] == variant]
    if rows.empty:
        raise RequestError(unknown("variant", variant, lookup.reported(run)["variant"]))
    return rows.iloc[0].to_dict()


def axis_panels(run: Run, choice: Choice) -> Iterator[Panel]:
    """What belongs to one axis, in reading order."""
    yield from _made(track_of(run).charts.of_axis, run, choice)


def shared_panels(run: Run, choice: Choice) -> Iterator[Panel]:
    """What belongs to the whole run."""
    yield from _made(track_of(run).charts.of_run, run, choice)


def _made(makes: Iterable[Some], run: Run, choice: Choice) -> Iterator[Panel]:
    for make in makes:
        found = make(run, choice)
        yield from (found,) if isinstance(found, Panel) else found


def all_panels(run: Run, choice: Choice) -> Iterator[tuple[str, Panel]]:
    """(axis or "", panel) for every axis of the run, then what they share."""
    for axis in run.request["axes"]:
        for panel in axis_panels(run, for_axis(run, choice, axis)):
            yield axis, panel
    for panel in shared_panels(run, choice):
        yield "", panel


def panels(
    run: Run, axis: str | None = None, variant: str | None = None, dark: bool = False
) -> dict[str, Panel]:
    """Every panel of one axis and those of the whole run, by key: a question, an answer, `whole()`
    its figure, `table` its numbers. axis, variant: the run's first ones by default, as
    `default_choice` picks them."""
    choice = default_choice(run, axis, variant, dark)
    return {panel.key: panel for panel in (*axis_panels(run, choice), *shared_panels(run, choice))}


def for_axis(run: Run, choice: Choice, axis: str) -> Choice:
    """The same method and level aimed at another axis; where that was not run, the same variant
    measured there."""
    aimed = replace(choice, axis=axis, measured_axis=None)
    try:
        lookup.variant_of(run, aimed)
    except RequestError:
        return replace(choice, measured_axis=axis)
    return aimed
