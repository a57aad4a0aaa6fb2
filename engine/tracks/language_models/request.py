"""What is asked of an audit, and whether it can be asked: every fault at once, before anything heavy loads."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.audit.request import Plan, Request, versions_of
from engine.audit.setting_faults import setting_faults
from engine.core.errors import Fault, RequestError, unknown
from engine.core.files import ASSETS, sha256_of
from engine.core.types import ABLATIONS, READINGS, SPANS, Corpus, Decoding, PromptSet, Window
from engine.data.prompts.load import load_prompts, split_prompts
from engine.data.texts.corpora import load_corpus
from engine.tracks.language_models.context import Settings
from engine.tracks.language_models.lost_groups import lost_groups
from engine.tracks.language_models.scores.base import ScoreMethod, estimators, method_for
from engine.tracks.language_models.selection.base import selection_method, selection_methods
from engine.tracks.language_models.selection.gamma import candidates

EMBEDDED_PROMPTS = ASSETS / "demo-data" / "prompts.csv"
EMBEDDED_CORPUS = ASSETS / "demo-data" / "corpus.txt"
SEARCH = "search"
CODE = 3
"""Version of the audit itself. Raise when a finished run would come out differently for the same request."""


@dataclass(frozen=True)
class AuditRequest(Request):
    """An audit as somebody asks for it. Paths stay as written; None means the embedded demo's.

    Lengths are in tokens, shares in [0, 1]; `gamma` is the share of heads protected for perplexity, or "search".
    """

    model: str
    axes: tuple[str, ...]
    prompts: str | None = None
    corpus: str | None = None
    methods: tuple[str, ...] = (
        "fasp",
        "bias_only",
        "ppl_only",
        "magnitude",
        "gradient",
        "random",
        "random_noncritical",
    )
    estimator: str = "auto"
    estimator_settings: dict[str, Any] = field(default_factory=dict)
    perplexity_estimator: str = "exact"
    gamma: float | str = 0.3
    sparsities: tuple[float, ...] = (0.0, 0.05, 0.1, 0.2)
    seeds: int = 3
    first_seed: int = 0
    max_prompts: int | None = None
    max_corpus_tokens: int | None = None
    judge: str = "demo-judge"
    judge_sha256: str | None = None
    revision: str | None = None
    device: str = "auto"
    dtype: str = "auto"
    span: str = "continuation"
    plain_case: bool = False
    ablation: str = "zero"
    reading: str = "group_means"
    published_perplexity: bool = False
    max_new_tokens: int = 40
    max_prompt_tokens: int = 22
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    title: str = ""
    restart: bool = False

    by_content = ("model", "prompts", "corpus", "judge", "judge_sha256")
    track = "language_models"

    def __post_init__(self) -> None:
        if all(isinstance(value, int | float) for value in self.sparsities):  # equal requests look equal
            object.__setattr__(self, "sparsities", tuple(sorted(set(map(float, self.sparsities)))))

    needed = ("model", "axes")

    @property
    def seed_list(self) -> tuple[int, ...]:
        return tuple(range(self.first_seed, self.first_seed + self.seeds))

    @property
    def gammas(self) -> tuple[float, ...]:
        """The γ to try: one, or the candidates of the search."""
        return candidates(self.sparsities) if self.gamma == SEARCH else (float(self.gamma),)

    @property
    def scores(self) -> list[ScoreMethod]:
        """The ways heads are scored: z_bias and z_ppl always, the rest where a selection asks for it; z_bias last, for
        it may build on the others."""
        wanted = {"z_bias", "z_ppl"} | {score for name in self.methods for score in selection_method(name).needs}
        chosen = {"z_bias": self.estimator, "z_ppl": self.perplexity_estimator}
        ordered = sorted(wanted, key=lambda score: (score == "z_bias", score))
        return [method_for(score, chosen.get(score)) for score in ordered]

    def settings(self) -> Settings:
        """What the context needs to know of it."""
        decoding = Decoding(
            self.max_new_tokens, self.max_prompt_tokens, float(self.temperature), self.top_k, float(self.top_p)
        )
        return Settings(
            decoding=decoding,
            span=self.span,
            window=Window(published=self.published_perplexity),
            plain_case=self.plain_case,
            max_corpus_tokens=self.max_corpus_tokens,
        )


@dataclass(frozen=True)
class PromptPlan(Plan):
    """A request that holds up: its data loaded, its model and judge inspected but not loaded."""

    request: AuditRequest
    prompts: PromptSet
    corpus: Corpus
    model: Any  # engine.models.checkpoint.ModelInfo
    judge: Any  # engine.models.judge.JudgeInfo

    @property
    def content(self) -> list[Any]:
        """Hashes of weights, configuration and tokenizer, prompts, text and judge."""
        beside = [sha256_of(path) for path in sorted(self.model.folder.glob("*.json"))]  # configuration, tokenizer
        return [self.model.weight_hash, beside, self.prompts.digest, self.corpus.digest, self.judge.digest]

    @property
    def versions(self) -> dict[str, int]:
        from engine.tracks.language_models.context import measurements

        scores = {f"{method.score} by {method.name}": method for method in self.request.scores}
        chosen = {name: selection_method(name) for name in self.request.methods}
        return versions_of(CODE, measurement=measurements(), score=scores, selection=chosen)


def validate(request: AuditRequest) -> PromptPlan:
    """Check everything that can be checked without loading weights. RequestError carries all faults together."""
    faults: list[Fault] = _setting_faults(request) + _machine_faults(request)

    def attempt(load: Callable[[], Any]) -> Any:
        try:
            return load()
        except RequestError as error:
            faults.extend(error.faults)
            return None

    prompts = attempt(lambda: _prompts(request))
    corpus = attempt(lambda: load_corpus(Path(request.corpus) if request.corpus else EMBEDDED_CORPUS))
    judge = attempt(lambda: _judge(request))
    model = attempt(lambda: _model(request))
    if model is not None:
        faults += _model_faults(request, model)
    if model is not None and prompts is not None:
        faults += _lost_groups(request, model, prompts)
    if faults:
        raise RequestError(list(dict.fromkeys(faults)))
    return PromptPlan(request, prompts, corpus, model, judge)


def _prompts(request: AuditRequest) -> PromptSet:
    path = Path(request.prompts) if request.prompts else EMBEDDED_PROMPTS
    return split_prompts(load_prompts(path, request.axes, seed=0, max_prompts=request.max_prompts), seed=0)


def _judge(request: AuditRequest) -> Any:
    from engine.models.judge import inspect_judge  # imports torch: late, so that pages stay quick

    return inspect_judge(request.judge, request.judge_sha256)


def _model(request: AuditRequest) -> Any:
    from engine.models.load_language_model import inspect_model

    return inspect_model(request.model, request.revision)


def _lost_groups(request: AuditRequest, model: Any, prompts: PromptSet) -> list[Fault]:
    from engine.models.checkpoint import load_tokenizer

    return lost_groups(load_tokenizer(model.folder), prompts.table, request.axes, request.max_prompt_tokens)


def _machine_faults(request: AuditRequest) -> list[Fault]:
    """A device or dtype that is not there."""
    from engine.models import runtime

    faults: list[Fault] = []
    for choose in (lambda: runtime.pick_device(request.device), lambda: runtime.pick_dtype(0, "cpu", request.dtype)):
        try:
            choose()
        except RequestError as error:
            faults += error.faults
    return faults


def _model_faults(request: AuditRequest, model: Any) -> list[Fault]:
    need = request.max_prompt_tokens + request.max_new_tokens
    if need > model.n_positions:
        return [Fault("lengths", f"{request.max_prompt_tokens} prompt + {request.max_new_tokens} new tokens exceed the "
                      f"{model.n_positions} positions of {model.name}.", "Ask for fewer tokens.")]  # fmt: skip
    return []


def _setting_faults(request: AuditRequest) -> list[Fault]:
    faults = []
    faults += [
        unknown("method", name, selection_methods()) for name in request.methods if name not in selection_methods()
    ]
    if not request.axes:
        faults.append(Fault("axis", "none is named.", "Name at least one with --axis."))
    if not request.methods:
        faults.append(Fault("method", "none is named.", f"Known: {', '.join(sorted(selection_methods()))}."))
    for name, value, known in (("reading", request.reading, READINGS), ("span", request.span, SPANS),
                               ("ablation", request.ablation, ABLATIONS)):  # fmt: skip
        if value not in known:
            faults.append(unknown(name, value, known))
    return faults + _share_faults(request) + _number_faults(request) + _estimator_faults(request)


def _share_faults(request: AuditRequest) -> list[Fault]:
    faults = [
        Fault("sparsity", f"{value} is outside [0, 1).", "Give shares such as 0.05,0.1,0.2.")
        for value in request.sparsities
        if not 0.0 <= value < 1.0
    ]
    known: dict[str, float] = {}
    for value in request.sparsities:
        if 0.0 < value < 5e-4:
            faults.append(Fault("sparsity", f"{value} is too small to tell from 0.", "Give at least 0.0005."))
        elif (other := known.setdefault(f"{value:.3f}", value)) != value:
            faults.append(Fault("sparsity", f"{other} and {value} are one to three decimals.", "Leave one out."))
    if not request.sparsities:
        faults.append(Fault("sparsity", "none is named.", "Give shares such as 0.05,0.1,0.2."))
    largest = max((value for value in request.sparsities if value < 1.0), default=0.0)
    if request.gamma == SEARCH:
        if not candidates(request.sparsities):
            faults.append(
                Fault("gamma", f"no γ of the search leaves room for a sparsity of {largest}.", "Ask for less.")
            )
    elif isinstance(request.gamma, str) or not 0.0 <= request.gamma <= 1.0:
        faults.append(
            Fault("gamma", f"{request.gamma!r} is no share of heads.", 'Give a number in [0, 1], or "search".')
        )
    elif request.gamma + largest > 1.0 + 1e-9:
        what = f"γ = {request.gamma} protects so many heads that a sparsity of {largest} cannot be reached (γ + α > 1)."
        faults.append(Fault("gamma", what, "Lower one of the two."))
    return faults


def _number_faults(request: AuditRequest) -> list[Fault]:
    least = {"seeds": 1, "max_new_tokens": 1, "max_prompt_tokens": 1, "first_seed": 0, "top_k": 0}
    faults = [
        Fault(name, f"{getattr(request, name)} is too small.", f"Give at least {low}.")
        for name, low in least.items()
        if getattr(request, name) < low
    ]
    if not 0 < request.temperature < math.inf:
        faults.append(
            Fault("temperature", f"{request.temperature} is no finite number above 0.", "Use 1 for plain sampling.")
        )
    if not 0 < request.top_p <= 1:
        faults.append(Fault("top_p", f"{request.top_p} is outside (0, 1].", "Use 1 to switch it off."))
    if request.max_corpus_tokens is not None and request.max_corpus_tokens < 50:
        faults.append(Fault("max_corpus_tokens", f"{request.max_corpus_tokens} is too small.", "Give at least 50."))
    return faults


def _estimator_faults(request: AuditRequest) -> list[Fault]:
    faults = [
        unknown("estimator", name, estimators(score))
        for score, name in (("z_bias", request.estimator), ("z_ppl", request.perplexity_estimator))
        if name not in estimators(score)
    ]
    if not faults:
        method = method_for("z_bias", request.estimator)
        faults = setting_faults(method.settings, request.estimator_settings, "estimator setting")
        faults += method.faults(request.settings().decoding, request.reading)
    return faults
