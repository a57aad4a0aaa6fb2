"""The audits of a text classifier that the project ships; computing them again takes half an
hour."""

from __future__ import annotations

from dataclasses import replace

from engine.tracks.text_classifiers.request import TextRequest

REMARKS = TextRequest(
    model="demo-bert",
    data="remarks",
    axes=("people", "where", "class"),
    methods=(
        "once:conductance",
        "once:attribution_mass",
        "once:abs_corr",
        "once:fixed_class",
        "once:gradient_x_activation",
        "once:michel",
        "once:random",
        "alg61:conductance",
        "one-shot-isp:conductance",
        "one-shot-isp:random",
        "igspf:conductance",
        "igspp:conductance",
        "isp:conductance",
    ),
    sparsities=(0.25, 0.5, 0.75),
    step=0.25,
    trials=3,
    retune=True,
    score_texts=200,
    random_masks=200,
    leave_one_out=True,
    title="Demo: which cut heads are still winning tickets, and for whom",
)
TOPICS = replace(
    REMARKS,
    data="topics",
    axes=("voice", "class"),
    methods=("once:conductance", "one-shot-isp:conductance", "one-shot-isp:random"),
    leave_one_out=False,
    keep_weights="none",
    title="Demo: the same model on another task",
)
"""The second task, for the overlap of surviving heads between tasks, and for chance there."""

REQUESTS = (REMARKS, TOPICS)
