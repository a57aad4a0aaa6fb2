"""What is asked of an audit of a text classifier's heads, and whether it can be asked: every fault
at once."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from engine.audit.command_line import absolute
from engine.audit.fields import (
    HOW,
    WHAT,
    Offer,
    Values,
    asked,
    attempt,
    axis_faults,
    checked,
    is_number,
    part,
)
from engine.audit.request import MORE, Plan, Request, spelled, versions_of
from engine.classifiers.layout import TEXTS, Outputs, columns_of, in_order_of, split_faults
from engine.core.errors import Fault, RequestError, unknown
from engine.core.types import exact_count, setting_faults
from engine.core.words import axis_name
from engine.data.tables import axes_of
from engine.data.texts.glue import GLUE_TASKS, hub_order
from engine.data.texts.load import TextAsk, TextInfo, TextSet, load_texts, look_texts
from engine.models import catalog
from engine.models.catalog import ASSETS, resolve
from engine.models.config_file import hashes_beside
from engine.tracks.text_classifiers import words
from engine.tracks.text_classifiers.context import FILTERS, TEST, TRAIN, TextSettings
from engine.tracks.text_classifiers.procedures import procedures
from engine.tracks.text_classifiers.scores.base import head_importances, settings_of
from engine.training.recipe import Recipe, recipe_settings

THESIS: dict[str, Any] = {
    "epochs": 3,
    "rate": 2e-5,
    "batch": 32,
    "schedule": "linear",
    "weight_decay": 0.0,
}
"""All eight GLUE tasks alike: 3 epochs, batches of 32, AdamW at 2e-5 with epsilon 1e-8. The thesis
names no schedule and no weight decay; a line to zero per epoch and none are usual for BERT."""


SCORE_TEXTS = 2000
"""Training texts a score reads (Sec. 6.6.1)."""


SMALL = ASSETS / "demo-bert"


DEMO: dict[str, Any] = {
    "epochs": 6,
    "rate": 1e-3,
    "batch": 32,
    "schedule": "linear",
    "weight_decay": 0.0,
}
"""Fine-tuning of the embedded demo-bert, which is a hundred times smaller and wants larger steps.
"""


def tune_of(model: str) -> Values:
    """The usual fine-tuning of a model: the thesis', but for the embedded demo-bert and its
    pre-trained weights."""
    place = resolve(model)
    small = isinstance(place, Path) and Path(os.path.realpath(place)) in (
        SMALL,
        SMALL / "pretrained",
    )  # of loops too
    return dict(DEMO if small else THESIS)


CODE = 5
"""Version of the audit itself. Raise when a finished run would come out differently for the same
request."""
KEPT = ("first", "all", "none")
MOST_KEPT = 4e9
"""Bytes of weights that a run may keep."""
CLASS_AXIS = "class"
RANDOM_MASKS = 200
"""Random masks per sparsity that an arm which trains nothing is compared with, unless the request
says otherwise."""

LONGEST = 128
"""Tokens of a text that are read unless the request says otherwise."""
EMBEDDED = ("remarks", "topics")
SCORING, TUNING = "How heads are scored", "Fine-tuning"
FILTERED = {
    "quantiles": "The middle 90 % of lengths",
    "deviation": "Mean \u00b1 2 standard deviations",
}
TUNED = {
    None: "Usual: fine-tuned here where it has no head",
    True: "Fine-tuned here, with every seed",
    False: "As it is brought",
}
UNUSED = ("mirror", "patience")
"""What of a recipe is of no use for texts: they have no mirror image, and are fine-tuned for as
long as is said."""
KEEP = {"first": "Of the first seed", "all": "Of every seed", "none": "Of none"}


def look_at(data: str) -> TextInfo | None:
    """What a source of texts offers; None where nothing can read it, which the check will say.
    Downloads nothing."""
    is_here = data and not data.startswith("glue:")
    return attempt(lambda: look_texts(absolute(data)), []) if is_here else None


def usual_axes(data: str, target: str | None = None) -> tuple[str, ...]:
    """The axes of a set of texts where the request names none: its usual groups but what is
    predicted, and classes."""
    taken = (target or "").casefold()
    own = (axis for axis in look_texts(data).default_groups if axis.casefold() != taken)
    return (*own, CLASS_AXIS)


def own_axes(data: str, axes: Iterable[str]) -> tuple[str, ...]:
    """Axes by the names that the columns of the texts have, however they are written."""
    info = look_at(data)
    return tuple(axes) if info is None else axes_of(axes, (*info.groups, *info.columns))


def _usual_axes(values: Values) -> tuple[str, ...]:
    if "data" not in values:
        return ()
    return attempt(lambda: usual_axes(values["data"], values.get("target")), []) or (CLASS_AXIS,)


def _models(_: Values) -> Offer:
    names = [entry.name for entry in catalog.list_text_classifiers()]
    return Offer(names, names[0] if names else None)


def _texts(_: Values) -> Offer:
    return Offer([*EMBEDDED, *(f"glue:{task}" for task in GLUE_TASKS)], EMBEDDED[0])


def _axes(values: Values) -> Offer:
    info = look_at(values["data"])
    if info is None:
        note = "Groups: length and class; more once the texts can be read."
        return Offer(("length", CLASS_AXIS), ("length",), note)
    taken = {values[name] for name in ("text", "text_b", "target") if values[name]}
    known = dict.fromkeys([*info.default_groups, *info.groups, CLASS_AXIS])
    usual = [axis for axis in info.default_groups or (CLASS_AXIS,) if axis not in taken]
    return Offer([axis for axis in known if axis not in taken], usual, info.note)


def _has_columns(values: Values) -> bool:
    """Whether the texts lie in a file of the user's own, whose columns may mean anything."""
    info = None if values["data"] in EMBEDDED else look_at(values["data"])
    return info is not None and bool(info.columns)


def _columns(usual: str, *more: str) -> Callable[[Values], Offer]:
    """The columns of a file of texts; `usual` names the attribute that says which one it is, or the
    column."""

    def offer(values: Values) -> Offer:
        info = look_at(values["data"])
        columns = (*more, *info.columns) if info else ()
        place = getattr(info, usual, usual)
        return Offer(columns, place if place in columns else "")

    return offer


def _definitions(chosen: Sequence[str]) -> str:
    """What the chosen procedures do."""
    told = [words.PROCEDURES[name] for name in chosen if name in words.PROCEDURES]
    return "  \n".join(f"**{word.name}**: {word.definition}" for word in told)


PROCEDURE = part(
    "procedure",
    "names",
    ("once", "one-shot-isp"),
    metavar="NAME[,NAME]",
    commas=True,
    known=lambda: list(procedures()),
    help="once, alg61, one-shot-isp, igspf, igspp, isp, isp-strict",
    label="Procedures",
    named=words.procedure_name,
    about=_definitions,
)
SCORE = part(
    "score",
    "names",
    ("conductance",),
    metavar="NAME[,NAME]",
    commas=True,
    label="Scores",
    help=", ".join(words.IMPORTANCE),
    starts=("conductance", "random"),
    known=lambda: sorted(head_importances(), key=[*words.IMPORTANCE, *head_importances()].index),
    named=words.importance_name,
    hint="Random choice is the control: what a cut costs without any knowledge of the heads.",
)


def _arms_of(parts: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Every procedure with every score."""
    return tuple(f"{procedure}:{score}" for procedure in parts[0] for score in parts[1])


def _arm_faults(methods: Sequence[str], _: Values) -> list[Fault]:
    arms, faults = [arm_of(name) for name in methods], []
    for procedure, score in arms:
        if procedure not in procedures():
            faults.append(unknown("procedure", procedure, procedures()))
        if score not in head_importances():
            faults.append(unknown("score", score, head_importances()))
    if not arms:
        faults.append(Fault("procedure", "none is named.", f"Known: {', '.join(procedures())}."))
    if len(set(arms)) < len(arms):
        faults.append(
            Fault("procedure", "one is named twice with the same score.", "Name each once.")
        )
    return faults


def _tune_faults(given: Values, values: Values) -> list[Fault]:
    known = [name for name in Recipe.known() if name not in UNUSED]
    wrong = [unknown("tune", name, known) for name in given if name not in known]
    return wrong or tuned_by(values["model"], given).faults("tune")


def tuned_by(model: str, given: Values) -> Recipe:
    """The usual fine-tuning of a model, with what was asked instead."""
    return Recipe(**{**tune_of(model), **given, "mirror": False})


@dataclass(frozen=True)
class TextRequest(Request):
    """An audit of a text classifier as it is asked for. Paths stay as written.

    model: a fine-tuned classifier, or pre-trained weights; pretrained: the weights before
    fine-tuning, where `model` is fine-tuned and does not bring them along (a folder `pretrained` in
    it). classes: of the texts, in the order of the model's outputs; () as its files name them.
    retune: fine-tune the full model here in every trial; None: where `model` has no classification
    head. methods: arms such as "isp:conductance".
    step: share of heads one round takes (kappa), of the initial heads or of those left.
    score_texts: training texts a score reads. length_filter: which lengths those texts have.
    score_settings: settings per score. random_masks: masks of random heads, per sparsity, that the
    arms which train nothing are compared with; None: RANDOM_MASKS where there is such an arm.
    leave_one_out: whether every head of the full model is silenced alone, the truth that scores are
    held against. max_length: tokens of a text that are read, None: 128 or what the model can.
    """

    model: str = asked(
        kind="source",
        metavar="NAME_OR_FOLDER",
        help="a text classifier, or pre-trained weights",
        counts="content",
        section=WHAT,
        label="Model",
        placeholder="Hub name or folder",
        offered=_models,
        hint=(
            "A text classifier with safetensors weights: BERT, RoBERTa, DeBERTa, ELECTRA, "
            "ModernBERT and others. An encoder without a classification head (bert-base-uncased) "
            "is fine-tuned here."
        ),
    )
    data: str = asked(
        kind="source",
        option="--task",
        metavar="NAME_OR_PATH",
        counts="content",
        section=WHAT,
        label="Texts",
        reads=look_texts,
        help=(
            "remarks, topics, a GLUE folder, glue:rte (from the hub), or a CSV with text and label"
        ),
        offered=_texts,
        upload=("csv", "tsv"),
        hint=(
            "Embedded (remarks, topics), a GLUE task from the hub, or a path. A path leads to the "
            "folder of a GLUE task, or a CSV with text, label, and perhaps text_b, split and "
            "group columns."
        ),
    )
    axes: tuple[str, ...] = asked(
        option="--axis",
        metavar="AXIS",
        help="group column, or class; may be given several times",
        where="axis",
        usual=_usual_axes,
        section=WHAT,
        last=True,
        label="Groups",
        offered=_axes,
        named=axis_name,
    )
    pretrained: str | None = asked(
        None,
        kind="source",
        metavar="NAME_OR_FOLDER",
        counts="content",
        section=WHAT,
        help="the weights before fine-tuning, if the model lacks them",
        label="Pre-trained weights",
        placeholder="those the model brings along, if any",
        hint=(
            "Hub name or folder of the weights before fine-tuning. A winning ticket is trained from"
            " them."
        ),
    )
    text: str | None = asked(
        None,
        metavar="COLUMN",
        help="of a CSV: the text",
        section=WHAT,
        label="Text",
        shown=_has_columns,
        offered=_columns("default_text"),
    )
    text_b: str | None = asked(
        None,
        metavar="COLUMN",
        help="of a CSV: the second text of pairs",
        section=WHAT,
        label="Second text",
        shown=_has_columns,
        offered=_columns("text_b", ""),
        named=lambda name: name or "none",
    )
    target: str | None = asked(
        None,
        metavar="COLUMN",
        help="of a CSV: the label",
        section=WHAT,
        label="Label",
        shown=_has_columns,
        offered=_columns("default_target"),
    )
    classes: tuple[str, ...] = asked(
        (),
        commas=True,
        some=False,
        metavar="LIST",
        counts="content",
        section=WHAT,
        help=("the texts' classes in the order of the model's outputs, unless its files name them"),
        label="Classes in the order of the model's outputs",
        placeholder="as the model's files name them",
        hint=(
            "Leave it empty: where names do not tell, the check shows what the model answers to"
            " three texts."
        ),
        shown=lambda values: values.get("model") not in _models(values).options,
    )
    methods: tuple[str, ...] = asked(
        ("once:conductance", "one-shot-isp:conductance", "one-shot-isp:random"),
        kind="product",
        where="procedure",
        parts=(PROCEDURE, SCORE),
        join=_arms_of,
        check=_arm_faults,
        section=HOW,
        counted=("way to cut", "ways to cut"),
    )
    sparsities: tuple[float, ...] = asked(
        (0.25, 0.5, 0.75),
        option="--sparsity",
        metavar="LIST",
        help="shares of heads to cut",
        above=0.0,
        below=1.0,
        where="sparsity",
        example="0.25,0.5,0.75",
        percent=True,
        section=HOW,
        label="Sparsities",
        unit="percent of heads cut",
        quick=(0.5,),
        counted=("sparsity", "sparsities"),
    )
    step: float = asked(
        0.1,
        metavar="KAPPA",
        help="share of heads that one round cuts",
        above=0.0,
        below=1.0,
        percent=True,
        slider=(0.01, 0.5, 0.01),
        section=SCORING,
        label="Heads cut in one iteration",
        unit="percent",
    )
    trials: int = asked(
        3,
        option="--seeds",
        minimum=1,
        help="how many seeds; fewer than 3 name no ticket",
        section=HOW,
        label="Seeds",
        hint="Fine-tunings of everything. Three at least for a ticket.",
        quick=1,
        counted=("seed", "seeds"),
    )
    retune: bool | None = asked(
        None,
        help="fine-tune the full model here, per seed",
        section=TUNING,
        label="The full model",
        named=TUNED.get,
        hint=(
            "Tickets are compared with it. Fine-tuned here: with every seed, as the subnetworks "
            "are."
        ),
    )
    tune: dict[str, Any] = asked(
        {},
        kind="pairs",
        metavar="NAME=VALUE",
        help="epochs, rate, batch, … of fine-tuning",
        section=TUNING,
        check=_tune_faults,
        of=lambda values: recipe_settings(tune_of(values["model"]), "Texts"),
        label="Fine-tuning",
    )
    score_settings: dict[str, dict[str, Any]] = asked(
        {},
        option="--set",
        metavar="SCORE.NAME=VALUE",
        where="setting",
        section=SCORING,
        last=True,
        help="a setting of a score, such as conductance.steps=10",
        named=words.importance_name,
        of=lambda values: {name: score.settings for name, score in head_importances().items()},
        chosen=lambda values: dict.fromkeys(arm_of(arm)[1] for arm in values["methods"]),
    )
    score_texts: int = asked(
        SCORE_TEXTS,
        minimum=2,
        metavar="N",
        help="training texts that a score reads",
        section=SCORING,
        label="Training texts a score reads",
        hint="Drawn in equal numbers from the classes, of usual length.",
    )
    length_filter: str = asked(
        "quantiles",
        choices=FILTERS,
        section=SCORING,
        label="Texts of usual length",
        named=FILTERED.get,
        help=(
            "which training texts a score may read: the middle 90 % of lengths, or the mean plus or"
            " minus two standard deviations"
        ),
    )
    random_masks: int | None = asked(
        None,
        minimum=0,
        metavar="N",
        section=SCORING,
        label="Random masks",
        help=(
            "masks of random heads per sparsity, the null of what trains nothing again (default"
            " 200, 0 for none)"
        ),
        placeholder="200, where nothing is trained again",
        hint=(
            "The null of single scoring and Algorithm 6.1: the same number of heads drawn at "
            "random, on the same weights. Each costs one pass over the test texts. Procedures "
            "that train again would need a training per mask."
        ),
    )
    leave_one_out: bool = asked(
        False,
        section=SCORING,
        label="Silence every head alone",
        help="silence every head alone, the truth that scores are compared with",
        hint=(
            "Loss and accuracy without each head: one pass over the test texts per head and seed."
        ),
    )
    max_length: int | None = asked(
        None,
        minimum=8,
        metavar="TOKENS",
        section=MORE,
        help="how much of a text is read (default 128)",
        label="Tokens of a text at most",
        placeholder="128, or what the model can",
    )
    max_texts: int | None = asked(
        None,
        minimum=20,
        metavar="N",
        help="at most this many texts per split",
        section=HOW,
        label="Texts per split at most",
        placeholder="all of them",
        quick=400,
    )
    keep_weights: str = asked(
        "first",
        choices=KEPT,
        help=f"of which seeds models are kept: {', '.join(KEPT)}",
        section=MORE,
        label="Keep the weights of cut models",
        named=KEEP.get,
    )

    track = "text_classifiers"

    @property
    def arms(self) -> list[tuple[str, str]]:
        """(procedure, score) of each arm: "isp" is ("isp", "conductance")."""
        return [arm_of(name) for name in self.methods]

    @property
    def n_random_masks(self) -> int:
        """Random masks per sparsity; 0 where every arm trains."""
        usual = RANDOM_MASKS if any(not procedures()[name].retrains for name, _ in self.arms) else 0
        return usual if self.random_masks is None else self.random_masks

    @property
    def recipe(self) -> Recipe:
        """How pre-trained weights are fine-tuned."""
        return tuned_by(self.model, self.tune)


@dataclass(frozen=True)
class TextPlan(Plan):
    """A request that holds up: its texts listed, its models inspected but not loaded."""

    request: TextRequest
    texts: TextSet
    model: Any  # engine.models.load_text_classifier.TextModelInfo
    start: Any | None
    """What is known of the pre-trained weights; None where there are none."""

    @property
    def retune(self) -> bool:
        """Whether every trial fine-tunes a full model of its own."""
        return retunes(self.request, self.model)

    @property
    def start_name(self) -> str | None:
        """Where the pre-trained weights are."""
        return start_name(self.request, self.model)

    @property
    def max_length(self) -> int:
        """Tokens of a text that are read."""
        return self.request.max_length or min(LONGEST, self.model.n_positions)

    @property
    def content(self) -> list[Any]:
        """What the numbers rest on besides the request: hashes of weights and texts."""
        return [*self.identity, self.texts.digest]

    @property
    def identity(self) -> list[Any]:
        """Hashes of weights, configuration and tokenizer of the model and of the pre-trained
        one."""
        return [hashes_of(info) for info in (self.model, self.start) if info is not None]

    @property
    def versions(self) -> dict[str, int]:
        from engine.tracks.text_classifiers.measurements import text_measurements

        walked = {name: procedures()[name] for name, _ in self.request.arms}
        scores = {name: head_importances()[name] for _, name in self.request.arms}
        return versions_of(CODE, measurement=text_measurements(), procedure=walked, score=scores)

    def spelled_out(self) -> dict[str, Any]:
        """The request with every default it relies on written out, JSON-able."""
        request = self.request
        methods = [":".join(arm) for arm in request.arms]
        recipe = {
            name: value for name, value in request.recipe.to_dict().items() if name != "mirror"
        }
        settings = {
            name: spelled(head_importances()[name].settings, request.score_settings.get(name, {}))
            for name in dict.fromkeys(score for _, score in request.arms)
        }
        return request.to_dict() | {
            "methods": methods,
            "retune": self.retune,
            "tune": recipe,
            "score_settings": settings,
            "random_masks": request.n_random_masks,
            "max_length": self.max_length,
        }

    def settings(self) -> TextSettings:
        """What the context needs to know."""
        request = self.request
        return TextSettings(
            tune=request.recipe,
            retune=self.retune,
            scores=request.score_settings,
            score_texts=request.score_texts,
            length_filter=request.length_filter,
            random_masks=request.n_random_masks,
            truth=request.leave_one_out,
            first_seed=request.first_seed,
        )


def hashes_of(info: Any) -> list[str]:
    """Hashes of a model's weights and of every small file beside them that decides what they
    compute."""
    return [info.weight_hash, *hashes_beside(info.folder)]


def arm_of(name: str) -> tuple[str, str]:
    """The procedure and the score of an arm's name."""
    procedure, _, score = name.partition(":")
    return procedure, score or "conductance"


def retunes(request: TextRequest, info: Any) -> bool:
    return (not info.has_head) if request.retune is None else request.retune


def start_name(request: TextRequest, info: Any) -> str | None:
    """Pre-trained weights: as named, brought along by the model, or the model itself."""
    if request.pretrained:
        return request.pretrained
    if info.pretrained is not None:
        return str(info.pretrained)
    return None if info.has_head else request.model


def validate_text(request: TextRequest) -> TextPlan:
    """Check everything that can be checked without loading weights. RequestError carries all faults
    together."""
    request, faults = checked(request)
    request = replace(request, axes=own_axes(request.data, request.axes))
    faults += _null_faults(request)
    info, start = attempt(lambda: _inspected(request.model), faults), None
    texts = attempt(lambda: texts_of(request, info), faults)
    if info is not None and (name := start_name(request, info)) is not None:
        start = info if name == request.model else attempt(lambda: _inspected(name), faults)
    if info is not None and texts is not None:
        faults += _fit_faults(request, info, texts)
    if info is not None:
        faults += _model_faults(request, info, start)
    if faults or texts is None:
        raise RequestError(list(dict.fromkeys(faults)))
    return TextPlan(request, texts, info, start)


def texts_of(request: TextRequest, info: Any = None) -> TextSet:
    """The texts with the group columns of the axes; labels in the order of the model's outputs,
    where it has any."""
    ask = TextAsk(
        request.text,
        request.text_b,
        request.target,
        columns_of(request.axes),
        request.max_texts,
    )
    texts = load_texts(request.data, ask)
    if info is None or retunes(request, info):
        return texts
    return told_apart(texts, info, request.classes, request.device)


def told_apart(texts: TextSet, info: Any, asked_classes: Sequence[str], device: str) -> TextSet:
    """The texts with labels in the order of a classifier's outputs; info: a TextModelInfo.
    RequestError as of `in_order_of`."""
    outputs = Outputs(info.name, info.classes, info.n_labels)
    hint = hub_order(texts.name, texts.classes)
    return in_order_of(texts, outputs, asked_classes, partial(_answers, texts, info, device), hint)


def _answers(texts: TextSet, info: Any, device: str, rows: np.ndarray) -> np.ndarray:
    """The probabilities that a classifier gives to texts at positions `rows` [k] int, [k,
    outputs]."""
    from engine.models.load_text_classifier import load_text_classifier, probabilities_of

    names = tuple(map(str, range(info.n_labels)))
    classifier = load_text_classifier(
        info.folder, names, device=device, max_length=min(LONGEST, info.n_positions)
    )
    some = texts.table.iloc[rows]
    return probabilities_of(
        classifier, some["text"].tolist(), some["text_b"].tolist() if texts.pair else None
    )


def _inspected(name: str) -> Any:
    from engine.models.load_text_classifier import inspect_text_model

    return inspect_text_model(name)


def _fit_faults(request: TextRequest, info: Any, texts: TextSet) -> list[Fault]:
    """Model and texts together: classes, groups, splits, length."""
    # Settings of the scores, where they are settings at all, that do not go with so many
    # classes.
    n_classes = len(texts.classes)
    faults = []
    for score in dict.fromkeys(score for _, score in request.arms if score in head_importances()):
        method, given = head_importances()[score], request.score_settings.get(score, {})
        if isinstance(given, Mapping) and not setting_faults(method.settings, given):
            faults += method.class_faults(settings_of(method, given), n_classes)
    faults += axis_faults(request.axes, (*texts.groups, CLASS_AXIS))
    if request.classes and retunes(request, info):
        what = "are given, but the model gets a new head here: its outputs are the texts' classes."
        faults.append(Fault("classes", what, "Leave it out."))
    faults += split_faults(texts.table, (TRAIN, TEST), TEXTS)
    if request.max_length is not None and request.max_length > info.n_positions:
        what = f"{info.name} reads {info.n_positions} tokens at most, not {request.max_length}."
        faults.append(Fault("max_length", what, f"Give {info.n_positions} or less."))
    return faults


def _shared_faults(info: Any) -> list[Fault]:
    """Scores and the lens look at what each layer does once in a pass."""
    if not info.shared:
        return []
    what = (
        f"{info.name} goes through its layers several times in one pass: attributions to a layer's"
        " attention would mix its depths. Its heads can be masked and cut (apply)."
    )
    return [Fault("model", what, "Audit a model whose layers are its own.")]


def _model_faults(request: TextRequest, info: Any, start: Any) -> list[Fault]:
    """What the model must bring for what is asked, and whether every asked cut cuts something."""
    faults, total = _shared_faults(info), info.n_layers * info.n_heads
    named = [name for name, _ in request.arms if name in procedures()]
    needs = sorted({name for name in named if procedures()[name].retrains})
    if start_name(request, info) is None and (needs or retunes(request, info)):
        why = ", ".join(needs) or "retune"
        what = f"{info.name} is fine-tuned, and {why} starts from the weights before that."
        faults.append(
            Fault("pretrained", what, "Name the pre-trained weights, or keep to once and alg61.")
        )
    if not info.has_head and request.retune is False:
        what = f"{info.name} has no classification head, so it answers nothing yet."
        faults.append(
            Fault("retune", what, "Let it be fine-tuned here, or give a fine-tuned classifier.")
        )
    if start is not None and info.has_head and start.weight_hash == info.weight_hash:
        what = f"{start.name} holds the same weights as the model, which are fine-tuned already."
        faults.append(Fault("pretrained", what, "Name the weights before fine-tuning."))
    if start is not None and shape_of(start) != shape_of(info):
        what = f"{start.name} is {shape_of(start)}, {info.name} {shape_of(info)}."
        fix = "Name the weights that this model was fine-tuned from."
        faults.append(Fault("pretrained", what, fix))
    faults += _kept_faults(request, info)
    counts = [
        exact_count(value, total)
        for value in request.sparsities
        if is_number(value) and 0 < value < 1
    ]
    if counts and min(counts) == 0:
        what = f"the smallest cuts none of {total} heads."
        faults.append(Fault("sparsity", what, f"Give {1 / total:.3g} or more."))
    if len(set(counts)) < len(counts):
        what = f"two of them cut equally many of {total} heads."
        faults.append(Fault("sparsity", what, "Leave one out."))
    return faults


def _null_faults(request: TextRequest) -> list[Fault]:
    """Random masks asked of arms that all train: the exact null of such an arm is one training per
    mask."""
    named = dict.fromkeys(name for name, _ in request.arms if name in procedures())
    if not request.random_masks or not all(procedures()[name].retrains for name in named):
        return []
    what = f"asked of {', '.join(named)}, which train: every random mask would need a training."
    fix = "Add once or alg61, which train nothing again, or ask for 0 random masks."
    return [Fault("random_masks", what, fix)] if named else []


def shape_of(info: Any) -> str:
    """E.g. "bert with 12 x 12 heads, 768 wide", from the model's config.json."""
    from engine.models.checkpoint import read_config
    from engine.models.structure.adapter import adapter_of

    config, _ = read_config(info.folder, causal=False)
    width = adapter_of(config, causal=False).head_dim * info.n_heads
    return f"{info.model_type} with {info.n_layers} x {info.n_heads} heads, {width} wide"


def _kept_faults(request: TextRequest, info: Any) -> list[Fault]:
    """Weights that are kept become one table of the run, which must fit into memory."""
    if request.keep_weights not in KEPT or request.keep_weights == "none":
        return []
    retrained = sum(procedures()[name].retrains for name, _ in request.arms if name in procedures())
    models = (len(request.sparsities) * retrained + retunes(request, info)) * (
        request.trials if request.keep_weights == "all" else 1
    )
    if 4 * models * info.n_parameters <= MOST_KEPT:
        return []
    what = f"weights of {models} models are about {4e-9 * models * info.n_parameters:.1f} GB."
    fix = (
        f"Keep none, or ask for fewer procedures or sparsities: {MOST_KEPT / 1e9:g} GB at most are"
        " kept with a run."
    )
    return [Fault("keep_weights", what, fix)]


def disk_faults(request: TextRequest, info: Any, root: Path) -> list[Fault]:
    """Whether the store has room for the weights of every fine-tuning (float32; cuts make them
    smaller)."""
    total = info.n_layers * info.n_heads
    asked = sorted(exact_count(share, total) for share in request.sparsities)
    rounds = {"never": 0, "asked": len(asked)}
    tuned = int(retunes(request, info)) + sum(
        rounds.get(procedure.trained, len(procedure.counts(total, asked, request.step)))
        for procedure in (procedures()[name] for name, _ in request.arms)
    )
    tuned *= request.trials
    needed, there = 4 * tuned * info.n_parameters, root
    while not there.exists():
        there = there.parent
    free = shutil.disk_usage(there).free
    if needed < free:
        return []
    what = (
        f"{tuned} fine-tuned models need about {needed / 1e9:.1f} GB, {free / 1e9:.1f} GB are free."
    )
    fix = "Ask for fewer trials, sparsities or procedures, or choose another store."
    return [Fault(str(root), what, fix)]


# The audits of a text classifier that the project ships; computing them again takes half an hour.


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
