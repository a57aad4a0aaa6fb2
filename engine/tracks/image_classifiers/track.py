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
from engine.report.charts import by_group, cost, filter_layers, flips, metric_curve, pareto
from engine.report.classifier_track import (
    BINDING_IMAGES,
    CHANCE,
    PARTS,
    ClassifierTrack,
    flags,
    groups,
    harm,
    in_order,
    middle,
    more,
    pareto_question,
    unlearned,
)
from engine.report.palette import Style
from engine.report.tracks import (
    Charts,
    Comparison,
    Front,
    Handout,
    Level,
    Screens,
    Shelf,
    Telling,
    View,
    given,
)
from engine.store.runs import Run
from engine.store.user_json import read_object
from engine.tracks.image_classifiers import words as own
from engine.tracks.image_classifiers.panels import bench, pw, scores, speedup
from engine.tracks.image_classifiers.panels.speedup import PLAIN, PW, arm_of, arm_style
from engine.tracks.image_classifiers.words import in_units, units_of

STARS = "Stars mark speedups where a trial predicts one class only."
_TRAINING = "Other training: the cost of a cut depends on how the model was retrained."
BINDING = {
    **BINDING_IMAGES,
    **dict.fromkeys(("retrain", "train", "mirror"), _TRAINING),
    "pw": BINDING_IMAGES["method settings"],
    "trials": "Another number of trials: intervals differ in width.",
}


DRAWN = {"male": "ways of drawing invented faces", "skin": "skin tones of invented faces"}
INVENTED = {"avatars": DRAWN, "avatars-gap": DRAWN}
"""Axes of the faces that the project draws itself."""


def does(run: Run, variant: Values) -> str:
    return f"Cutting {variant['n_cut']:.0f} of {int(run.model['n_filters'])} {units_of(run)}"


TELLING = Telling(
    does, partial(groups, invented=INVENTED), harm, CHANCE, more=more, unlearned=unlearned
)


def shelves() -> Iterator[Shelf]:
    yield Shelf(
        "Image classifiers",
        embedded_classifiers(),
        "Any ResNet, VGG, EfficientNetV2 or MobileNetV2 with weights of your own works too:"
        " name the architecture or a folder under “New audit”.",
    )


class Filters(ClassifierTrack):
    """Convolution filters of an image classifier, or heads of one; an arm is a method with a loss,
    run in several trials."""

    name = "image_classifiers"
    about = "filters of an image classifier"
    one, many = "filter", "filters"
    item, items = "image", "images"
    level = Level(
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
    )
    bench = bench.BENCH
    pages = ("filters", "bench", "examples", "picture")
    screens = Screens(
        {"examples": ("changed.IMAGES",)},
        {
            "bench": "What if these filters are off?",
            "summary": "If we cut these filters, who pays, and how sure are we?",
            "examples": "Which images changed class?",
            "trade_off": "What does a smaller gap between subgroups cost?",
        },
    )
    readings = ("auc", "accuracy")
    comparison = Comparison(BINDING, PARTS, ("images used", "data"), "classes of images, by group")
    flags = flags("trial", STARS, "star")
    how_made: Sequence[str] = (own.MADE_ON_IMAGES, words.NULL_BAND, own.INTERVALS_IMAGES)
    columns = {
        "method": "method",
        "speedup": "target speedup",
        "achieved": "achieved speedup",
        "realised": "share of filters cut",
        "n_cut": "filters cut",
        "degenerate": "degenerate trials",
    }
    front = Front(
        pareto_question,
        {
            "test": View("Mean of trials (reported)", "test", False, "the mean over trials"),
            "trials": View("Every trial", "test", True, "every trial beside the means"),
        },
        {
            "method": "method",
            "speedup": "target speedup",
            "achieved": "achieved speedup",
            "degenerate": "degenerate trials",
        },
        at_level=True,
    )
    handout = Handout(
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
    )
    telling = TELLING

    def of_run(self, run: Run) -> Filters:
        return HEADS if units_of(run) == HEADS.many else self

    charts = Charts(
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
    )

    def style(self, method: str, dark: bool = False) -> Style:
        return arm_style(words.BY_HAND if words.is_by_hand(method) else method, dark)

    def definition(self, method: str) -> str:
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

    def order(self, methods: Iterable[str]) -> list[str]:
        return in_order(methods, arm_of, list(own.METHODS), (PLAIN, PW))

    def compared(self, methods: Sequence[str], chosen: str) -> list[str]:
        """Whole arms; one with a switch of the PW loss only where it was chosen."""
        return [
            method for method in methods if arm_of(method)[1] in (PLAIN, PW) or method == chosen
        ]

    def by_hand_said(self, run: Run) -> str:
        return "one model"

    def label(self, variant: Values) -> str:
        name = words.method_name(variant["method"])
        known = not pd.isna(variant.get("achieved", 1.0))  # of what is predicted it is not
        return f"{name}, {phrasing.factor(variant['speedup'])}" if known else name

    def amount(self, run: Run, variant: Values) -> str:
        reached = (
            f"{phrasing.factor(variant['achieved'])} fewer FLOPs, asked"
            f" {phrasing.factor(variant['speedup'])}"
        )
        cut = f"{self.cut_of(run, variant)} ({phrasing.percent(variant['realised'])}; {reached})"
        return cut if variant["variant"] != "dense" else "nothing"

    def reached(self, run: Run, variant: Values) -> str:
        asked, got = phrasing.factor(variant["speedup"]), phrasing.factor(variant["achieved"])
        return f"{got} (asked {asked}), {variant['n_cut']:.0f} of {run.n_units} {self.many} cut"

    intervals = own.INTERVALS_IMAGES


class Heads(Filters):
    """The same of heads of a vision transformer: what is said of filters is said of heads."""

    def __init__(self) -> None:
        self.one, self.many, self.about = "head", "heads", self._in_heads(Filters.about)
        self.bench = bench.BENCH_OF_HEADS
        pages = {**words.of_track(Filters.name, "PAGES"), **Filters.screens.questions}
        questions = self._all_in_heads(pages)
        self.screens = replace(Filters.screens, questions=questions, titles={"filters": "Heads"})
        self.columns = self._all_in_heads(Filters.columns)
        self.how_made = [self._in_heads(text) for text in Filters.how_made]
        self.handout = replace(Filters.handout, mask=self._in_heads(Filters.handout.mask))

    def definition(self, method: str) -> str:
        return self._in_heads(super().definition(method))

    def terms(self) -> Mapping[str, str]:
        return self._all_in_heads(super().terms())

    def _in_heads(self, text: str) -> str:
        return in_units(text, "heads")

    def _all_in_heads(self, texts: Mapping[str, str]) -> dict[str, str]:
        return {name: self._in_heads(text) for name, text in texts.items()}


HEADS = Heads()


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
