"""Words about audits of language models: methods, metrics, estimators, caveats, warnings."""

from __future__ import annotations

import math
from collections.abc import Sequence

from engine.core.text import visible
from engine.core.types import Values
from engine.core.words import AXES, PREDICTED, Word, axis_name, duration
from engine.tracks.language_models.benchmarks import PREFIX, scored_benchmarks
from engine.tracks.language_models.bias_intervals import FEW

INTERVALS = "Intervals are 95 %, clustered by descriptor and template."

INTERVALS_PERPLEXITY = (
    "Intervals are 95 %, from a bootstrap over blocks of text; of short texts they can be too"
    " narrow."
)

MADE_ON = (
    "Scores and γ come from validation prompts; auto may take further prompts of the source for "
    "scores. Reported numbers come from test prompts only."
)

JUDGE = "A classifier scores toxicity, not people; it can dislike identity words themselves."

PROMPTS_ALONE = "prompts alone"
"""In place of a variant: what a judge says before any model wrote a word."""
ONE_JUDGE = "Only the audit's own judge has read these texts."
JUDGES_SAID = (
    "Every judge read the same texts. Judges have scales of their own, so each change is a share "
    "of the bias that this judge sees in the uncut model. Compare directions rather than sizes. "
    "Judges that agree may still be wrong: they may have learnt from the same data. 95 % "
    "intervals, clustered by descriptor and template."
)
NAMES_SAID = (
    "The judge read the prompts alone, before a model continued them. A judge that rates the "
    "words for one group higher finds bias where there is none, and no cut can change that. 95 % "
    "intervals, clustered by descriptor and template."
)

HEAD_CONTRIBUTIONS = (
    "Bias per axis and perplexity with each head removed, in the lists that the published code of"
    " FASP reads. They are dense values minus effects of heads; norms and gradients, whose scale it"
    " does not say, are left out. The command import-scores reads the file."
)

PER_CENT = (
    "Per cent of the full model's value, on the same prompts and texts. Intervals are Fieller's "
    "95 % for the ratio; there is none where the full model's value may be zero. Chance alone "
    "gives some bias, so these per cents cannot be compared between axes or numbers of prompts."
)

EMBEDDED_DATA = "invented groups"

INVENTED = {
    "nationality": "nationalities",
    "race_ethnicity": "peoples",
    "gender_and_sex": "genders",
    "sexual_orientation": "ways of loving",
    "religion": "rites",
}
"""What the groups of the embedded prompts are, by axis (assets/build/written.py)."""


def quick_words(prompts: int) -> str:
    """Said where a model alone is enough to ask for an audit."""
    return (
        f"Gender and sex, about {prompts} prompts, one text for each, effects of heads to first"
        " order: a first look in minutes. Intervals are wide: it can show a large bias, not that"
        " there is none. For an answer, start a new audit with more prompts or your own. The"
        " demo's judge, which knows few words, stands in where judge-minilm is not installed."
    )


NO_CONTROLS = "This run was made without random cuts to rank FASP among."

METHODS = {
    "fasp": Word(
        "FASP",
        "Protects the heads that matter most for perplexity, then cuts those that add most bias.",
    ),
    "annealed": Word(
        "annealed",
        "Searches sets of as many heads as FASP cuts, under its protection, for the lowest "
        "predicted bias. On the demo it did not help: over five draws no axis had "
        "clearly less bias than with FASP.",
    ),
    "diffheads": Word(
        "DiffHeads",
        "Cuts, under FASP's protection, the heads that work on direct answers and rest after "
        "step-by-step reasoning. On the demo it did not help: over three draws no axis had "
        "clearly less bias than with FASP. On a real model, one draw, 13 of 20 random cuts did as "
        "well.",
    ),
    "bias_only": Word("bias only", "Cuts the heads that add most bias and protects none."),
    "ppl_only": Word(
        "perplexity only", "Cuts the heads whose removal costs least perplexity; ignores bias."
    ),
    "magnitude": Word(
        "magnitude", "Cuts the heads with the smallest weights (L2 norm); ignores data."
    ),
    "gradient": Word(
        "gradient", "Cuts the heads to which the loss is least sensitive (Michel et al. 2019)."
    ),
    "random": Word("random", "Cuts heads drawn at random, with a stated seed."),
    "random_noncritical": Word(
        "random non-critical",
        "Control: draws at random among the heads FASP would allow. Shows whether the bias score"
        " helps, or only γ.",
    ),
    "wanda": Word(
        "Wanda",
        "Zeroes the weights of each output with the smallest product of weight and input.",
    ),
    "sparsegpt": Word(
        "SparseGPT", "Zeroes weights column by column and adjusts the others to make up for it."
    ),
    "magnitude_weights": Word(
        "smallest weights", "Zeroes the smallest weights of every layer; ignores data."
    ),
    "random_weights": Word(
        "random weights", "Control: zeroes weights drawn at random, as many in every layer."
    ),
    "layer_drop": Word(
        "layer drop",
        "Takes out whole layers whose output is most like their input.",
    ),
    "int8": Word(
        "int8", "Rounds weights to the nearest of 255 steps, one scale per row; weights only."
    ),
    "int4": Word(
        "int4",
        "Rounds weights to the nearest of 15 steps, one scale per 32 neighbours; weights only.",
    ),
}

COMPRESSED = (
    "Compressions change the weights of linear layers inside the blocks; embeddings, norms, "
    "biases and the output layer stay. Those that need text use the validation text."
)

ZEROS = (
    "Zeros alone make nothing smaller or faster. They are stored and multiplied like other "
    "numbers until a format and a kernel leave them out."
)

ROUNDED = (
    "The model computes in its own precision with the numbers that the bits stand for. The bytes "
    "are those of the bits with their scales. A special kernel would take another time."
)

AGAINST = (
    "Other checkpoints, separated by commas: quantised, distilled, pruned or trained elsewhere. "
    "Each must cut text into the same tokens as the model. It gets the same prompts and random "
    "numbers, and is shown beside the variants."
)

RAW = "{}'s chat template was not used: prompts were plain texts (option --chat uses it)."
IN_CHAT = "Every prompt stood in the chat template of {}, as a user's turn; its answer was judged."

AGAINST_PREFIX = "against-"
"""How the method of another checkpoint begins; its name follows, for each is a method of its own.
"""


AGAINST_MEANS = (
    "Another checkpoint with the same tokenizer, on the same prompts with the same random numbers."
)


def is_against(method: str) -> bool:
    return method.startswith(AGAINST_PREFIX)


EVEN = "+even"
"""How the name of a method that is held to what any loader can read ends."""

EVEN_MEANS = (
    "The same number of heads in every layer and whole key/value groups, so that any loader reads "
    "the result."
)


def arm_name(method: str) -> str:
    """The name of another checkpoint, or of a method that is held to what any loader reads; "" for
    other methods."""
    if method.endswith(EVEN) and method.removesuffix(EVEN) in METHODS:
        return f"{METHODS[method.removesuffix(EVEN)].name}, even"
    return (
        f"checkpoint {visible(method.removeprefix(AGAINST_PREFIX))}" if is_against(method) else ""
    )


def same_weights(name: str, model: str) -> str:
    """Said where a checkpoint is compared with itself."""
    return (
        f"{visible(name)} has the very weights of {visible(model)}: nothing but rounding can differ"
        " between them."
    )


_BIAS = (
    "Sum over subgroups of the distance between their mean toxicity and the mean of all; 0 means no"
    " difference."
)

_FLOOR = (
    "It is above zero even when groups do not differ, and grows with the number of subgroups. "
    "Read it with its null band."
)

READINGS = {
    "group_means": Word(
        "group means", "Mean of all prompts of the axis against subgroup means (published scores)."
    ),
    "subgroup_mean_of_means": Word(
        "mean of means", "Unweighted mean of subgroup means against each subgroup mean."
    ),
    "paired_prompts": Word(
        "same template", "Differences within a prompt template first, then their mean (Eq. 1)."
    ),
}

SPANS = {
    "continuation": Word("continuation", "Only what the model wrote is judged."),
    "prompt+continuation": Word(
        "prompt and continuation", "The judge also sees the prompt, as in the published code."
    ),
    "prompt": Word(
        "prompt alone", "The floor: the judge on the prompt, before the model wrote anything."
    ),
}

ABLATIONS = {
    "zero": Word("to zero", "It gives zeros, as published."),
    "mean": Word("to its mean", "It gives its average over the validation text."),
}

SCORES = {
    "z_bias": Word(
        "effect on bias",
        "Bias with the head on minus bias with it off; positive: cutting it lowers bias.",
    ),
    "z_ppl": Word(
        "effect on perplexity",
        "Perplexity with the head on minus off; very negative: a critical head.",
    ),
    "magnitude": Word(
        "size of weights", "L2 norm of the head's query, key, value and output weights."
    ),
    "gradient": Word(
        "sensitivity",
        "Mean absolute gradient of the loss on the head's gate, normalised per layer.",
    ),
    "diffheads": Word(
        "direct-answer activity",
        "A head's share of all heads' effect on the model's own answers, minus that share after "
        "step-by-step reasoning.",
    ),
    "random": Word("random number", "A seeded random number; no information."),
}

ESTIMATORS = {
    "auto": Word(
        "automatic",
        "Starts with the gradient for all heads and measures those that matter by the cheapest "
        "honest estimator. Then it takes more prompts and draws, within a budget. It ranks "
        "nothing where the bias lies inside its null band.",
    ),
    "gradient": Word("gradient", "First order: one backward pass for all heads. The fast preview."),
    "reweight": Word(
        "reweighting",
        "Reweights the model's own texts by how likely they are with the head off. Draws new "
        "texts where that says too little.",
    ),
    "generate": Word(
        "regeneration",
        "Draws every text again with the head off and judges it again. The slow reference.",
    ),
    "combined": Word(
        "reweighting and regeneration",
        "Large effects with a heavy tail of weights: the mean of both ways.",
    ),
    "exact": Word("exact", "Measures the perplexity with each head off."),
}


FIRST_ORDER_MISSES = "First order may miss a head that the model needs."
FIRST_ORDER = (
    f"Heads are protected by first-order effects on perplexity. {FIRST_ORDER_MISSES} Option"
    " --perplexity-estimator exact measures every head."
)
BY_SIZE = Word(
    "by the model's size", "Exact; of models as large as SmolLM2 by gradient, to first order."
)


def estimator_name(estimator: str) -> str:
    return ESTIMATORS[estimator].name if estimator in ESTIMATORS else estimator.replace("_", " ")


def score_name(score: str) -> str:
    return SCORES[score].name if score in SCORES else score.replace("_", " ")


JUDGED_HERE = "Texts are judged in this process. A cluster draws texts, and these exist already."
"""Said where a cluster was given."""


def foreign_judge(judge: str, made_for: str, model: str) -> str:
    """The judge was made for the texts of another model than the one that is audited."""
    return (
        f"The judge {judge} was made for the texts of {made_for}: it knows few words and no "
        f"context. Its scores of texts of {model} may mean nothing, and so may every bias, even "
        "above its null band. Choose another, such as judge-minilm."
    )


def null_warning(axis: str, bias: float, null_high: float, n: int, is_scored: bool) -> str:
    """Said of an axis, and above every heat map of it where heads were scored."""
    means = "Head scores and selections for this axis rank noise." if is_scored else NULL_MEANS
    return (
        f"{AXES.get(axis, axis)}: the dense model's bias of {bias:.3f} ({n} prompts) is inside its"
        f" null band (up to {null_high:.3f} when labels are exchanged within templates). {means}"
    )


def not_supported(method: str, axis: str, why: str) -> str:
    """Said where a method builds nothing, because an axis supports no ranking."""
    why = why.removeprefix("not ranked: ")
    return (
        f"{axis_name(axis)}: {METHODS[method].name} cuts nothing, for no ranking is supported: "
        f"{why}. Ask for more prompts, or leave the method out."
    )


def unread_cue(cue: str, unknown: int, tokens: int) -> str:
    """Said where a model that is to reason cannot read what asks it to."""
    return (
        f"{unknown} of the {tokens} tokens of “{cue}” are unknown to this model. DiffHeads "
        "compares its answers with texts behind unknown words, not with reasoning."
    )


NULL_MEANS = "The data support no fall of bias and no ranking of heads on this axis."

RANKED_BY_NOISE = (
    "The ranking that chose these heads is not supported: the dense model's bias is no larger than"
    " chance gives."
)

NULL_LABEL = "null band, words: what chance alone would give"

GROUP_NULL_LABEL = "null band, group: what other words would give"


def group_warning(axis: str, bias: float, group_high: float, note: str) -> str:
    """Said where these very prompts differ, but not, or not known to, because of the groups that
    they name."""
    start = (
        f"{AXES.get(axis, axis)}: these prompts differ (bias {bias:.3f}, outside the words band)"
    )
    if math.isnan(group_high):
        return f"{start}, but the cause may be the groups or single words: {note or NO_GROUP_BAND}."
    return (
        f"{start}, but exchanging descriptors between subgroups gives as much (group null band up "
        f"to {group_high:.3f}). Single words or templates may make the difference, so nothing "
        "follows about a group."
    )


def no_interval_warning(axis: str) -> str:
    """Said where no interval of the bias holds."""
    return (
        f"{AXES.get(axis, axis)}: too few {FEW} for any interval of the bias, so no verdict is"
        " given on it."
    )


NO_GROUP_BAND = "this audit holds no group band (it was computed by an earlier version)"


def small_group_warning(axis: str, groups: Sequence[str], of: int, few: str) -> str:
    """Said where subgroups get no verdict; few: of what they have too few."""
    named = ", ".join(groups[:5]) + (", …" if len(groups) > 5 else "")
    return (
        f"{AXES.get(axis, axis)}: {len(groups)} of {of} subgroups have {few} for a"
        f" verdict ({named})."
    )


def perplexity_warning(value: float, vocab_size: int) -> str:
    """Said where the model predicts worse than a uniform guess."""
    return (
        f"The dense model's perplexity of {value:,.0f} is worse than guessing among its "
        f"{vocab_size:,} tokens. Are tokenizer and language the right ones?"
    )


UNLEARNED = (
    "The dense model itself predicts text no better than a uniform guess: no verdict is given on"
    " any cut of it."
)


def unusable(does: str) -> str:
    """Said in place of a verdict on a model that predicts worse than a uniform guess; does: what
    was done to it."""
    return (
        f"{does} gives an unusable model: it predicts text worse than a uniform guess, so its bias"
        " says nothing."
    )


def power_words(found: Values | None) -> str:
    """Said beside every "no head can be told from zero": what could have been found (`power_of`),
    if that is known."""
    if not found:
        return (
            "An earlier version computed this audit; it does not hold which effect could have "
            "been found."
        )
    share = f"{found['of_heads']:.0%}".replace("%", " %")
    text = (
        f"With {found['power'] * 100:.0f} % power it could have found an effect of "
        f"{found['effect']:.2g} or more ({share} of the heads, {found['prompts']:,} prompts). The "
        f"first of {found['heads']} heads needs a two-sided p up to {found['level']:.1g}. "
    )
    if found["half_prompts"] is None:
        return text + "More prompts of this kind cannot halve that."
    return (
        text + f"Finding half as much would take about {found['half_prompts']:,} prompts, with as "
        "many more descriptors and templates."
    )


def few_texts_words(axes: Sequence[str]) -> str:
    """Said where reweighting cannot serve, whatever is cut."""
    return (
        f" In {', '.join(axes)} some subgroup has too few texts to be reweighted. There, heads "
        "that need more than first order get new texts, and that takes longer. More prompts help."
    )


NO_SCORES_ASKED = "No method asks for scores of heads."


def not_scored(score: str = "z_bias") -> str:
    """Said where a reader looks for scores that nothing in the audit asked for."""
    return (
        f"Heads were not scored for {score_name(score)}, because no method of this audit asks for "
        "it. Add a method that does, or run the command `scores`."
    )


def shown_words(change: float) -> str:
    """The change of bias that an audit would show."""
    return (
        f" In four of five tries this audit would show a change of bias of about {change:.1g}."
        " Four times the texts would halve that at best."
    )


def prediction_words(
    scoring: Sequence[float], measuring: float, width: float, silent: Sequence[str]
) -> str:
    """What a request will cost and show; seconds (of scoring: least and most), `silent` axes inside
    their null band."""
    if not max(scoring):
        return f"{PREDICTED} about {duration(measuring)} to measure variants. {NO_SCORES_ASKED}"
    least, most = (duration(seconds) for seconds in scoring)
    text = (
        f"{PREDICTED} about {least}"
        if least == most
        else f"{PREDICTED} {least} to {most}, as the selection settles,"
    )
    text += f" to score heads and about {duration(measuring)} to measure variants. "
    text += (
        "Too few prompts for intervals of heads."
        if math.isnan(width)
        else f"A head's 95 % interval about {width:.2g} wide."
    )
    if silent:
        text += (
            " Inside the null band so far, so perhaps nothing to rank heads by:"
            f" {', '.join(silent)}."
        )
    return text


def extrapolated_words(tried: Values, sure: float) -> str:
    """On what a prediction rests that did not draw every axis. tried: axis, prompts, seconds; sure:
    slower draw of two over the quicker."""
    few = f"{tried['prompts']} prompts of {axis_name(tried['axis'])}"
    return (
        f"Extrapolated from {few}, tried for {duration(tried['seconds'])}. One of two draws took "
        f"{sure:.1f} times as long as the other, so these times may be off as much, or more under "
        "load. So few prompts cannot show whether there is a bias to rank heads by."
    )


METRICS = {
    "bias:group_means": Word("bias", _BIAS, better="lower", caveat=_FLOOR),
    "bias:subgroup_mean_of_means": Word(
        "bias (unweighted mean)", _BIAS, better="lower", caveat=_FLOOR
    ),
    "bias:paired_prompts": Word("bias (same template)", _BIAS, better="lower", caveat=_FLOOR),
    "toxicity": Word(
        "mean toxicity",
        "Mean judge score of the continuations, 0 to 1.",
        better="lower",
        caveat=JUDGE,
    ),
    "toxic_share": Word(
        "toxic share",
        "Share of continuations the judge scores above 0.5.",
        better="lower",
        caveat=JUDGE,
    ),
    "perplexity": Word(
        "perplexity",
        "How surprised the model is by held-out text; 1 would be certainty.",
        better="lower",
    ),
    "gap": Word(
        "gap", "Toxicity of the worst-off subgroup minus that of the best-off.", better="lower"
    ),
    "worst_group": Word(
        "worst-off subgroup",
        "Toxicity of the dense model's most toxic subgroup.",
        better="lower",
    ),
    "best_group": Word(
        "best-off subgroup",
        "Toxicity of the dense model's least toxic subgroup.",
        better="lower",
    ),
    "divergence": Word(
        "divergence per token",
        "Kullback-Leibler divergence of the next token's probabilities from the dense model's, as "
        "a mean over the text.",
        better="lower",
    ),
    "flipped": Word(
        "flipped tokens",
        "Share of the text's tokens at which another token is the likeliest.",
        better="lower",
    ),
    "bias_floor": Word(
        "judge's floor",
        "Bias of the judge on the prompts alone; no head can change it.",
    ),
    **{
        f"{PREFIX}{name}": Word(
            f"{one.headline.title} ({one.title})",
            one.headline.about,
            better="lower",
            caveat=one.limits,
        )
        for name, one in scored_benchmarks().items()
    },
}

TERMS = {
    "FASP": METHODS["fasp"].definition,
    "bias only": METHODS["bias_only"].definition,
    "perplexity only": METHODS["ppl_only"].definition,
    "random non-critical": METHODS["random_noncritical"].definition,
    "γ": "The share of heads that FASP protects because the model needs them most to predict text.",
    "critical": (
        "Among the heads that matter most for perplexity, which FASP therefore leaves alone."
    ),
    "perplexity": METRICS["perplexity"].definition,
    "bias": _BIAS,
    "ICC": (
        "How alike the scores of a head are from one seed to the next: 1 is the same, 0 nothing in"
        " common."
    ),
    "reweighting": ESTIMATORS["reweight"].definition,
    "regeneration": ESTIMATORS["generate"].definition,
    "ESS": (
        "How many plain texts the weighted ones are worth: few, when some weigh much more "
        "than others."
    ),
    "null band, words": "Where the bias would lie if labels were exchanged within a template.",
    "null band, group": (
        "Where the bias would lie if whole descriptors were exchanged between subgroups. It "
        "includes what templates add that treat subgroups differently."
    ),
}

SMALLER = "If we make the model smaller, who pays, and how sure are we?"
"""The summary's question where an audit has more than cuts of heads."""

PAGES = {
    "heads": "Which heads add to the bias, and which does the model need?",
    "bench": "What if these heads are off?",
    "examples": "What does the model write, before and after?",
    "playground": "What does it write when heads are off?",
}

CHOICES = {
    "reading": READINGS,
    "span": SPANS,
    "ablation": ABLATIONS,
    "estimator": ESTIMATORS,
    "perplexity_estimator": ESTIMATORS | {"auto": BY_SIZE},
}
"""Values of settings by name."""


SETTINGS = {
    "max prompts": "prompts per axis at most",
}


# How each selection looks, in every chart.


LOOKS = {
    "fasp": ("#0072B2", "#56B4E9", "circle", "solid"),
    "annealed": ("#6B4C9A", "#B79AE0", "pentagon", "solid"),
    "diffheads": ("#6B6A00", "#B9B23A", "star-diamond", "solid"),
    "bias_only": ("#882255", "#D46A98", "square", "solid"),
    "ppl_only": ("#2F8FCB", "#0093E0", "star", "solid"),
    "magnitude": ("#009E73", "#2CC79B", "diamond", "solid"),
    "gradient": ("#CC79A7", "#E59BC3", "triangle-up", "solid"),
    "random": ("#7a7a7a", "#b0b0b0", "x", "solid"),
    "random_noncritical": ("#8C7A00", "#E6D000", "cross", "solid"),
    "wanda": ("#117A65", "#45C9A8", "triangle-down", "dash"),
    "sparsegpt": ("#A63D40", "#F08A8C", "triangle-left", "dash"),
    "magnitude_weights": ("#8A6D1D", "#D9B44A", "diamond-tall", "dash"),
    "random_weights": ("#5C6670", "#A9B4BF", "x-open", "dash"),
    "layer_drop": ("#5B4B9A", "#A99BEA", "square-open", "dash"),
    "int8": ("#1F5FA8", "#6FB1FA", "hourglass", "dash"),
    "int4": ("#1F5FA8", "#6FB1FA", "hourglass-open", "dash"),
    "by hand": ("#6A3D9A", "#B794F4", "hexagon", "dot"),
}
