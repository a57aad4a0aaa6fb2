"""Every name, definition, unit, direction and caveat a person reads. Screens and reports take their words from here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

PRODUCT = "PruneAudit"
CLAIM = "Cut parts of a model, see who pays, and how sure we are."

COUNTING = "Layers and heads are counted from 0, as in mask.json."
INTERVALS = "Intervals are 95 %, from a bootstrap clustered by descriptor and template."
INTERVALS_PERPLEXITY = "Intervals are 95 %, from a bootstrap over blocks of text."
MADE_ON = "Scores and γ come from validation prompts only; what is reported comes from test prompts only."
JUDGE = "Toxicity is the score of a classifier, not of people; it can dislike identity words themselves."
INTERVALS_IMAGES = "Intervals are 95 %, over images and trials; changes are paired, image by image."
NULL_BAND = (
    "The null band is what the gap would be if group labels were exchanged between images of one class: what the mix "
    "of classes in the subgroups, and chance, give without any other difference."
)
MADE_ON_IMAGES = "Filters are chosen and models retrained on training images; results come from test images only."
INTERVALS_TEXTS = (
    "Intervals are 95 %, over texts and seeds; changes are paired, text by text, each seed with its own full model."
)
NULL_BAND_TEXTS = (
    "The null band is what the gap would be if group labels were exchanged between texts of one class: what the mix "
    "of classes in the subgroups, and chance, give without any other difference."
)
MADE_ON_TEXTS = "Heads are scored and models fine-tuned on training texts; results come from test texts only."
WINNING = (
    "A ticket is a model with heads cut whose mean over seeds plus its standard deviation over seeds reaches the full "
    "model's mean. It is winning where it was trained from the pre-trained weights, else only matching."
)
"""Chen et al. 2020, as the thesis uses it."""
SAME_MODELS = "Fewer than three of its seeds came to different models, so whether it is a ticket is left open."
FEW_SEEDS = "With fewer than three seeds a standard deviation says little, so nothing here is called a ticket."


@dataclass(frozen=True)
class Word:
    """A name as shown and what it means. `better` is the good direction: "lower", "higher" or "" for neither."""

    name: str
    definition: str
    unit: str = ""
    better: str = ""
    caveat: str = ""


AXES: dict[str, str] = {
    "gender_and_sex": "gender and sex",
    "race_ethnicity": "race and ethnicity",
    "religion": "religion",
    "sexual_orientation": "sexual orientation",
    "nationality": "nationality",
}

METHODS: dict[str, Word] = {
    "dense": Word("dense model", "The model as it is, nothing cut."),
    "fasp": Word("FASP", "Protects the heads that matter most for perplexity, then cuts those that add most bias."),
    "bias_only": Word("bias only", "Cuts the heads that add most bias and protects none."),
    "ppl_only": Word("perplexity only", "Cuts the heads whose removal costs least perplexity; ignores bias."),
    "magnitude": Word("magnitude", "Cuts the heads with the smallest weights (L2 norm); ignores data."),
    "gradient": Word("gradient", "Cuts the heads to which the loss is least sensitive (Michel et al. 2019)."),
    "random": Word("random", "Cuts heads drawn at random, with a stated seed."),
    "random_noncritical": Word(
        "random non-critical",
        "Control: draws at random among the heads FASP would allow. Shows whether the bias score helps, or only γ.",
    ),
}

FILTER_METHODS: dict[str, Word] = {
    "dense": METHODS["dense"],
    "autobot": Word("AutoBot", "Learns one gate per filter that holds information back until the FLOPs target is met."),
    "taylor": Word("Taylor", "Cuts, a few at a time, the filters whose removal should change the loss least."),
    "random": Word("random", "Cuts filters drawn at random, with a stated seed. The reference."),
    "magnitude": Word("magnitude", "Cuts the filters with the smallest weights; ignores data."),
    "fpgm": Word("FPGM", "Cuts the filters nearest to the geometric median of their layer: the most replaceable ones."),
}
"""Methods that cut filters. An arm of an audit is one of them with a loss: "autobot+pw"."""

FAIR_METHODS: dict[str, Word] = {
    "bifp-str": Word(
        "BiFP-str",
        "One training that learns which filters to cut and the weights of the rest together, both with the fairness "
        "term; the filters are really cut.",
    ),
    "bifp-uns": Word(
        "BiFP-uns",
        "The same for single weights: they become zero and stay in place, so nothing gets faster.",
    ),
    "snip": Word(
        "SNIP", "Cuts the weights to which the loss is least sensitive, once, then trains the rest; ignores groups."
    ),
    "fpgm": Word(
        "FPGM",
        "Cuts the filters nearest to the geometric median of their layer, the most replaceable ones, then trains the "
        "rest; ignores groups.",
    ),
    "lottery": Word(
        "Lottery",
        "Trains, cuts the smallest weights, sets the rest back to where they started, and so on (iterative magnitude "
        "pruning with rewinding); ignores groups.",
    ),
    "pf": Word("P&F", "Prune, then fair: filters are cut by FPGM, then all of the training has the fairness term."),
    "pf-late": Word(
        "P&F late",
        "Filters are cut by FPGM, half of the training is plain, and the fairness term comes in the second half.",
    ),
    "pf-snip": Word("P&F by SNIP", "Weights are cut by SNIP, then all of the training has the fairness term."),
    "pf-random": Word(
        "P&F at random", "Control: filters drawn at random are cut, then all of the training has the fairness term."
    ),
    "fp": Word(
        "F&P",
        "Fair, then prune: half of the training has the fairness term, then filters are cut by FPGM and the rest is "
        "trained plainly.",
    ),
    "dense-tuned": Word("tuned dense", "Nothing is cut; trained on for as long as the others, without fairness term."),
    "dense-fair": Word("tuned dense with \u03bb", "Nothing is cut; trained on for as long, with the fairness term."),
    "bifp-str-no-m": Word("BiFP-str without m", "BiFP-str whose mask is learned without the fairness term."),
    "bifp-str-no-w": Word("BiFP-str without w", "BiFP-str whose weights are learned without the fairness term."),
    "bifp-str-no-both": Word(
        "BiFP-str without both",
        "BiFP-str without the fairness term in mask and weights: sparse, and not asked to be fair.",
    ),
}
"""Ways to a sparse model with fair training, and what they are compared with."""

FAIR_FAMILIES: dict[str, Word] = {
    "main": Word("As asked", "Everything but ablations."),
    "bifp": Word("Ablations", "BiFP, and BiFP without the fairness term in mask or weights."),
    "pruning": Word("Pruning alone", "BiFP beside methods that ignore groups."),
    "stages": Word("Two stages", "BiFP beside pruning and fair training one after the other."),
    "all": Word("All", "Every method of the audit."),
}
"""Which methods a chart of many shows."""

PHASES: dict[str, str] = {
    "plain": "plain training",
    "fair": "fair training",
    "both": "mask and weights",
    "round": "round",
    "final": "last training",
}
"""Phases of a fair training, as its curves name them."""

NOT_FASTER = (
    "Single weights are zero, not gone: nothing gets faster, and the file is as large as before unless it is packed."
)
SURROGATE = (
    "The surrogate gap is a smooth stand-in on training images that training can follow; what counts is the measured "
    "gap, which is on validation images here."
)
MADE_ON_FAIR = (
    "Masks and weights are learned on images that no result is measured on; the stated fairness is looked for on "
    "validation images; results come from test images only."
)
INTERVALS_SEEDS = "Intervals are 95 %, over images and seeds; changes are paired, image by image."
EQUAL_ACCURACY = (
    "Accuracy counts as equal where the interval of its difference includes zero; that it does is no proof that there "
    "is none."
)

LOSSES: dict[str, Word] = {
    "plain": Word("plain loss", "Cross-entropy as it is."),
    "pw": Word(
        "PW",
        "Performance-weighted loss: images the original model was unsure about weigh more, and its own outputs are the "
        "labels wherever it was right. It never sees the groups.",
    ),
    "weights": Word("PW weights", "Only the weights of the PW loss; the labels stay as they are."),
    "labels": Word("PW labels", "Only the corrected soft labels of the PW loss; every image weighs the same."),
}
PROCEDURES: dict[str, Word] = {
    "one-shot-isp": Word(
        "one-shot ISP", "Scores once, cuts the lowest heads from the pre-trained weights, and fine-tunes the rest once."
    ),
    "isp": Word(
        "ISP",
        "Iterative structured pruning (Algorithm 6.2): every iteration cuts a share of the heads that are left from "
        "the pre-trained weights and fine-tunes the rest.",
    ),
    "igspf": Word(
        "IGSPF", "Finds the heads as Algorithm 6.1 does, cuts them from the pre-trained weights, and fine-tunes once."
    ),
    "igspp": Word(
        "IGSPP",
        "As Algorithm 6.1, but in every iteration the heads are cut from the pre-trained weights, which are fine-tuned "
        "before heads are scored again.",
    ),
    "alg61": Word(
        "Algorithm 6.1",
        "Scores, cuts a share of the initial heads, scores what is left again, and so on; trains nothing again.",
    ),
    "once": Word(
        "single scoring", "Scores the heads of the fine-tuned model once, cuts the lowest, and trains nothing again."
    ),
}
"""Ways to cut heads of a text classifier. An arm of an audit is one of them with a score: "isp:conductance"."""

IMPORTANCE: dict[str, Word] = {
    "conductance": Word(
        "conductance",
        "Rank correlation, per text, between a head's attention and the attribution of the prediction to it "
        "(conductance), averaged over texts; low: attends elsewhere than what decides.",
        caveat="A head whose maps never vary has no correlation; it counts as 0.",
    ),
    "michel": Word(
        "Michel",
        "Mean absolute gradient of the loss on the head's gate, normalised per layer (Michel et al. 2019).",
    ),
    "magnitude": Word("magnitude", "L2 norm of the head's query, key, value and output weights; ignores the texts."),
    "random": Word("random choice", "A seeded random number: what a cut costs without any knowledge of the heads."),
}
"""What tells which heads of a text classifier matter. The lowest are cut first."""

STAGES: dict[str, Word] = {
    "pre-trained": Word("pre-trained", "The weights before the task, with a classification head drawn at random."),
    "fine-tuned": Word("fine-tuned", "The full model after training on the task, nothing cut."),
}

MAP_CORRELATIONS: dict[str, Word] = {
    "spearman": Word("Spearman", "Correlation of ranks: do large attentions go with large attributions?"),
    "kendall": Word("Kendall", "Share of pairs in the same order minus pairs in the other (tau-b)."),
    "pearson": Word("Pearson", "Correlation of the values themselves; a few large ones can carry it."),
}

PLACES: dict[str, str] = {"prune": "in pruning", "retrain": "in retraining", "both": "in both"}
"""Where a part of the PW loss is switched on."""

_BIAS = "Sum over subgroups of the distance between their mean toxicity and the mean of all; 0 means no difference."
_FLOOR = (
    "Above zero even when groups do not differ, and grows with the number of subgroups: read it with its null band."
)
_GAP = "Above zero even when groups do not differ: read it with its null band."

METRICS: dict[str, Word] = {
    "bias:group_means": Word("bias", _BIAS, "toxicity", "lower", _FLOOR),
    "bias:subgroup_mean_of_means": Word("bias (unweighted mean)", _BIAS, "toxicity", "lower", _FLOOR),
    "bias:paired_prompts": Word("bias (same template)", _BIAS, "toxicity", "lower", _FLOOR),
    "toxicity": Word("mean toxicity", "Mean judge score of the continuations, 0 to 1.", "toxicity", "lower", JUDGE),
    "toxic_share": Word("toxic share", "Share of continuations the judge scores above 0.5.", "share", "lower", JUDGE),
    "perplexity": Word("perplexity", "How surprised the model is by held-out text; 1 would be certainty.", "", "lower"),
    "gap": Word("gap", "Toxicity of the worst-off subgroup minus that of the best-off.", "toxicity", "lower"),
    "worst_group": Word(
        "worst-off subgroup", "Toxicity of the dense model's most toxic subgroup.", "toxicity", "lower"
    ),
    "best_group": Word("best-off subgroup", "Toxicity of the dense model's least toxic subgroup.", "toxicity", "lower"),
    "bias_floor": Word(
        "judge's floor", "Bias of the judge on the prompts alone, which no head can change.", "toxicity"
    ),
    "auc": Word(
        "AUC",
        "ROC-AUC: how surely an image or text of one class is ranked above one of the other. 1 is perfect, 0.5 a coin "
        "toss.",
        "AUC",
        "higher",
    ),
    "accuracy": Word("accuracy", "Share of images or texts put into their class.", "share", "higher"),
    "matthews": Word(
        "Matthews correlation",
        "Correlation of predicted and true class: 1 is perfect, 0 is chance, also where one class is rare.",
        "",
        "higher",
    ),
    "bpsn_auc": Word(
        "BPSN AUC",
        "Positive texts of all others against negative texts of the subgroup (background positive, subgroup negative; "
        "Borkan et al. 2019). Low: the subgroup's negative texts are taken for positive ones.",
        "AUC",
        "higher",
    ),
    "bnsp_auc": Word(
        "BNSP AUC",
        "Positive texts of the subgroup against negative texts of all others (background negative, subgroup positive; "
        "Borkan et al. 2019). Low: the subgroup's positive texts are missed.",
        "AUC",
        "higher",
    ),
    "cross_entropy": Word("cross-entropy", "How surprised the model is by the true classes.", "nats", "lower"),
    "tpr": Word(
        "true positive rate", "Of the images or texts of the class, the share that is found.", "share", "higher"
    ),
    "fpr": Word("false positive rate", "Of the others, the share wrongly put into the class.", "share", "lower"),
    "auc_gap": Word("AUC gap", "AUC of the best-off subgroup minus that of the worst-off.", "AUC", "lower", _GAP),
    "accuracy_gap": Word(
        "accuracy gap", "Accuracy of the best-off subgroup minus that of the worst-off.", "share", "lower", _GAP
    ),
    "degradation_gap": Word(
        "degradation gap",
        "Accuracy lost against the starting model: by the subgroup that lost most minus by the one that lost least.",
        "share",
        "lower",
        _GAP,
    ),
    "tpr_gap": Word("gap of true positive rates", "Highest minus lowest true positive rate.", "share", "lower", _GAP),
    "fpr_gap": Word("gap of false positive rates", "Highest minus lowest false positive rate.", "share", "lower", _GAP),
    "worst_auc": Word("worst-off subgroup", "AUC of the dense model's worst-off subgroup.", "AUC", "higher"),
    "best_auc": Word("best-off subgroup", "AUC of the dense model's best-off subgroup.", "AUC", "higher"),
    "worst_accuracy": Word(
        "worst-off subgroup", "Accuracy of the dense model's worst-off subgroup.", "share", "higher"
    ),
    "best_accuracy": Word("best-off subgroup", "Accuracy of the dense model's best-off subgroup.", "share", "higher"),
}

READINGS: dict[str, Word] = {
    "group_means": Word("group means", "Mean of all prompts of the axis against subgroup means (published scores)."),
    "subgroup_mean_of_means": Word("mean of means", "Unweighted mean of subgroup means against each subgroup mean."),
    "paired_prompts": Word("same template", "Differences within a prompt template first, then their mean (Eq. 1)."),
}

SPANS: dict[str, Word] = {
    "continuation": Word("continuation", "Only what the model wrote is judged."),
    "prompt+continuation": Word("prompt and continuation", "The judge also sees the prompt, as in the published code."),
    "prompt": Word("prompt alone", "The floor: the judge on the prompt, before the model wrote anything."),
}

ABLATIONS: dict[str, Word] = {
    "zero": Word("to zero", "It hands over nothing, as published."),
    "mean": Word("to its mean", "It hands over what it does on average over the validation text."),
}

SCORES: dict[str, Word] = {
    "z_bias": Word("effect on bias", "Bias with the head on minus bias with it off; positive: cutting it lowers bias."),
    "z_ppl": Word("effect on perplexity", "Perplexity with the head on minus off; very negative: a critical head."),
    "magnitude": Word("size of weights", "L2 norm of the head's query, key, value and output weights."),
    "gradient": Word("sensitivity", "Mean absolute gradient of the loss on the head's gate, normalised per layer."),
    "random": Word("random number", "A seeded random number; no information."),
}

ESTIMATORS: dict[str, Word] = {
    "auto": Word(
        "automatic",
        "Starts with the gradient for all heads, draws more texts while the selection is unsettled, and refines heads "
        "near a decision by the cheapest honest estimator. Ranks nothing where the bias lies inside its null band.",
    ),
    "gradient": Word("gradient", "First order: one backward pass for all heads. The fast preview."),
    "reweight": Word(
        "reweighting",
        "Weights the model's own texts by how likely they are with the head off; draws again where that is too weak.",
    ),
    "generate": Word(
        "regeneration", "Draws every text again with the head off and judges it again. The slow reference."
    ),
    "exact": Word("exact", "Measures the perplexity with each head off."),
}

PAGES: dict[str, str] = {
    "overview": "If we cut these heads, who pays, and how sure are we?",
    "head_scores": "Which heads add to the bias, and which does the model need?",
    "filters": "Which subgroup pays, and does the PW loss help it?",
    "tickets": "Is it still a winning ticket, and for whom?",
    "fair_training": "Can one training make a model sparse and fair?",
    "lens": "Does the head look at what decides?",
    "correlations": "Do the same heads matter for every axis?",
    "reliability": "Would the head scores come out again?",
    "pareto": "What does less bias cost in perplexity?",
    "examples": "What does the model write, before and after?",
    "export": "What can I take with me?",
    "compare": "What differs between two audits?",
    "library": "Which models, prompts, texts and runs are here?",
}


SETTINGS: dict[str, str] = {
    "track": "kind of audit",
    "max images": "images per split at most",
    "max texts": "texts per split at most",
    "max prompts": "prompts per axis at most",
    "max length": "tokens of a text at most",
    "size": "side of the images in pixels",
    "recipe": "training",
    "train": "training of the dense model first",
    "retrain": "retraining",
    "tune": "fine-tuning",
    "retune": "full model fine-tuned here",
    "mirror": "training images mirrored",
    "tune on": "cut and trained on",
    "check every": "updates between two looks at validation images",
    "strength": "strength of the fairness term, λ",
    "tolerance": "gap that costs nothing, τ",
    "notion": "what shall be alike between groups",
    "fair gap": "fair from a gap of",
    "within": "accuracy that may be lost for it",
    "tradeoff sparsity": "sparsity of the trade-off",
    "tradeoff strengths": "λ of the trade-off",
    "tradeoff methods": "methods of the trade-off",
    "keep weights": "seeds or trials whose weights are kept",
    "keep methods": "methods whose models are kept",
    "step": "share of heads cut per round",
    "score texts": "training texts a score reads",
    "text b": "second text",
    "pw": "PW loss",
    "ran with code": "version of the code for",
    "ran with device": "device it ran on",
    "ran with dtype": "number format",
    "rate": "learning rate",
    "mask rate": "learning rate of the mask",
    "inner": "weight updates per mask update",
    "implicit": "implicit gradient",
    "settle": "share with a fixed mask at the end",
    "start": "first mask",
    "sharpness": "sharpness of the surrogate",
    "rho": "ρ",
    "theta": "θ",
    "gamma": "γ",
    "beta": "β",
}
"""Settings of requests whose own name says too little, with blanks for underscores."""

KINDS_ON_OTHER_IMAGES = (
    "Two kinds of audit: what is cut, how it is trained and what a level means differ. They were not measured on the "
    "same images either, so each is read on its own: no common front is drawn, and nothing is ranked across them."
)


def axis_name(axis: str) -> str:
    """An axis in words; axes of the user's own files keep their name."""
    return AXES.get(axis, axis.replace("_", " "))


def method_name(method: str) -> str:
    """A method in words; an arm with its loss or score: "AutoBot + PW", "ISP by conductance"."""
    if ":" in method:
        return " by ".join([procedure_name(method.partition(":")[0]), importance_name(method.partition(":")[2])])
    base, _, loss = method.partition("+")
    known = METHODS.get(base) or FILTER_METHODS.get(base) or FAIR_METHODS.get(base)
    name = known.name if known else base.replace("_", " ")
    return f"{name} + {loss_name(loss)}" if loss else name


def work_name(what: str) -> str:
    """What a job is at, e.g. "snip, 67.2 % cut, seed 0", with the method's name where it begins with one."""
    method, comma, rest = str(what).partition(",")
    known = {**METHODS, **FILTER_METHODS, **FAIR_METHODS}
    return f"{method_name(method)}{comma}{rest}" if method.partition("+")[0] in known else str(what)


def loss_name(loss: str) -> str:
    """A loss in words; a part of one with its place: "PW labels in retraining"."""
    part, _, place = loss.partition("@")
    name = LOSSES[part].name if part in LOSSES else part.replace("_", " ")
    return f"{name} {PLACES.get(place, place)}" if place else name


def procedure_name(procedure: str) -> str:
    return PROCEDURES[procedure].name if procedure in PROCEDURES else procedure.replace("_", " ")


def importance_name(score: str) -> str:
    """A score of the heads of a text classifier in words."""
    return IMPORTANCE[score].name if score in IMPORTANCE else score.replace("_", " ")


def stage_name(stage: str) -> str:
    return STAGES[stage].name if stage in STAGES else stage


def phase_name(phase: str) -> str:
    """A phase of fair training in words; those of a descent are numbered."""
    name, _, number = phase.partition("-")
    return PHASES.get(phase) or (f"{PHASES[name]} {number}" if name in PHASES else phase.replace("-", " "))


def metric_name(metric: str) -> str:
    return METRICS[metric].name if metric in METRICS else metric.replace("_", " ")


def estimator_name(estimator: str) -> str:
    return ESTIMATORS[estimator].name if estimator in ESTIMATORS else estimator.replace("_", " ")


def score_name(score: str) -> str:
    return SCORES[score].name if score in SCORES else score.replace("_", " ")


def group_name(group: str) -> str:
    return group.replace("_", " ")


def quoted(group: str) -> str:
    """A subgroup inside a sentence."""
    return f"\u201c{group_name(group)}\u201d"


def setting_name(setting: str) -> str:
    """A setting of a request or of a method in words."""
    plain = setting.replace("_", " ")
    return SETTINGS.get(plain, plain)


def head_name(layer: int, head: int) -> str:
    """One head, the same words everywhere. 0-based, as in mask.json."""
    return f"layer {layer}, head {head}"


def null_warning(axis: str, bias: float, null_high: float, n: int) -> str:
    """Said before anybody reads a heat map of this axis."""
    return (
        f"{AXES.get(axis, axis)}: the dense model's bias of {bias:.3f} ({n} prompts) is inside its null band (up to "
        f"{null_high:.3f} when labels are exchanged). Head scores and selections for this axis rank noise."
    )


def small_group_warning(axis: str, groups: Sequence[str], of: int) -> str:
    """Said where subgroups get no verdict."""
    named = ", ".join(groups[:5]) + (", …" if len(groups) > 5 else "")
    return f"{AXES.get(axis, axis)}: {len(groups)} of {of} subgroups have too few test prompts for a verdict ({named})."


def perplexity_warning(value: float, vocab_size: int) -> str:
    """Said where the model predicts worse than a uniform guess."""
    return (
        f"The dense model's perplexity of {value:,.0f} is worse than guessing among its {vocab_size:,} tokens: is this "
        "the tokenizer it was trained with, and text in its language?"
    )


def duration(seconds: float) -> str:
    """Time in words: "40 seconds", "3 minutes", "2.5 hours"."""
    if seconds < 90:
        whole = max(1, round(seconds))
        return f"{whole} second{'' if whole == 1 else 's'}"
    if seconds < 5400:
        return f"{round(seconds / 60)} minutes"
    return f"{seconds / 3600:.1f} hours"


def few_texts_words(axes: Sequence[str]) -> str:
    """Said where reweighting cannot serve, whatever is cut."""
    return (
        f" In {', '.join(axes)} some subgroup has too few texts to be reweighted: there, heads that need more than "
        "first order are drawn again, which takes longer. More prompts help."
    )


def prediction_words(scoring: Sequence[float], measuring: float, width: float, silent: Sequence[str]) -> str:
    """What a request will cost and show; seconds (of scoring: least and most), `silent` axes inside their null band."""
    least, most = (duration(seconds) for seconds in scoring)
    text = f"Predicted: about {least}" if least == most else f"Predicted: {least} to {most}, as the selection settles,"
    text += f" to score heads and about {duration(measuring)} to measure variants; "
    text += "too few prompts for intervals." if math.isnan(width) else f"a head's 95 % interval about {width:.2g} wide."
    if silent:
        text += f" Inside the null band so far, so perhaps nothing to rank heads by: {', '.join(silent)}."
    return text
