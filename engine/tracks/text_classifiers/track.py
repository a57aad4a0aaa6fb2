"""The track of attention heads in text classifiers: importance by conductance and others, winning
tickets, who pays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import pandas as pd

from engine.core import words
from engine.core.types import Values
from engine.models import catalog
from engine.report import phrasing
from engine.report.charts import (
    by_group,
    cost,
    flips,
    lookup,
    metric_curve,
    pareto,
)
from engine.report.charts.lookup import repeats
from engine.report.charts.panel import Choice, Panel
from engine.report.classifier_track import (
    evidence,
    in_order,
    mark,
    middle,
    reading_of,
    readings,
    screen,
    telling,
)
from engine.report.classifier_track import more as of_any
from engine.report.classifier_track import notes as of_any_run
from engine.report.palette import Style
from engine.report.tracks import (
    Charts,
    Handout,
    Level,
    Maps,
    Methods,
    Nouns,
    Reading,
    Screens,
    Shelf,
    Variants,
    given,
)
from engine.store.runs import Run
from engine.tracks.text_classifiers import words as own
from engine.tracks.text_classifiers.growing import BENCH
from engine.tracks.text_classifiers.panels import curve, importance, survival
from engine.tracks.text_classifiers.panels.survival import (
    LOST,
    TICKET,
    arm_of,
    few_seeds,
    level_row,
    lost_groups,
    proof_said,
)
from engine.tracks.text_classifiers.words import arm_style

_TRAINING = "Other training: the cost of a cut depends on how the model was fine-tuned."
_SCORING = "Heads were scored in another way: the same name, other heads."
BINDING = {
    "axes": "Another set of axes: only shared axes can be read side by side.",
    "data": "Other texts: levels are not on one scale, and the null bands differ.",
    "texts used": "Another number of texts per subgroup: intervals and null bands differ in width.",
    "max length": "Texts are cut off at another length.",
    "model": "Another model: compare changes, not levels.",
    "pretrained": (
        "Pre-trained weights of another name: if they differ, a winning ticket here is none there."
    ),
    **dict.fromkeys(("tune", "retune"), _TRAINING),
    **dict.fromkeys(("step", "score settings", "score texts"), _SCORING),
    "trials": "Another number of seeds: intervals and standard deviations, and so tickets, differ.",
}
FEW_ARMS = 6
"""Arms up to which every comparison shows all of them."""
CROSSES = "Crosses mark shares at which a seed's model predicts one class only."
TEXTS = (
    "Off: the report and the tables hold no words of the texts. They can be offensive, and belong"
    " to those who wrote them."
)


INVENTED = {
    "remarks": {"people": "invented peoples", "where": "invented towns"},
    "topics": {"voice": "invented voices"},
}
"""Axes of the texts that the project writes itself."""


def does(run: Run, variant: Values) -> str:
    return f"Cutting {variant['n_cut']:.0f} of {run.n_units} heads"


def more(run: Run, choice: Choice, variant: Values) -> str:
    """Whether the cut model is as good as the full one on all texts, for whom alone it is not, and
    why that is open."""
    always = of_any(run, choice, variant)
    row = (
        None
        if variant["variant"] == "dense" or lookup.is_predicted(variant)
        else level_row(run, variant)
    )
    if row is None:
        return always
    if row["state"] not in TICKET:
        doubt = (
            "" if row["state"] == LOST or repeats(run) < 2 else few_seeds(run) or own.SAME_MODELS
        )
        return f"{doubt} {always}".strip()
    lost = [words.quoted(group) for group in lost_groups(run, variant, choice.measured)]
    alone = f", but not for {phrasing.names(lost)} alone" if lost else ""
    return (
        "Over all texts the cut model is as good as the full one, by the spread of its"
        f" seeds{alone}. {always}".strip()
    )


def first_maps(run: Run, choice: Choice) -> Iterator[Panel]:
    """Maps of the importance by the score of the chosen arm, where there is one."""
    for score in importance.scores(run, choice)[:1]:
        yield importance.importance_maps(run, choice, score)


def shelves() -> Iterator[Shelf]:
    found = catalog.list_text_classifiers()
    rows = [
        {
            "Name": entry.name,
            "From": entry.kind,
            "Note": entry.note[:1].upper() + entry.note[1:],
        }
        for entry in found
    ]
    yield Shelf(
        "Text classifiers",
        pd.DataFrame(rows, columns=["Name", "From", "Note"]),
        "Any other encoder whose attention heads end in one output projection works too, with "
        "or without a classification head. So does a decoder with such a head. Type its hub "
        "name or folder under “New audit”.",
    )


def reading(name: str) -> Reading:
    return reading_of("texts", name, "accuracy" if name == "matthews" else name)


MEAN_AND_SD = (
    "A winning ticket is only as good as its definition: mean and standard deviation over few "
    "seeds, on one test set."
)
READINGS = ("accuracy", "auc", "matthews")


def offered(run: Run) -> tuple[str, ...]:
    """Matthews correlation too, where it is the task's metric."""
    is_metric = run.data.get("metric") == "matthews"
    return READINGS if is_metric else READINGS[:2]


def style(method: str, dark: bool = False) -> Style:
    return arm_style(words.BY_HAND if words.is_by_hand(method) else method, dark)


def definition(method: str) -> str:
    if words.is_by_hand(method):
        return f"{words.method_definition(words.BY_HAND)} {own.NOT_RETUNED}"
    procedure, score = arm_of(method)
    parts = (own.PROCEDURES.get(procedure), own.IMPORTANCE.get(score))
    named = ("", f"{own.importance_name(score).capitalize()}: ")
    return " ".join(
        f"{name}{part.definition}" for name, part in zip(named, parts, strict=True) if part
    )


def order(methods: Iterable[str]) -> list[str]:
    return in_order(methods, arm_of, list(own.PROCEDURES), list(own.IMPORTANCE))


def compared(methods: Sequence[str], chosen: str) -> list[str]:
    """Arms that differ from the chosen one in the score alone, or in the procedure alone; few
    arms all."""
    if len(set(methods) - {"dense"}) <= FEW_ARMS or chosen == "dense":
        return list(methods)
    mine = arm_of(chosen)
    return [
        method
        for method in methods
        if any(a == b for a, b in zip(mine, arm_of(method), strict=True))
    ]


def label(variant: Values) -> str:
    return (
        f"{words.method_name(variant['method'])},"
        f" {phrasing.percent(float(variant['sparsity']))} cut"
    )


def amount(run: Run, variant: Values) -> str:
    if not variant["n_cut"]:
        return "nothing"
    asked, realised = (phrasing.percent(float(variant[name])) for name in ("sparsity", "realised"))
    return f"{variant['n_cut']:.0f} of {run.n_units} heads ({realised}; asked {asked})"


def reached(run: Run, variant: Values) -> str:
    asked, realised = (
        phrasing.percent(round(float(variant[name]), 4)) for name in ("sparsity", "realised")
    )
    return f"{asked} asked, {variant['n_cut']:.0f} of {run.n_units} heads cut ({realised})"


def notes(run: Run) -> list[str]:
    return list(dict.fromkeys(filter(None, [*of_any_run(run), few_seeds(run), proof_said(run)])))


SCREEN = screen(
    Nouns(
        "attention heads of a text classifier",
        "head",
        "heads",
        "text",
        "texts",
        "full model",
        "seed",
    ),
    BINDING,
    own.NULL_BAND_TEXTS,
    CROSSES,
    "method sparsity realised degenerate",
    name="text_classifiers",
    level=Level(
        key="share",
        noun="share of heads",
        many="shares of heads",
        help=(
            "Every step is a finished variant; 0 % is the full model. “New audit” starts another"
            " one."
        ),
        first=lambda levels: middle(levels, 0.0),
    ),
    methods=Methods(style, definition, order, compared, line_labels=False),
    variants=Variants(
        label,
        amount,
        reached,
        "method sparsity realised n_cut degenerate ticket",
        partial(mark, "seed"),
        titles={"degenerate": "degenerate seeds"},
    ),
    readings=readings(READINGS, "texts", reading, offered),
    evidence=replace(
        evidence(
            "texts",
            own.INTERVALS_TEXTS,
            (own.MADE_ON_TEXTS, own.NULL_BAND_TEXTS, own.INTERVALS_TEXTS, own.WINNING),
            (MEAN_AND_SD,),
        ),
        notes=notes,
    ),
    screens=Screens(
        ("tickets", "heads", "bench", "examples", "reliability", "sentence"),
        {
            "heads": ("head_maps.MAP", "head_maps.ONE_HEAD", "lens.TAB"),
            "examples": ("changed.TEXTS",),
        },
        {
            "summary": "If we cut these heads, who pays, and how sure are we?",
            "heads": "Which heads attend to what decides?",
            "examples": "Which texts changed class?",
            "reliability": "Would the importance of heads come out again?",
            "trade_off": "What does a smaller gap between subgroups cost?",
        },
    ),
    charts=Charts(
        by_group.paid_by_group,
        metric_curve.gap_along,
        metric_curve.quality_along,
        (by_group.levelling_down, curve.tickets_table, cost.cost),
        (
            by_group.paid_by_group,
            by_group.levelling_down,
            flips.flips,
            curve.tickets_table,
            curve.tickets_by_group,
            importance.score_difference,
            metric_curve.gap_along,
            pareto.pareto,
            given(curve.has_borkan, curve.borkan),
        ),
        (
            curve.tickets_curve,
            importance.random_masks,
            importance.score_truth,
            metric_curve.quality_along,
            survival.survival,
            survival.cut_order,
            first_maps,
            importance.scores_agree,
            importance.importance_repeats,
            survival.iterations,
            cost.cost,
        ),
        (
            importance.importance_repeats,
            survival.survival,
            importance.lowest_repeat,
            importance.scores_agree,
        ),
    ),
    handout=Handout(
        mask=(
            "Which heads to cut, how they were chosen and trained, and the model's hash. A mask "
            "holds no retrained weights."
        ),
        apply="python -m engine apply {name} --model BASE --to DIR",
        checkpoint=(
            "The model with heads cut, fine-tuned as in the audit, with its mask, tokenizer and "
            "card. It is checked on test texts before it is kept."
        ),
        checkpoint_wait=(
            "Building the cut model, loading its weights, comparing its answers with those stored …"
        ),
        loading=(
            "This folder loads with"
            " `engine.surgery.heads.replay.load_cut_classifier(folder)`: it builds"
            " {model[model_type]}, cuts it as `mask.json` says, and fills in the weights; plain"
            " transformers cannot load uneven heads."
        ),
        texts=TEXTS,
    ),
    telling=telling(does, INVENTED, more),
    maps=Maps(
        scores=importance.scores,
        groups=importance.groups,
        name=own.importance_name,
        wide=(importance.importance_maps,),
        beside=(importance.importance_scatter, importance.scores_agree),
        selectable=(importance.importance_maps, importance.importance_scatter),
        numbers=importance.head_numbers,
    ),
    bench=BENCH,
)
