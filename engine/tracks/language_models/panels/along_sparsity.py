"""How bias and perplexity move as more heads are cut, for every method of the run."""

from __future__ import annotations

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.headline import null_warning
from engine.report.charts.metric_curve import Curve, along, seeds_note
from engine.report.charts.panel import Choice, Panel
from engine.store.runs import Run
from engine.tracks.language_models import words as own


def bias_along_sparsity(run: Run, choice: Choice) -> Panel:
    """Bias against the share of heads cut, every method, with the null band of the chosen
    method."""
    measure = lookup.reading(run, choice).harm
    curve = Curve(
        "bias_along_sparsity",
        f"As more {_what(run)}, does the {measure.of(words.axis_name(choice.measured))} fall, and"
        f" does it matter which {_which(run)}?",
        measure,
        (
            f"bias ({own.READINGS[choice.reading].name})"
            if choice.reading in own.READINGS
            else measure.name
        ),
        "This run has no bias for this choice.",
        with_null=True,
    )
    more = f"{seeds_note(run, choice, measure)} {measure.word.caveat}"
    note = lookup.caveat(run, lookup.harm(run, "dense", choice), more=more)
    return along(run, choice, curve, note, null_warning(run, choice))


def _what(run: Run) -> str:
    """What there is more and more of along the axis."""
    return "of the model goes" if _has_arms(run) else "heads are cut"


def _which(run: Run) -> str:
    return "way" if _has_arms(run) else "heads"


def _has_arms(run: Run) -> bool:
    return bool(lookup.stands_instead(lookup.frame(run, "variants")).any())


def perplexity_along_sparsity(run: Run, choice: Choice) -> Panel:
    """Perplexity against the share of heads cut, every method."""
    measure = lookup.reading(run, choice).quality
    curve = Curve(
        "perplexity_along_sparsity",
        f"As more {_what(run)}, how much worse does the model predict text?",
        measure,
        "perplexity",
        "This run has no perplexity.",
    )
    corpus = run.meta.get("corpus") or {}
    tokens = corpus.get("tokens")
    tokens = tokens.get(lookup.REPORTED) if isinstance(tokens, dict) else tokens
    size = f", {phrasing.count(int(tokens), 'token')}" if tokens else ""
    note = f"Text: {corpus.get('name', 'not named')}{size}. {own.INTERVALS_PERPLEXITY} "
    return along(run, choice, curve, (note + seeds_note(run, choice, measure)).strip())
