"""What is asked of an audit of a text classifier's heads, and whether it can be asked: every fault at once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.audit.request import Plan, Request, versions_of
from engine.audit.request_checks import (
    axis_faults,
    check_device,
    is_number,
    no_axis_faults,
    whole_number_faults,
)
from engine.audit.setting_faults import setting_faults
from engine.classifiers.class_order import in_order_of
from engine.core.errors import Fault, RequestError, unknown
from engine.core.files import sha256_of
from engine.data.texts.load import TextAsk, TextSet, load_texts, look_texts
from engine.surgery.heads.budget import exact_count
from engine.tracks.text_classifiers.context import TEST, TRAIN, TextSettings
from engine.tracks.text_classifiers.presets import SCORE_TEXTS, tune_of
from engine.tracks.text_classifiers.procedures import procedures
from engine.tracks.text_classifiers.scores.base import head_importances
from engine.training.recipe import Recipe

CODE = 1
"""Version of the audit itself. Raise when a finished run would come out differently for the same request."""
KEPT = ("first", "all", "none")
MOST_KEPT = 4e9
"""Bytes of weights that a run may keep."""
CLASS_AXIS = "class"


@dataclass(frozen=True)
class TextRequest(Request):
    """An audit of a text classifier as somebody asks for it. Paths stay as written.

    model: a fine-tuned classifier, or pre-trained weights; pretrained: the weights before fine-tuning, where `model`
    is fine-tuned and does not bring them along (a folder `pretrained` in it). retune: fine-tune the full model here in
    every trial; None: where `model` has no classification head. methods: arms such as "isp:conductance".
    step: share of heads one round takes (kappa), of the initial heads or of those left. score_texts: training texts a
    score reads. score_settings: settings per score. max_length: tokens of a text that are read, None: 128 or what the
    model can. restart: go on although data or weights changed since the last try.
    """

    model: str
    data: str
    axes: tuple[str, ...]
    pretrained: str | None = None
    text: str | None = None
    text_b: str | None = None
    target: str | None = None
    methods: tuple[str, ...] = ("once:conductance", "one-shot-isp:conductance", "one-shot-isp:random")
    sparsities: tuple[float, ...] = (0.25, 0.5, 0.75)
    step: float = 0.1
    trials: int = 3
    first_seed: int = 0
    retune: bool | None = None
    tune: dict[str, Any] = field(default_factory=dict)
    score_settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    score_texts: int = SCORE_TEXTS
    max_length: int | None = None
    max_texts: int | None = None
    keep_weights: str = "first"
    device: str = "auto"
    title: str = ""
    restart: bool = False

    by_content = ("model", "pretrained", "data")
    track = "text_classifiers"

    def __post_init__(self) -> None:
        if all(isinstance(value, int | float) for value in self.sparsities):  # equal requests look equal
            object.__setattr__(self, "sparsities", tuple(sorted(set(map(float, self.sparsities)))))

    @property
    def arms(self) -> list[tuple[str, str]]:
        """(procedure, score) of each arm: "isp" is ("isp", "conductance")."""
        return [arm_of(name) for name in self.methods]

    @property
    def recipe(self) -> Recipe:
        """How pre-trained weights are fine-tuned: the usual way of the model, with what was asked instead."""
        return Recipe(**{**tune_of(self.model), **self.tune, "mirror": False})


@dataclass(frozen=True)
class TextPlan(Plan):
    """A request that holds up: its texts listed, its models inspected but not loaded."""

    request: TextRequest
    texts: TextSet
    model: Any  # engine.models.load_text_classifier.TextModelInfo
    start: Any | None
    """The same of the pre-trained weights; None where there are none."""

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
        """Hashes of weights, configuration and tokenizer of the model and of the pre-trained one."""
        return [hashes_of(info) for info in (self.model, self.start) if info is not None]

    @property
    def versions(self) -> dict[str, int]:
        from engine.tracks.text_classifiers.measurements import text_measurements

        walked = {name: procedures()[name] for name, _ in self.request.arms}
        scores = {name: head_importances()[name] for _, name in self.request.arms}
        return versions_of(CODE, measurement=text_measurements(), procedure=walked, score=scores)

    def spelled_out(self) -> dict[str, Any]:
        """The request with everything said that it left to the usual way, JSON-able."""
        request = self.request
        methods = [":".join(arm) for arm in request.arms]
        recipe = {name: value for name, value in request.recipe.to_dict().items() if name != "mirror"}
        return request.to_dict() | {"methods": methods, "retune": self.retune, "tune": recipe,
                                    "max_length": self.max_length}  # fmt: skip

    def settings(self) -> TextSettings:
        """What the context needs to know."""
        request = self.request
        return TextSettings(
            tune=request.recipe,
            retune=self.retune,
            scores=request.score_settings,
            score_texts=request.score_texts,
            first_seed=request.first_seed,
        )


def hashes_of(info: Any) -> list[str]:
    """Of a model's weights and of every small file beside them that decides what they compute."""
    beside = [path for ending in ("*.json", "*.txt", "*.model") for path in sorted(info.folder.glob(ending))]
    return [info.weight_hash, *(sha256_of(path) for path in beside)]


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
    """Check everything that can be checked without loading weights. RequestError carries all faults together."""
    faults: list[Fault] = [*_arm_faults(request), *_number_faults(request), *_recipe_faults(request)]

    def attempt(load: Callable[[], Any]) -> Any:
        try:
            return load()
        except RequestError as error:
            faults.extend(error.faults)
            return None

    attempt(lambda: check_device(request.device))
    sound = type(request.max_texts) in (int, type(None))
    info, start = attempt(lambda: _inspected(request.model)), None
    texts = attempt(lambda: texts_of(request, info)) if sound else None
    if info is not None and (name := start_name(request, info)) is not None:
        start = info if name == request.model else attempt(lambda: _inspected(name))
    if info is not None and texts is not None:
        faults += _fit_faults(request, info, texts)
    if info is not None:
        faults += _model_faults(request, info, start)
    if faults:
        raise RequestError(list(dict.fromkeys(faults)))
    return TextPlan(request, texts, info, start)


def texts_of(request: TextRequest, info: Any = None) -> TextSet:
    """The texts with the group columns of the axes; labels in the order of the model's outputs if it names them."""
    parts = dict.fromkeys(part for axis in request.axes for part in axis.split("+") if part != CLASS_AXIS)
    ask = TextAsk(request.text, request.text_b, request.target, tuple(parts), request.max_texts, seed=0)
    texts = load_texts(request.data, ask)
    return texts if info is None or retunes(request, info) else in_order_of(texts, info.classes)


def usual_axes(data: str) -> tuple[str, ...]:
    """The axes of a set of texts where nobody names any: its usual groups, and its classes."""
    return (*look_texts(data).default_groups, CLASS_AXIS)


def _inspected(name: str) -> Any:
    from engine.models.load_text_classifier import inspect_text_model

    return inspect_text_model(name)


def _arm_faults(request: TextRequest) -> list[Fault]:
    """Procedures, scores, and the settings of scores."""
    faults = []
    for procedure, score in request.arms:
        if procedure not in procedures():
            faults.append(unknown("procedure", procedure, procedures()))
        if score not in head_importances():
            faults.append(unknown("score", score, head_importances()))
    if not request.methods:
        faults.append(Fault("procedure", "none is named.", f"Known: {', '.join(procedures())}."))
    if len(set(request.arms)) < len(request.arms):
        faults.append(Fault("procedure", "one is named twice with the same score.", "Name each once."))
    for name, given in request.score_settings.items():
        if name not in head_importances():
            faults.append(unknown("score settings", name, head_importances()))
        else:
            faults += setting_faults(head_importances()[name].settings, given)
    return faults


_LEAST = {"trials": 1, "first_seed": 0, "score_texts": 2, "max_length": 8, "max_texts": 20}
_MAY_BE_NONE = ("max_length", "max_texts")
LONGEST = 128
"""Tokens of a text that are read where nobody says."""


def _number_faults(request: TextRequest) -> list[Fault]:
    faults = []
    for value in request.sparsities:
        if not (is_number(value) and 0.0 < value < 1.0):
            fix = "Give shares of heads between 0 and 1; one head at least must stay."
            faults.append(Fault("sparsity", f"{value!r} is not allowed.", fix))
    if not request.sparsities:
        faults.append(Fault("sparsity", "none is named.", "Give shares of heads such as 0.25,0.5,0.75."))
    if not (is_number(request.step) and 0.0 < request.step < 1.0):
        faults.append(Fault("step", f"{request.step!r} is not allowed.", "Give a share of heads between 0 and 1."))
    faults += no_axis_faults(request.axes)
    faults += whole_number_faults(request, _LEAST, _MAY_BE_NONE)
    if request.keep_weights not in KEPT:
        faults.append(unknown("keep_weights", request.keep_weights, KEPT))
    return faults


def _recipe_faults(request: TextRequest) -> list[Fault]:
    known = [name for name in Recipe.known() if name != "mirror"]  # texts have no mirror image
    wrong = [unknown("tune", name, known) for name in request.tune if name not in known]
    return wrong or request.recipe.faults("tune")


def _fit_faults(request: TextRequest, info: Any, texts: TextSet) -> list[Fault]:
    """Model and texts together: classes, groups, splits, length."""
    faults = []
    faults += axis_faults(request.axes, (*texts.groups, CLASS_AXIS))
    if info.has_head and not retunes(request, info) and info.n_labels != len(texts.classes):
        what = f"{info.name} tells {info.n_labels} classes apart, {texts.name} has {len(texts.classes)}."
        faults.append(Fault("model", what, "Choose other texts, or let it be fine-tuned here (retune)."))
    for split in (TRAIN, TEST):
        labels = texts.table.loc[texts.table["split"] == split, "label"]
        if labels.nunique() < 2:
            what = f"the {split} split has {len(labels)} texts of {labels.nunique()} classes."
            faults.append(Fault("data", what, "Both splits need texts of at least two classes."))
    if type(request.max_length) is int and request.max_length > info.n_positions:
        what = f"{info.name} reads {info.n_positions} tokens at most, not {request.max_length}."
        faults.append(Fault("max_length", what, f"Give {info.n_positions} or less."))
    return faults


def _model_faults(request: TextRequest, info: Any, start: Any) -> list[Fault]:
    """What the model must bring for what is asked, and whether every asked cut cuts something."""
    faults, total = [], info.n_layers * info.n_heads
    named = [name for name, _ in request.arms if name in procedures()]
    needs = sorted({name for name in named if procedures()[name].retrains})
    if start_name(request, info) is None and (needs or retunes(request, info)):
        why = ", ".join(needs) or "retune"
        what = f"{info.name} is fine-tuned, and {why} starts from the weights before that."
        faults.append(Fault("pretrained", what, "Name the pre-trained weights, or keep to once and alg61."))
    if not info.has_head and request.retune is False:
        what = f"{info.name} has no classification head, so as it is it answers nothing."
        faults.append(Fault("retune", what, "Let it be fine-tuned here, or give a fine-tuned classifier."))
    if start is not None and info.has_head and start.weight_hash == info.weight_hash:
        what = f"{start.name} holds the same weights as the model, which are fine-tuned already."
        faults.append(Fault("pretrained", what, "Name the weights before fine-tuning."))
    if start is not None and width_of(start) != width_of(info):
        what = f"{start.name} is {width_of(start)} wide, {info.name} {width_of(info)}."
        faults.append(Fault("pretrained", what, "Name the weights that this model was fine-tuned from."))
    if start is not None and (start.model_type, start.n_layers, start.n_heads) != (
        info.model_type, info.n_layers, info.n_heads
    ):  # fmt: skip
        what = f"{start.name} is {start.model_type} with {start.n_layers} x {start.n_heads} heads, "
        what += f"{info.name} {info.model_type} with {info.n_layers} x {info.n_heads}."
        faults.append(Fault("pretrained", what, "Name the weights that this model was fine-tuned from."))
    faults += _kept_faults(request, info) if type(request.trials) is int else []
    counts = [exact_count(value, total) for value in request.sparsities if is_number(value) and 0 < value < 1]
    if counts and min(counts) == 0:
        faults.append(Fault("sparsity", f"the smallest cuts none of {total} heads.", f"Give {1 / total:.3g} or more."))
    if len(set(counts)) < len(counts):
        faults.append(Fault("sparsity", f"two of them cut equally many of {total} heads.", "Leave one out."))
    return faults


def width_of(info: Any) -> int:
    """Width of the hidden states, from the model's config.json."""
    from engine.models.adapters import adapter_for
    from engine.models.checkpoint import read_config

    config, _ = read_config(info.folder, causal=False)
    return adapter_for(info.model_type).head_dim(config) * info.n_heads


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
    fix = f"Keep none, or ask for fewer procedures or sparsities: {MOST_KEPT / 1e9:g} GB at most are kept with a run."
    return [Fault("keep_weights", what, fix)]


def disk_faults(request: TextRequest, info: Any, root: Path) -> list[Fault]:
    """Whether the store has room for the weights of every fine-tuning (float32; cuts make them smaller)."""
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
    what = f"{tuned} fine-tuned models need about {needed / 1e9:.1f} GB, {free / 1e9:.1f} GB are free."
    return [Fault(str(root), what, "Ask for fewer trials, sparsities or procedures, or choose another store.")]


def request_of_run(run: Any) -> TextRequest:
    """The request a finished run was made from."""
    return TextRequest.from_dict(run.meta["request"])
