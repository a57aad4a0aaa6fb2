"""The track of filters in image classifiers: AutoBot, Taylor and references, with and without the
PW loss."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pandas as pd

from engine.core import words
from engine.core.errors import RequestError
from engine.core.types import Values
from engine.models import catalog
from engine.models.config_file import LARGEST
from engine.report import phrasing
from engine.report.charts import (
    by_group,
    cost,
    filter_layers,
    flips,
    metric_curve,
    pareto,
)
from engine.report.classifier_track import (
    BINDING_IMAGES,
    FACES,
    evidence,
    in_order,
    limits,
    mark,
    middle,
    reading_of,
    readings,
    screen,
    telling,
)
from engine.report.palette import Style
from engine.report.tracks import (
    Charts,
    Handout,
    Level,
    Methods,
    Nouns,
    Screens,
    Shelf,
    Track,
    Variants,
    cut_of,
    given,
)
from engine.store.runs import Run
from engine.store.user_json import read_object
from engine.tracks.image_classifiers import words as own
from engine.tracks.image_classifiers.panels import bench, pw, scores, speedup
from engine.tracks.image_classifiers.panels.speedup import PLAIN, PW, arm_style
from engine.tracks.image_classifiers.words import arm_of, in_units, units_of

STARS = "Stars mark speedups where a trial predicts one class only."
_TRAINING = "Other training: the cost of a cut depends on how the model was retrained."
BINDING = {
    **BINDING_IMAGES,
    **dict.fromkeys(("retrain", "train", "mirror"), _TRAINING),
    "pw": BINDING_IMAGES["method settings"],
    "trials": "Another number of trials: intervals differ in width.",
}


def does(run: Run, variant: Values) -> str:
    return f"Cutting {variant['n_cut']:.0f} of {run.model['n_filters']:,.0f} {units_of(run)}"


def shelves() -> Iterator[Shelf]:
    yield Shelf(
        "Image classifiers",
        embedded_classifiers(),
        "Any ResNet, VGG, EfficientNetV2 or MobileNetV2 with weights of your own works too:"
        " name the architecture or a folder under “New audit”.",
    )


def style(method: str, dark: bool = False) -> Style:
    return arm_style(words.BY_HAND if words.is_by_hand(method) else method, dark)


def definition(method: str) -> str:
    if words.is_by_hand(method):
        return f"{words.method_definition(words.BY_HAND)} {own.NOT_RETRAINED}"
    base, loss = arm_of(method)
    known = own.METHODS.get(base)
    text = known.definition if known else ""
    part = own.LOSSES.get(loss.partition("@")[0])
    return (
        text
        if loss == PLAIN or part is None
        else f"{text} {own.loss_name(loss)}: {part.definition}".strip()
    )


def order(methods: Iterable[str]) -> list[str]:
    return in_order(methods, arm_of, list(own.METHODS), (PLAIN, PW))


def compared(methods: Sequence[str], chosen: str) -> list[str]:
    """Whole arms; one with a switch of the PW loss only where it was chosen."""
    return [method for method in methods if arm_of(method)[1] in (PLAIN, PW) or method == chosen]


def label(variant: Values) -> str:
    name = words.method_name(variant["method"])
    known = not pd.isna(variant.get("achieved", 1.0))  # of what is predicted it is not
    return f"{name}, {phrasing.factor(variant['speedup'])}" if known else name


def amount(run: Run, variant: Values) -> str:
    reached = (
        f"{phrasing.factor(variant['achieved'])} fewer FLOPs, asked"
        f" {phrasing.factor(variant['speedup'])}"
    )
    cut = f"{cut_of(run, variant)} ({phrasing.percent(variant['realised'])}; {reached})"
    return cut if variant["variant"] != "dense" else "nothing"


def reached(run: Run, variant: Values) -> str:
    asked, got = phrasing.factor(variant["speedup"]), phrasing.factor(variant["achieved"])
    return f"{got} (asked {asked}), {cut_of(run, variant)} cut"


HOW_MADE = (own.MADE_ON_IMAGES, words.NULL_BAND, own.INTERVALS_IMAGES)


SCREEN: Track = screen(
    Nouns("filters of an image classifier", "filter", "filters", "image", "images"),
    BINDING,
    words.NULL_BAND,
    STARS,
    "method speedup achieved degenerate",
    "star",
    measures="classes of images, by group",
    name="image_classifiers",
    level=Level(
        key="speedup",
        noun="speedup",
        many="speedups",
        column="speedup",
        realised="achieved",
        asked="speedups",
        none=1.0,
        title="Target speedup (FLOPs, dense over cut)",
        axis="speedup (FLOPs, dense over cut)",
        help=(
            "Every step is a finished variant, retrained; 1× is the model as it is. “New audit”"
            " starts another one."
        ),
        say=phrasing.factor,
        first=lambda levels: middle(levels, 1.0),
        is_ratio=True,
    ),
    methods=Methods(style, definition, order, compared),
    variants=Variants(
        label,
        amount,
        reached,
        "method speedup achieved realised n_cut degenerate",
        partial(mark, "trial"),
        titles={
            "degenerate": "degenerate trials",
            "n_cut": "filters cut",
            "realised": "share of filters cut",
        },
    ),
    readings=readings(("auc", "accuracy"), "images", partial(reading_of, "images")),
    evidence=evidence("images", own.INTERVALS_IMAGES, HOW_MADE, by_hand="one model"),
    screens=Screens(
        ("filters", "bench", "examples", "picture"),
        {"examples": ("changed.IMAGES",)},
        {
            "bench": "What if these filters are off?",
            "summary": "If we cut these filters, who pays, and how sure are we?",
            "examples": "Which images changed class?",
            "trade_off": "What does a smaller gap between subgroups cost?",
        },
    ),
    charts=Charts(
        by_group.paid_by_group,
        metric_curve.gap_along,
        metric_curve.quality_along,
        (by_group.levelling_down, by_group.accuracy_by_group, cost.cost),
        (
            by_group.paid_by_group,
            by_group.levelling_down,
            by_group.accuracy_by_group,
            speedup.groups_along_speedup,
            given(lambda run, choice: pw.has_affected(run), pw.affected),
            pw.pw_difference,
            metric_curve.gap_along,
            pareto.pareto,
            flips.flips,
            given(lambda run, choice: len(pw.switches(run)) > 0, pw.ablation),
            given(pw.has_loss_share, pw.loss_share),
            given(lambda run, choice: run.has("effects"), scores.effect_map),
        ),
        (
            metric_curve.quality_along,
            filter_layers.layer_survival,
            filter_layers.layers_by_speedup,
            scores.score_map,
            speedup.speed,
            cost.cost,
        ),
    ),
    handout=Handout(
        mask=(
            "Which filters to cut, how they were chosen, the model's hash, and the history that "
            "replays the cut. `apply` replays it; a mask holds no retrained weights."
        ),
        apply="python -m engine apply {name} --model BASE --to DIR",
        checkpoint=(
            "The cut and retrained model: `cut.safetensors` with its mask and card, checked on "
            "test images before it is kept."
        ),
        checkpoint_wait=(
            "Building the cut model, loading its weights, comparing its answers with those stored …"
        ),
        loading=(
            "This folder loads with"
            " `engine.surgery.filters.replay.load_cut_classifier(folder)`: it builds"
            " {model[architecture]}, cuts it as `mask.json` says, and fills in `cut.safetensors`."
        ),
    ),
    telling=telling(does, FACES),
    bench=bench.BENCH,
    of_run=lambda run: HEADS if units_of(run) == HEADS.nouns.many else SCREEN,
)


def _in_heads(text: str) -> str:
    return in_units(text, "heads")


def _all_in_heads(texts: Mapping[str, str]) -> dict[str, str]:
    return {name: _in_heads(text) for name, text in texts.items()}


HEADS: Track = replace(
    SCREEN,
    nouns=replace(
        SCREEN.nouns,
        about=_in_heads(SCREEN.nouns.about),
        one="head",
        many="heads",
        reworded=_in_heads,
    ),
    methods=replace(SCREEN.methods, definition=lambda method: _in_heads(definition(method))),
    variants=replace(SCREEN.variants, titles=_all_in_heads(SCREEN.variants.titles)),
    evidence=replace(
        SCREEN.evidence, limits=partial(limits, [_in_heads(text) for text in HOW_MADE], ())
    ),
    screens=replace(
        SCREEN.screens,
        questions=_all_in_heads(
            {**words.of_track(SCREEN.name, "PAGES"), **SCREEN.screens.questions}
        ),
        titles={"filters": "Heads"},
    ),
    handout=replace(SCREEN.handout, mask=_in_heads(SCREEN.handout.mask)),
    bench=bench.BENCH_OF_HEADS,
)
"""The same of heads of a vision transformer: what is said of filters is said of heads."""


def embedded_classifiers() -> pd.DataFrame:
    """Model folders in assets/: those with a model.json."""
    rows = []
    for card in sorted(catalog.ASSETS.glob("*/model.json")):
        try:
            found = read_object(card, LARGEST, "")
            note = (
                f"{found['architecture']}, {len(found['classes'])} classes, {found['size']} pixels"
            )
        except (RequestError, KeyError, TypeError):
            continue
        rows.append({"Name": card.parent.name, "From": "embedded", "Note": note})
    return pd.DataFrame(rows, columns=["Name", "From", "Note"])
