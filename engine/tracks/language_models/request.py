"""What is asked of an audit, and whether it can be asked: every fault at once, before anything
heavy loads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.audit.fields import (
    HOW,
    WHAT,
    Offer,
    Scale,
    Values,
    asked,
    attempt,
    checked,
    fields_of,
    is_number,
)
from engine.audit.request import MORE, Plan, Request, spelled, versions_of
from engine.audit.session import TEXTS, same_plan
from engine.audit.tracks import Quick
from engine.core.errors import Fault, RequestError, refusal
from engine.core.files import ASSETS, json_able, sha256_of
from engine.core.types import (
    ABLATIONS,
    AXES,
    READINGS,
    SPANS,
    Corpus,
    Decoding,
    PromptSet,
    Setting,
    Span,
    Window,
    digest_of,
)
from engine.core.words import axis_name, method_name
from engine.data.benchmarks.base import Benchmark, load_benchmarks
from engine.data.prompts.load import known_axes, load_prompts, split_prompts, with_reserve_prompts
from engine.data.texts.load import load_corpus
from engine.models import catalog
from engine.store.runs import Run
from engine.tracks.language_models import words
from engine.tracks.language_models.benchmarks import (
    BENCHMARK_PATHS,
    benchmark_faults,
    benchmark_settings,
    named_paths,
    scored_benchmarks,
)
from engine.tracks.language_models.compressions import compression, compressions
from engine.tracks.language_models.context import Settings, measurements
from engine.tracks.language_models.perplexity import published_length
from engine.tracks.language_models.request_checks import (
    cut_prompts,
    faults_against,
    lost_groups,
    others_of,
    unread_cue,
)
from engine.tracks.language_models.scores import ScoreMethod, estimators, method_for, with_used
from engine.tracks.language_models.selection import (
    MARGIN,
    candidates,
    level_faults,
    selection_method,
    selection_methods,
)

SEARCH, AUTO = "search", "auto"
LARGE = 20_000_000_000
"""Heads times parameters above which their effects on perplexity are first order: exact ones are as
many readings of the text."""
LETTERS = 60_000
"""A text of fewer has about fewer tokens than MANY windows of the longest."""
CODE = 7
"""Version of the audit itself. Raise when a finished run would come out differently for the same
request."""


CONTROLLED, CONTROLS = "fasp", 20
"""The method that is ranked among random cuts, and among how many."""
USUAL_METHODS = (
    "fasp",
    "bias_only",
    "ppl_only",
    "magnitude",
    "gradient",
    "random",
    "random_noncritical",
)
SCORING = "How heads are scored"


def known_axes_of(values: Values) -> Offer:
    """Axes the prompts hold; the five of the paper while that is unknown. Faults wait for the
    check."""
    try:
        found = known_axes(Path(values["prompts"])) if values.get("prompts") else AXES
    except RequestError:
        found = ()
    return Offer(found or AXES, (found or AXES)[:1])


def _embedded_models(_: Values) -> Offer:
    names = [entry.name for entry in catalog.list_models()]
    return Offer(names, names[0] if names else None)


def _judges_offered(values: Values) -> Offer:
    names = [entry.name for entry in catalog.list_judges()]
    return Offer(names, catalog.judge_for(str(values.get("model") or "")))


def _ordered_methods() -> list[str]:
    """Selections as words know them, then others."""
    every = {*selection_methods(), *compressions()}
    return sorted(every, key=[*words.METHODS, *sorted(every)].index)


def _methods_offered(_: Values) -> Offer:
    """Those that choose heads, the usual ones, and apart from them those that change weights."""
    every, others = _ordered_methods(), compressions()
    groups = {
        "Methods": [name for name in every if name not in others],
        "Other ways to make it smaller": [name for name in every if name in others],
    }
    return Offer(every, None, groups=groups)


def _uses_gamma(values: Values) -> bool:
    known = selection_methods()
    return any(known[name].uses_gamma for name in values["methods"] if name in known)


def _settings_of_estimator(values: Values) -> tuple[Setting, ...] | None:
    """What the chosen estimator of z_bias declares; None where there is no such estimator, which is
    said elsewhere."""
    name = values["estimator"]
    return method_for("z_bias", name).settings if name in estimators("z_bias") else None


def _control_faults(number: int | None, values: Values) -> list[Fault]:
    if not number or CONTROLLED in values["methods"]:
        return []
    what = (
        f"{number} random cuts are to be compared with {CONTROLLED}, which is not among the"
        " methods."
    )
    return [Fault("controls", what, f"Add --method {CONTROLLED}, or ask for no controls.")]


def data_of(request: AuditRequest) -> tuple[Path, Path]:
    """The prompts and the text of an audit. The embedded ones stand for those that are not named:
    for a toy of its own world, for any other model in plain English and about people."""
    ours = ASSETS / ("demo-data" if catalog.is_toy(request.model) else "people")
    prompts, text = request.prompts or ours / "prompts.csv", request.corpus or ours / "corpus.txt"
    return Path(prompts), Path(text)


def _prompts_per_axis(request: AuditRequest) -> int:
    """Of the axis that has the most."""
    found = load_prompts(data_of(request)[0], request.axes)
    return int(found.table["axis"].value_counts().max())


def _tokens_of_text(request: AuditRequest) -> int:
    """About as many as there are: four bytes of English make a token."""
    return max(data_of(request)[1].stat().st_size // 4, 1)


def _stop_faults(_: float | None, values: Values) -> list[Fault]:
    if values["stop_at"] is None or values["seeds"] != 1:
        return []
    what = "stops before the last seed, and one seed is asked for."
    return [Fault("stop_at", what, "Ask for two seeds or more.")]


def _dtype_faults(name: str, values: Values) -> list[Fault]:
    from engine.models import runtime  # loads torch

    faults: list[Fault] = []
    attempt(lambda: runtime.pick_dtype(0, "cpu", name), faults)
    device = attempt(lambda: runtime.pick_device(values["device"]), [])  # told by its own check
    if name == "bfloat16" and device and runtime.lacks_bfloat16(device):
        what = "bfloat16 is many times slower than float32 on this processor, which lacks it."
        faults.append(Fault("dtype", what, "Ask for auto or float32."))
    return faults


@dataclass(frozen=True)
class AuditRequest(Request):
    """An audit of a language model as it is asked for. Paths stay as written; None means what
    is embedded (`data_of`).

    Lengths are in tokens, shares in [0, 1]; `gamma` is the share of heads protected for perplexity,
    or "search".
    """

    model: str = asked(
        kind="source",
        metavar="NAME_OR_FOLDER",
        help="demo-gpt2, a folder, a GGUF file, or a hub name",
        counts="content",
        section=WHAT,
        label="Model",
        placeholder="Hub name or folder",
        offered=_embedded_models,
        hint=(
            "Choose one, or type a hub name (EleutherAI/gpt-neo-125m), a folder with a safetensors"
            " checkpoint, or a GGUF file."
        ),
        accepted=lambda values: catalog.remember(values["model"], values.get("revision")),
    )
    axes: tuple[str, ...] = asked(
        option="--axis",
        metavar="AXIS",
        help="may be given several times",
        where="axis",
        section=WHAT,
        last=True,
        label="Axes",
        offered=known_axes_of,
        named=axis_name,
        usual=lambda values: (),
        counted=("axis", "axes"),
    )
    prompts: str | None = asked(
        None,
        kind="path",
        metavar="FILE_OR_FOLDER",
        counts="content",
        section=WHAT,
        label="Prompts",
        reads=lambda path: known_axes(Path(path)),
        help="HolisticBias folder, FASP pair or CSV (default: ours about people, or the toy's)",
        upload=("csv",),
        hint=(
            "Embedded are our own about people; for a toy, about its invented groups. A CSV has"
            " columns prompt, axis, subgroup. By path also a HolisticBias v1.x folder or the FASP"
            " JSON pair."
        ),
    )
    corpus: str | None = asked(
        None,
        kind="path",
        metavar="FILE",
        counts="content",
        section=WHAT,
        label="Text for perplexity",
        help="UTF-8 text for perplexity (default: ours in plain English, or the toy's)",
        upload=(),
        hint=(
            "Any UTF-8 text the model should be able to predict. Embedded is plain English of our"
            " own; for a toy, a text of its world."
        ),
    )
    validation_corpus: str | None = asked(
        None,
        kind="path",
        metavar="FILE",
        counts="content",
        section=MORE,
        upload=(),
        label="Text for validation",
        help="UTF-8 text for scores and γ alone (default: the first fifth of the text)",
        hint="Where a text comes as two files, such as WikiText-2's valid and test.",
    )
    methods: tuple[str, ...] = asked(
        USUAL_METHODS,
        option="--method",
        metavar="METHOD",
        where="method",
        known=_ordered_methods,
        help="may be given several times (default: FASP and its baselines)",
        section=HOW,
        label="Methods",
        named=method_name,
        offered=_methods_offered,
        quick=("fasp", "random_noncritical"),
        counted=("method", "methods"),
    )
    against: tuple[str, ...] = asked(
        (),
        option="--against",
        metavar="NAME_OR_FOLDER",
        counts="content",
        later=True,
        some=False,
        help=(
            "another checkpoint or GGUF file with the model's tokenizer, compared as its variants"
            " are; may be given several times"
        ),
        section=HOW,
        label="Other checkpoints to compare",
        hint=words.AGAINST,
        placeholder="names or folders, separated by commas",
    )
    deployable: bool = asked(
        False,
        later=True,
        section=HOW,
        label="Also cuts that load anywhere",
        help=(
            "beside every cut, one with equal heads per layer and whole key/value groups, which"
            " any loader reads"
        ),
    )
    sparsities: tuple[float, ...] = asked(
        (0.0, 0.05, 0.1, 0.2),
        option="--sparsity",
        help="shares of heads to cut, comma-separated",
        minimum=0.0,
        below=1.0,
        where="sparsity",
        example="0.05,0.1,0.2",
        percent=True,
        section=HOW,
        label="Sparsities",
        unit="percent of heads cut",
        quick=(0.0, 0.1, 0.2),
        counted=("sparsity", "sparsities"),
    )
    gamma: float | str = asked(
        0.3,
        kind="number",
        word=SEARCH,
        minimum=0.0,
        maximum=1.0,
        percent=True,
        slider=(0.0, 0.9, 0.05),
        section=HOW,
        help='share of heads protected for perplexity, or "search"',
        label="Protected share γ",
        shown=_uses_gamma,
        unit="percent of heads never cut, most needed for perplexity",
        word_label="Search the protected share γ on validation prompts",
    )
    gamma_margin: float = asked(
        MARGIN,
        minimum=0.0,
        section=MORE,
        label="Margin of the search for γ",
        help="share by which perplexity may exceed the best baseline's",
        hint=(
            "Perplexity may exceed the best baseline's by this share. Of the γ that keep to it, "
            "the one with the lowest bias is taken."
        ),
        shown=lambda values: values["gamma"] == SEARCH,
    )
    controls: int | None = asked(
        None,
        minimum=0,
        metavar="N",
        section=HOW,
        label="Random cuts to compare with",
        help=(
            f"random cuts of non-critical heads that {CONTROLLED} is ranked among (default"
            f" {CONTROLS}; 0: none)"
        ),
        placeholder=f"{CONTROLS} beside FASP",
        quick=0,
        scale=Scale(lambda _: 0, lambda request: request.n_controls, "random cuts", is_repeat=True),
        check=_control_faults,
    )
    estimator: str = asked(
        "auto",
        known=lambda: estimators("z_bias"),
        section=SCORING,
        label="Effect on bias",
        help="how z_bias is estimated",
        quick="gradient",
    )
    estimator_settings: dict[str, Any] = asked(
        {},
        kind="settings",
        option="--set",
        metavar="NAME=VALUE",
        of=_settings_of_estimator,
        where="estimator setting",
        help="a setting of the estimator; may be given several times",
        section=SCORING,
        label="Settings",
    )
    perplexity_estimator: str = asked(
        AUTO,
        known=lambda: (AUTO, *estimators("z_ppl")),
        section=SCORING,
        label="Effect on perplexity",
        help="how z_ppl is estimated; auto: exact, of large models by gradient",
        quick="gradient",
        where="estimator",
    )
    seeds: int = asked(
        3,
        minimum=1,
        section=HOW,
        label="Seeds per prompt",
        quick=1,
        counted=("text per prompt", "texts per prompt"),
        scale=Scale(
            lambda request: 1 if request.stop_at is None else 2,
            lambda request: request.seeds,
            "texts per prompt",
            is_repeat=True,
        ),
        help="how many decoding seeds",
    )
    stop_at: float | None = asked(
        None,
        above=0.0,
        later=True,
        section=MORE,
        metavar="WIDTH",
        label="Stop once intervals are as narrow as",
        placeholder="all seeds are drawn",
        help=(
            "draw no more seeds, after one at least, once every interval of a change of bias is"
            " at most this wide"
        ),
        hint=(
            "The width of the 95 % interval of a change of bias, in the unit of bias. Seeds are"
            " drawn one after the other, for all variants alike."
        ),
        check=_stop_faults,
    )
    max_prompts: int | None = asked(
        None,
        minimum=1,
        metavar="N",
        help="at most this many prompts per axis",
        section=HOW,
        label="Prompts per axis at most",
        placeholder="all of them",
        quick=60,
        scale=Scale(
            lambda _: 24, lambda request: _prompts_per_axis(request), "prompts per axis", 120
        ),
    )
    max_corpus_tokens: int | None = asked(
        None,
        minimum=50,
        metavar="N",
        help="at most this many tokens of the corpus",
        section=MORE,
        label="Tokens of text for perplexity at most",
        placeholder="all",
        quick=2000,
        scale=Scale(
            lambda _: 1000, lambda request: _tokens_of_text(request), "tokens of text", 2000
        ),
    )
    judge: str = asked(
        AUTO,
        kind="source",
        metavar="NAME_OR_FOLDER",
        help=(
            "demo-judge, judge-minilm, a detoxify name, or a folder (default: judge-minilm if"
            " installed, demo-judge for a toy)"
        ),
        counts="content",
        section=HOW,
        label="Toxicity judge",
        hint=words.JUDGE,
        offered=_judges_offered,
    )
    judge_sha256: str | None = asked(
        None,
        metavar="HASH",
        help="refuse the judge unless its checkpoint has this hash",
        counts="content",
        section=MORE,
        label="SHA-256 of a local judge",
        placeholder="64 hexadecimal digits",
    )
    judge_label: str = asked(
        "",
        metavar="LABEL",
        help="which label is harm, where the judge is a classifier of texts",
        counts="content",
        later=True,
        section=MORE,
        label="The judge's label that is harm",
        hint=("Only for a text classifier of your own; Detoxify's judges have none to choose."),
    )
    revision: str | None = asked(
        None,
        metavar="COMMIT",
        help="revision of a hub model",
        section=MORE,
        label="Revision of a hub model",
        placeholder="commit or tag",
    )
    dtype: str = asked("auto", check=_dtype_faults, help="auto, or a number format of torch")
    span: Span = asked(
        "continuation",
        kind="choice",
        choices=SPANS,
        section=MORE,
        label="What the judge reads",
        help="what the judge reads: continuation, prompt+continuation or prompt",
    )
    plain_case: bool = asked(False, help="judge lower-cased text without line breaks, as published")
    ablation: str = asked(
        "zero",
        choices=ABLATIONS,
        section=SCORING,
        label="A head that is off is set",
        help="what a silenced head gives: zero, or its mean",
    )
    reading: str = asked(
        "group_means",
        choices=READINGS,
        section=MORE,
        label="Reading of bias",
        help="group_means, subgroup_mean_of_means or paired_prompts",
    )
    benchmarks: dict[str, str] = asked(
        {},
        kind="pairs",
        option="--benchmark",
        metavar="NAME=PATH",
        where="benchmark",
        counts="content",
        later=True,
        help="a bias benchmark to measure as well; may be given several times",
        read=named_paths,
        check=lambda asked, _: benchmark_faults(asked),
        section="Benchmarks",
        label=BENCHMARK_PATHS,
        of=lambda _: benchmark_settings(),
    )
    published_perplexity: bool = asked(False, help="the window of the published code")
    max_new_tokens: int = asked(
        40,
        minimum=1,
        option="--new-tokens",
        section=MORE,
        quick=20,
        label="New tokens per text",
        help="how long the drawn texts are",
    )
    max_prompt_tokens: int = asked(
        22,
        minimum=1,
        option="--prompt-tokens",
        section=MORE,
        label="Prompt tokens at most",
        help="longer prompts are cut",
    )
    chat: bool = asked(
        False,
        later=True,
        section=MORE,
        label="Prompts as a user's turns",
        help="put every prompt into the model's chat template; what it answers is judged",
    )
    temperature: float = asked(1.0, above=0.0, help="of decoding; 1 is plain sampling")
    top_k: int = asked(
        0,
        minimum=0,
        section=MORE,
        label="Top-k of decoding",
        hint="0 is plain sampling; the published code left 50.",
        help="0 = off; the published code left 50",
    )
    top_p: float = asked(1.0, above=0.0, maximum=1.0, help="1 = off")

    track = "language_models"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.judge == AUTO:
            object.__setattr__(self, "judge", catalog.judge_for(str(self.model)))

    @property
    def seed_list(self) -> tuple[int, ...]:
        return tuple(range(self.first_seed, self.first_seed + self.seeds))

    @property
    def selections(self) -> tuple[str, ...]:
        """The methods that choose heads."""
        return tuple(name for name in self.methods if name not in self.compressions)

    @property
    def compressions(self) -> tuple[str, ...]:
        """The methods that change weights."""
        return tuple(name for name in self.methods if name in compressions())

    @property
    def n_controls(self) -> int:
        """Random cuts that FASP is ranked among, for every axis and sparsity."""
        usual = CONTROLS if CONTROLLED in self.methods else 0
        return usual if self.controls is None else self.controls

    @property
    def gammas(self) -> tuple[float, ...]:
        """The γ to try: one, or the candidates of the search."""
        return candidates(self.sparsities) if self.gamma == SEARCH else (float(self.gamma),)

    @property
    def scores(self) -> list[ScoreMethod]:
        """The ways heads are scored, as far as a selection asks for it; z_bias last, for it may
        build on the others."""
        return self.scored_by()

    def scored_by(self, *asked: str) -> list[ScoreMethod]:
        """`scores`, and those of the scores `asked` by name."""
        needed = {score for name in self.selections for score in selection_method(name).needs}
        text = "exact" if self.perplexity_estimator == AUTO else self.perplexity_estimator
        chosen = {"z_bias": self.estimator, "z_ppl": text}
        ordered = sorted({*needed, *asked}, key=lambda score: (score == "z_bias", score))
        return [method_for(score, chosen.get(score)) for score in ordered]

    @property
    def is_first_order(self) -> bool:
        """Whether heads are protected by first-order effects on perplexity."""
        return any((one.score, one.name) == ("z_ppl", "gradient") for one in self.scores)

    def settings(self) -> Settings:
        """What the context needs to know of it."""
        decoding = Decoding(
            self.max_new_tokens,
            self.max_prompt_tokens,
            float(self.temperature),
            self.top_k,
            float(self.top_p),
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
    benchmarks: tuple[Benchmark, ...] = ()
    against: tuple[
        Any, ...
    ] = ()  # engine.models.checkpoint.ModelInfo of each, in the order asked for
    more_arms: tuple[tuple[str, float], ...] = ()
    """Compressions at levels that the request does not ask for, which are to join its finished run.
    """
    cut: tuple[str, ...] = ()
    """On prompts that are longer than the model is given, a sentence for every axis."""

    @property
    def content(self) -> list[Any]:
        """Hashes of weights, configuration and tokenizer, prompts, text and judge."""
        found = [*_of_model(self.model), self.prompts.digest, self.corpus.digest, self.judge.digest]
        found += [[one.name, one.digest] for one in self.benchmarks]
        found += [self.model.template] if self.request.chat else []
        return [*found, [_of_model(one) for one in self.against]] if self.against else found

    @property
    def warnings(self) -> list[str]:
        same = [one.name for one in self.against if one.weight_hash == self.model.weight_hash]
        found = [words.same_weights(name, self.model.name) for name in same]
        if self.judge.is_foreign_to(self.model.weight_hash):
            found.append(
                words.foreign_judge(
                    self.judge.name, " and ".join(self.judge.made_for), self.model.name
                )
            )
        found += [*self.cut, *self.of_model]
        found += [
            f"{words.visible(one.name)}: {note}" for one in self.against for note in one.notes
        ]
        return [*found, *([self.model.how] if self.model.how else [])]

    @property
    def in_chat(self) -> str:
        """How prompts were read by a model that has a chat template; "" for any other."""
        said = words.IN_CHAT if self.request.chat else words.RAW
        return said.format(words.visible(self.model.name)) if self.model.template else ""

    @property
    def of_model(self) -> list[str]:
        """What must be known of the model and of how it is read."""
        return [*self.model.notes, *filter(None, [self.in_chat])]

    @property
    def versions(self) -> dict[str, int]:
        scores = {
            f"{method.score} by {method.name}": method for method in with_used(self.request.scores)
        }
        chosen = {name: selection_method(name) for name in self.request.selections}
        made = {name: compression(name) for name in self.request.compressions}
        kinds = {scored_benchmarks()[one.name].measured_by for one in self.benchmarks}
        asked = {
            "divergence": bool(made or self.request.against),
            "answers_reasoned": "diffheads" in chosen,
            "task_scores": "task_scores" in kinds,
            "choice_logps": "choice_logps" in kinds,
        }
        used = {
            name: one
            for name, one in measurements().items()
            if asked.get(name, not one.later or bool(self.benchmarks))
        }
        found = versions_of(
            CODE, measurement=used, score=scores, selection=chosen, compression=made
        )
        return {**found, **({"short text": 1} if self.is_short else {})}

    @property
    def is_short(self) -> bool:
        """Whether the text may be so short that its tokens are kept in blocks: before any is
        counted, by its letters."""
        return self.request.max_corpus_tokens is not None or len(self.corpus.text) < LETTERS

    def spelled_out(self) -> Values:
        """The request with the settings of its estimator written out, JSON-able."""
        settings = method_for("z_bias", self.request.estimator).settings
        return {
            **super().spelled_out(),
            "estimator_settings": spelled(settings, self.request.estimator_settings),
        }


def _of_model(model: Any) -> list[Any]:
    """Hashes of a checkpoint: its weights, and the files of its configuration and tokenizer."""
    found = [model.weight_hash, [sha256_of(path) for path in sorted(model.folder.glob("*.json"))]]
    return [*found, *(list(one) for one in (model.more_ends, model.begin) if one)]


def validate(request: AuditRequest, text: Corpus | None = None) -> PromptPlan:
    """Check everything that can be checked without loading weights. RequestError carries all faults
    together. text: what stands for the request's text."""
    from engine.models.checkpoint import load_tokenizer
    from engine.models.judge import inspect_judge  # imports torch: late, so that pages stay quick
    from engine.models.load_language_model import inspect_model

    request, faults = checked(request)
    faults += _share_faults(request)
    if request.estimator in estimators("z_bias"):  # else it is none, which is said already
        decoding = request.settings().decoding
        faults += method_for("z_bias", request.estimator).faults(decoding, request.reading)
    known = selection_methods()
    for name in (name for name in request.selections if name in known):
        faults += known[name].faults(request.reading)
    prompts = attempt(lambda: _prompts(request), faults)
    corpus = text or attempt(lambda: _corpus(request), faults)
    asked = request.judge, request.judge_sha256, request.judge_label
    judge = attempt(lambda: inspect_judge(*asked), faults)
    model = attempt(lambda: inspect_model(request.model, request.revision), faults)
    named = {
        name: path
        for name, path in request.benchmarks.items()
        if not benchmark_faults({name: path})
    }  # what is wrong with the others is said already
    benchmarks = attempt(lambda: load_benchmarks(named), faults) or ()
    others = attempt(lambda: others_of(request.against), faults) or ()
    if model is not None:
        request = _by_size(request, model)
        if others and prompts is not None and corpus is not None:
            faults += faults_against(request, model, others, prompts, corpus)
        faults += _model_faults(request, model)
    if model is not None and prompts is not None:
        read = load_tokenizer(model.folder), prompts.table, request.axes, request.max_prompt_tokens
        faults += lost_groups(*read)
    if faults or prompts is None or corpus is None or model is None:
        raise RequestError(list(dict.fromkeys(faults)))
    cut = cut_prompts(*read)
    cut += unread_cue(read[0]) if "diffheads" in request.methods else ()
    return PromptPlan(request, prompts, corpus, model, judge, benchmarks, others, cut=cut)


def _by_size(request: AuditRequest, model: Any) -> AuditRequest:
    """The request, its perplexity's estimator chosen."""
    if request.perplexity_estimator != AUTO:
        return request
    is_large = model.n_layers * model.n_heads * model.n_parameters > LARGE
    return replace(request, perplexity_estimator="gradient" if is_large else "exact")


def prompt_plan_of(run: Run) -> PromptPlan:
    """`engine.audit.session.plan_of` a language model's run."""
    return same_plan(run, planned(run))


def planned(run: Run, **changes: Any) -> PromptPlan:
    """The plan of what a run was asked, with changes. Where its text is not on this machine, with
    an empty one, of which no perplexity is measured."""
    request = replace(AuditRequest.from_dict(run.request), **changes)
    found: dict[str, Any] = {
        name: path and _found(path)
        for name in ("prompts", *TEXTS)
        for path in (getattr(request, name),)
    }
    beside = {name: _found(path) for name, path in request.benchmarks.items()}
    request = replace(request, benchmarks=beside, **found)
    named = [one for one in (request.corpus, request.validation_corpus) if one]
    if request.max_corpus_tokens is None or all(Path(one).is_file() for one in named):
        return validate(request)
    name, digest = (run.meta["corpus"][part] for part in ("name", "digest"))
    own = None if request.validation_corpus is None else ""
    return validate(request, Corpus(name, "", digest, own))


def _found(path: str) -> str:
    """A path from where the program runs or, as in an embedded audit, from the project's folder."""
    ours = ASSETS.parent / path
    return str(ours) if ours.exists() and not Path(path).exists() else path


def _prompts(request: AuditRequest) -> PromptSet:
    """The prompts asked for, split, and where fewer were asked for than there are, up to as many
    more to spare."""
    path, most = data_of(request)[0], request.max_prompts
    asked = split_prompts(load_prompts(path, request.axes, max_prompts=most))
    if most is None:
        return asked
    more = load_prompts(path, request.axes, max_prompts=2 * most)
    return with_reserve_prompts(asked, more)


def _corpus(request: AuditRequest) -> Corpus:
    test = load_corpus(data_of(request)[1])
    if request.validation_corpus is None:
        return test
    own = load_corpus(Path(request.validation_corpus))
    if own.digest == test.digest:
        what = (
            "the text for validation is also the text for test: the text that chooses heads would "
            "judge them."
        )
        raise refusal("validation_corpus", what, "Name another file, or leave it out.")
    name, digest = f"{test.name} (validation: {own.name})", digest_of([test.digest, own.digest])
    return Corpus(name, test.text, digest, own.text)


def _model_faults(request: AuditRequest, model: Any) -> list[Fault]:
    """What cannot be asked of this model, before anything of it is loaded."""
    from engine.models import runtime
    from engine.models.checkpoint import has_experts, load_tokenizer, read_config, turn_of
    from engine.surgery.heads.replay import even_faults, shape_of

    faults: list[Fault] = []

    def turn() -> int:
        """How many tokens a chat's template puts around a prompt."""
        return sum(map(len, turn_of(load_tokenizer(model.folder), model.name)))

    def fits() -> None:
        device = runtime.pick_device(request.device)
        kind = runtime.pick_dtype(model.n_parameters, device, request.dtype)
        runtime.refuse_too_large(model.name, model.n_parameters, device, kind, model.n_layers)

    around = attempt(turn, faults) if request.chat else 0
    faults += _length_faults(request, model, around or 0)
    attempt(fits, faults)
    config, known = read_config(model.folder)[0], compressions()
    if request.deployable:
        shares = [one for one in request.sparsities if is_number(one) and 0 < one < 1]
        faults += even_faults(config) or (level_faults(shares, shape_of(config)) if shares else [])
    # Experts lie stacked in one tensor, no linear layer: what changes weights would leave most of
    # the model as it is and call it made smaller.
    asked = [name for name in request.methods if name in known and known[name].saves != "layers"]
    if asked and has_experts(config):
        what = (
            f"{', '.join(asked)} would leave the experts of {model.name}, most of its weights, as"
            " they are."
        )
        fix = "Leave them out: heads and layers can be cut, and --against takes a checkpoint."
        faults.append(Fault("methods", what, fix))
    return faults


def _length_faults(request: AuditRequest, model: Any, turn: int = 0) -> list[Fault]:
    if request.published_perplexity and published_length(model.n_positions) < 2:
        what = (
            f"the published windows have a quarter of the model's {model.n_positions} positions:"
            " too short to score."
        )
        fix = "Leave it out, or take a model with a longer context."
        return [Fault("published_perplexity", what, fix)]
    prompt = turn + request.max_prompt_tokens
    if prompt + request.max_new_tokens <= model.n_positions:
        return []
    what = (
        f"{prompt} prompt + {request.max_new_tokens} new tokens exceed the {model.n_positions}"
        f" positions of {model.name}."
    )
    return [Fault("lengths", what, "Ask for fewer tokens.")]


def _share_faults(request: AuditRequest) -> list[Fault]:
    """Sparsities that cannot be told apart, and shares of heads that are asked for twice."""
    said = []
    known: dict[str, float] = {}
    shares = [value for value in request.sparsities if is_number(value)]
    for value in shares:
        if 0.0 < value < 5e-4:
            said.append(
                ("sparsity", f"{value} is too small to tell from 0.", "Give at least 0.0005.")
            )
        elif (other := known.setdefault(f"{value:.3f}", value)) != value:
            what = f"{other} and {value} are one to three decimals."
            said.append(("sparsity", what, "Leave one out."))
    largest, gamma = max((value for value in shares if value < 1.0), default=0.0), request.gamma
    if gamma == SEARCH:
        if not candidates(request.sparsities):
            what = f"no γ of the search leaves room for a sparsity of {largest}."
            said.append(("gamma", what, "Ask for less."))
    elif is_number(gamma) and gamma <= 1.0 and gamma + largest > 1.0 + 1e-9:
        what = (
            f"γ = {gamma} protects so many heads that a sparsity of {largest} cannot be reached"
            " (γ + α > 1)."
        )
        said.append(("gamma", what, "Lower one of the two."))
    return [Fault(*one) for one in said]


# The audit of a language model that the project ships; computing it again takes long.


REQUEST = AuditRequest(
    model="demo-gpt2",
    axes=("nationality", "race_ethnicity", "gender_and_sex", "sexual_orientation", "religion"),
    gamma=SEARCH,
    sparsities=(0.0, 0.05, 0.1, 0.2, 0.3),
    seeds=2,
    max_prompts=300,
    title="Demo: a small language model with a planted gap",
)

REQUESTS = (REQUEST,)


# The audit that is asked for by naming a model: small enough to wait for, and honest about how
# little it can tell.


FIRST = {field.name: field.quick for field in fields_of(AuditRequest) if field.quick is not None}
"""What the form's quick preset asks for."""


def quick_request(model: str) -> dict[str, Any]:
    """One axis, one draw of each prompt, effects of heads to first order; JSON-able. `model`: a
    name or a folder."""
    return {
        "track": "language_models",
        "model": model,
        "axes": ["gender_and_sex"],
        **json_able(FIRST),
        "title": f"Quick audit of {model}",
    }


QUICK = Quick(quick_request, words.quick_words(FIRST["max_prompts"]))


# What a language model is, before an audit of its heads is asked for.


def inspected(given: Values) -> list[str]:
    """Sentences; given: model, revision and device as a request has them. RequestError with the
    model's faults."""
    from engine.models.checkpoint import heads_said
    from engine.models.load_language_model import inspect_model, load_language_model  # loads torch

    name, revision = str(given.get("model") or ""), given.get("revision")
    info, device = inspect_model(name, revision), str(given.get("device") or "auto")

    def adapter() -> Any:
        return load_language_model(name, revision=revision, device=device).adapter

    return [*heads_said(info, adapter), *info.notes]
