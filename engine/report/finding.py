"""One finding of an audit in a line, for lists of audits: what the usual cut does to harm and
quality."""

from __future__ import annotations

from engine.core import words
from engine.report.charts import lookup
from engine.report.charts.headline import null_warning
from engine.report.contents import default_choice
from engine.store.runs import Run


def finding(run: Run) -> str:
    """The changes at the run's first axis, method and usual level, as its own pages start; not
    picked by result."""
    choice = default_choice(run)
    variant, reading = lookup.variant_of(run, choice), lookup.reading(run, choice)
    said = []
    for measure in (reading.harm, reading.quality):
        row = lookup.measured(run, variant["variant"], measure, choice)
        if row is not None:
            of = f" of {words.axis_name(choice.measured)}" if measure is reading.harm else ""
            number = (
                measure.with_interval(row)
                if variant["variant"] == "dense"
                else f"by {measure.brief(row)}"
            )
            said.append(f"{measure.name}{of} {number}")
    text = f"{lookup.variant_label(run, variant)}: {'; '.join(said) or 'nothing was measured'}."
    inside = (
        " Uncut, the difference is within what chance gives." if null_warning(run, choice) else ""
    )
    return f"{text[:1].upper()}{text[1:]}{inside}"
