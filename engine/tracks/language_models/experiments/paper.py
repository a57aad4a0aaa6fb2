"""The figures of the FASP paper."""

from __future__ import annotations

from engine.audit.experiments import Sketch
from engine.tracks.language_models.experiments._base import LARGE, PAPER, SMALL, HeadExperiment
from engine.tracks.language_models.experiments._changes import (
    draw_aimed,
    draw_elsewhere,
    gender_changes,
    other_axes,
)
from engine.tracks.language_models.experiments._published import (
    ScoresExperiment,
    correlations,
    shared_heads,
)
from engine.tracks.language_models.panels.correlations import (
    axis_correlation,
    published_correlation,
    published_top_heads,
    top_heads,
)

ROWS = (
    Sketch(
        "fasp-fig1",
        PAPER,
        "Fig. 1",
        "Which heads does FASP protect, and which does it cut? (A drawing.)",
    ),
    HeadExperiment(
        name="fasp-fig2",
        figure="Fig. 2",
        question=(
            "Does FASP lower gender bias without losing perplexity, beside the usual ways of"
            " choosing heads?"
        ),
        models=(*SMALL, *LARGE),
        reads=gender_changes,
        draws=draw_aimed,
    ),
    ScoresExperiment(
        name="fasp-fig3",
        figure="Fig. 3",
        question="Which heads are among the strongest for several axes at once?",
        models=("gpt2",),
        reads=shared_heads,
        of_run=top_heads,
        of_scores=published_top_heads,
    ),
    ScoresExperiment(
        name="fasp-fig4",
        figure="Fig. 4",
        question="Do the same heads add to the bias of every axis?",
        models=SMALL,
        reads=correlations,
        of_run=axis_correlation,
        of_scores=published_correlation,
    ),
    HeadExperiment(
        name="fasp-fig5",
        figure="Fig. 5",
        question="What do heads that are cut for gender do to the bias of the other axes?",
        models=SMALL,
        reads=other_axes,
        draws=draw_elsewhere,
    ),
)
