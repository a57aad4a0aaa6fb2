"""Which panels an export of a whole run holds, and which variant it is about when nobody chose one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from engine.errors import RequestError, unknown
from engine.export.panels import (
    additivity,
    along_sparsity,
    correlations,
    cost,
    heads,
    lookup,
    pareto,
    reliability,
    who_pays,
)
from engine.export.panels.base import Choice, Panel
from engine.store.runs import Run

LARGEST_USUAL = 0.2
"""The paper's largest share of heads; the default report goes no further. Not picked by result."""


def default_choice(run: Run, axis: str | None = None, variant: str | None = None, dark: bool = False) -> Choice:
    """The named variant, else the first method (FASP where it ran) at the largest asked share up to 20 %.

    RequestError for a variant that is not reported; the known ones are named.
    """
    axis = axis or run.meta["request"]["axes"][0]
    reading = run.meta["request"].get("reading", "group_means")
    if variant is not None:
        row = variant_row(run, variant)
        return Choice(row["method"], row["target_axis"] or axis, float(row["sparsity"]), axis, reading, dark)
    found = lookup.methods(run, axis)
    if not found:
        return Choice("dense", axis, 0.0, None, reading, dark)
    shares = [share for share in lookup.sparsities(run, found[0], axis) if share > 0]
    usual = [share for share in shares if share <= LARGEST_USUAL + 1e-9] or shares[:1]
    return Choice(found[0], axis, usual[-1] if usual else 0.0, None, reading, dark)


def variant_row(run: Run, variant: str) -> dict:
    """A reported variant by its id, as `runs show` prints it."""
    table = lookup.reported(run)
    rows = table[table["variant"] == variant]
    if rows.empty:
        raise RequestError(unknown("variant", variant, table["variant"]))
    return rows.iloc[0].to_dict()


def axis_panels(run: Run, choice: Choice) -> Iterator[Panel]:
    """What belongs to one axis, in reading order."""
    yield who_pays.who_pays(run, choice)
    yield who_pays.levelling_down(run, choice)
    yield who_pays.perplexity_by_group(run, choice)
    yield along_sparsity.bias_along_sparsity(run, choice)
    yield pareto.pareto(run, choice)
    yield heads.fasp_picture(run, choice)
    yield additivity.additivity(run, choice)


def shared_panels(run: Run, choice: Choice) -> Iterator[Panel]:
    """What belongs to the whole run."""
    yield along_sparsity.perplexity_along_sparsity(run, choice)
    yield heads.head_map(run, choice, "z_ppl")
    yield correlations.axis_correlation(run, choice)
    yield correlations.top_heads(run, choice)
    yield correlations.method_agreement(run, choice)
    yield reliability.run_repeats(run, choice)
    yield cost.cost(run, choice)


def all_panels(run: Run, choice: Choice) -> Iterator[tuple[str, Panel]]:
    """(axis or "", panel) for every axis of the run, then what they share."""
    for axis in run.meta["request"]["axes"]:
        for panel in axis_panels(run, for_axis(run, choice, axis)):
            yield axis, panel
    for panel in shared_panels(run, choice):
        yield "", panel


def for_axis(run: Run, choice: Choice, axis: str) -> Choice:
    """The same method and share aimed at another axis; where that was not run, the same variant measured there."""
    aimed = replace(choice, axis=axis, measured_axis=None)
    try:
        lookup.variant_of(run, aimed)
    except RequestError:
        return replace(choice, measured_axis=axis)
    return aimed
