"""The track of fair training: masks and weights learned together (BiFP), and what they are compared
with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from engine.core import words
from engine.core.types import Values
from engine.report import phrasing
from engine.report.charts import (
    by_group,
    filter_layers,
    flips,
    metric_curve,
    pareto,
)
from engine.report.charts.panel import Choice
from engine.report.classifier_track import (
    BINDING_IMAGES,
    FACES,
    evidence,
    in_order,
    middle,
    reading_of,
    readings,
    screen,
    telling,
)
from engine.report.classifier_track import mark as repeat_mark
from engine.report.classifier_track import more as of_any
from engine.report.palette import Style, style_of
from engine.report.tracks import (
    Charts,
    Handout,
    Level,
    Measure,
    Methods,
    Nouns,
    Reading,
    Screens,
    Variants,
    Ways,
    given,
)
from engine.store.runs import Run
from engine.tracks.fair_training import words as own
from engine.tracks.fair_training.panels import curve, differences, effort, training_curves
from engine.tracks.fair_training.panels.curve import (
    FILTERS,
    LOOKS,
    WEIGHTS,
    fair_axis,
    is_ablation,
)

DEGRADATION = "degradation"
FLAGGED = "Crosses mark sparsities at which a seed's model predicts one class only."
_TRAINING = "Other training: the results, and how fast they come, depend on it."
BINDING = {
    "track": (
        "Two kinds of audit: they differ in what is cut, in training and in what a level means. "
        "Only measures on the same images stand side by side."
    ),
    **BINDING_IMAGES,
    **dict.fromkeys(("iterations", "recipe", "train", "mirror", "tune on"), _TRAINING),
    "equal": "Another meaning of a share cut: of FLOPs, or of filters.",
    **dict.fromkeys(
        ("strength", "tolerance", "notion"),
        "Another fairness term: λ, τ or the kind of gap differ.",
    ),
    "seeds": "Another number of seeds: intervals differ in width.",
}


def does(run: Run, variant: Values) -> str:
    if not variant["n_cut"]:
        return f"Training on without a cut ({words.method_name(variant['method'])})"
    return f"Training with {cut_of(run, variant)} cut"


def more(run: Run, choice: Choice, variant: Values) -> str:
    """That zeros save nothing, and that another axis was trained for."""
    found = [own.NOT_FASTER] if variant.get("units") == WEIGHTS and variant["n_cut"] else []
    if choice.measured != fair_axis(run) and variant["variant"] != "dense":
        axis = words.axis_name(fair_axis(run))
        found.append(f"Training aimed at fairness between groups of {axis} only.")
    return " ".join(filter(None, (of_any(run, choice, variant), *map(phrasing.sentence, found))))


MORE_LIMITS = (
    "Training aimed at fairness on the first axis only; the others were only measured.",
    "A share of weights and the same share of filters, or of FLOPs, are not the same size or "
    "speed.",
    own.NOT_FASTER,
)
LEVEL = Level(
    key="cut",
    noun="share cut",
    many="shares",
    title="Sparsity (share of FLOPs, filters or weights cut)",
    axis="share cut (of FLOPs or filters, or of weights)",
    help=(
        "Every step is a finished variant; 0 % is the starting model. “New audit” starts"
        " another one."
    ),
    say=lambda share: phrasing.percent(round(share, 4)),
    first=lambda levels: middle(levels, 0.0),
)
UNCUT = ("dense-tuned", "dense-fair")


def reading(name: str) -> Reading:
    """Degradation: how unevenly the loss of accuracy falls; its ends are those of accuracy."""
    if name != DEGRADATION:
        found = reading_of("images", name)
        return replace(found, label=found.gap.name)
    gap = Measure("degradation_gap", few="images")
    return replace(reading_of("images", "accuracy"), name=name, harm=gap, label=gap.name)


def style(method: str, dark: bool = False) -> Style:
    return style_of(method, LOOKS, dark)


def definition(method: str) -> str:
    known = own.METHODS.get(method)
    return known.definition if known else ""


def order(methods: Iterable[str]) -> list[str]:
    return in_order(methods, lambda name: (name,), list(own.METHODS))


def compared(methods: Sequence[str], chosen: str) -> list[str]:
    """All but ablations; those beside BiFP where one of them was chosen."""
    if is_ablation(chosen):
        return [
            name
            for name in methods
            if is_ablation(name) or name.startswith("bifp") or name in UNCUT
        ]
    return [name for name in methods if not is_ablation(name)]


def cut_of(run: Run, variant: Values) -> str:
    units, realised = str(variant.get("units") or FILTERS), float(variant["realised"])
    of = (
        run.n_units
        if units == FILTERS or not realised
        else round(float(variant["n_cut"]) / realised)
    )
    return f"{variant['n_cut']:,.0f} of {of:,} {units}"


def label(variant: Values) -> str:
    name = words.method_name(variant["method"])
    return name if variant["method"] in UNCUT else f"{name}, {LEVEL.say(variant['sparsity'])} cut"


def mark(variant: Values) -> str:
    """λ where it is a point of the sweep, and the seed."""
    swept = f", λ = {variant['strength']:g}" if variant.get("role") == "tradeoff" else ""
    return f"{swept}{repeat_mark('seed', variant)}"


def amount(run: Run, variant: Values) -> str:
    if not variant["n_cut"]:
        return "nothing"
    asked, realised = (LEVEL.say(float(variant[name])) for name in ("sparsity", "realised"))
    of = " of FLOPs" if variant.get("units") == FILTERS and run.request["equal"] != FILTERS else ""
    return f"{cut_of(run, variant)} ({realised}{of}; asked {asked})"


def reached(run: Run, variant: Values) -> str:
    if not variant["n_cut"]:
        return "nothing cut"
    faster = (
        "nothing gets faster"
        if variant.get("units") == WEIGHTS
        else (
            f"{phrasing.factor(variant['speedup'])} fewer FLOPs"
            if variant.get("speedup", 1.0) > 1
            else ""
        )
    )
    parts = [f"{amount(run, variant)}", faster]
    return ", ".join(filter(None, parts))


def settings(run: Run) -> list[tuple[str, Any]]:
    targets = run.meta.get("targets") or {}
    shares = run.data.get("group_shares") or {}
    found = [
        (f"stated {name}", round(float(value), 4))
        for name, value in targets.items()
        if value is not None
    ]
    return found + [
        (
            "shares of groups in training",
            {words.group_name(name): round(float(value), 4) for name, value in shares.items()},
        )
    ]


SCREEN = screen(
    Nouns(
        "fair training of sparse image classifiers",
        "filter or weight",
        "filters or weights",
        "image",
        "images",
        "starting model",
        "seed",
    ),
    BINDING,
    words.NULL_BAND,
    FLAGGED,
    "method sparsity realised units strength degenerate",
    swept="λ",
    measures="classes of images, by group",
    name="fair_training",
    level=LEVEL,
    methods=Methods(style, definition, order, compared, line_labels=False),
    variants=Variants(
        label,
        amount,
        reached,
        "method sparsity realised n_cut units strength parameters_cut speedup degenerate",
        mark,
        cut_of,
        titles={
            "degenerate": "degenerate seeds",
            "n_cut": "units cut",
            "speedup": "speedup by FLOPs",
        },
    ),
    readings=readings(("accuracy", DEGRADATION, "auc"), "images", reading),
    evidence=replace(
        evidence(
            "images",
            own.INTERVALS_SEEDS,
            (own.MADE_ON_FAIR, words.NULL_BAND, own.INTERVALS_SEEDS, own.SURROGATE),
            MORE_LIMITS,
        ),
        settings=settings,
    ),
    screens=Screens(
        ("training", "examples", "picture"),
        {"examples": ("changed.IMAGES",)},
        {
            "summary": "Trained sparse and fair: who pays, and how sure are we?",
            "examples": "Which images changed class?",
            "trade_off": "What does a smaller gap between subgroups cost?",
        },
    ),
    charts=Charts(
        by_group.paid_by_group,
        metric_curve.gap_along,
        metric_curve.quality_along,
        (by_group.levelling_down, differences.bifp_against, curve.saved),
        (
            curve.fair_curve,
            differences.bifp_against,
            given(
                lambda run, choice: not differences.against(run, choice).empty, differences.widths
            ),
            by_group.paid_by_group,
            by_group.levelling_down,
            pareto.pareto,
            flips.flips,
            given(differences.has_tradeoff, differences.tradeoff),
        ),
        (
            metric_curve.quality_along,
            effort.effort,
            training_curves.training,
            filter_layers.layer_survival,
            filter_layers.layers_by_speedup,
            given(training_curves.has_surface, training_curves.surface),
            given(training_curves.has_path, training_curves.path),
            curve.saved,
        ),
    ),
    handout=Handout(
        mask=(
            "Filters: which to cut, the model's hash, and the history that replays the cut. "
            "Weights: how many of every layer are zero; the checkpoint holds which ones. A mask "
            "holds no trained weights."
        ),
        apply="python -m engine apply {name} --model BASE --to DIR  # masks of filters only",
        checkpoint=(
            "The trained model with its mask and card, checked on test images before it is kept. "
            "Filters are really cut. Where weights are cut, the whole model is written with "
            "zeros, and nothing gets faster."
        ),
        checkpoint_wait=(
            "Building the model, loading its weights, comparing its answers with those stored …"
        ),
        loading=(
            "Filters cut: this folder loads with"
            " `engine.surgery.filters.replay.load_cut_classifier(folder)`, which builds"
            " {model[architecture]}, cuts it as `mask.json` says, and fills in `cut.safetensors`."
            "\n\nWeights cut: it loads with"
            " `engine.models.load_image_classifier.load_classifier(folder)`; the zeros are in the"
            " weights, and the model is as large and as fast as before."
        ),
    ),
    telling=telling(does, FACES, more),
    ways=Ways(uncut=UNCUT),
)
