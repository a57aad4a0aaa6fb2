"""Words about audits of text classifiers: procedures, scores, tickets, caveats."""

from __future__ import annotations

from engine.core.words import Word
from engine.report.palette import Style, pair_style

INTERVALS_TEXTS = (
    "Intervals are 95 %, over texts and seeds; changes are paired, text by text, each seed with its"
    " own full model."
)

NULL_BAND_TEXTS = (
    "The null band shows the gap after exchanging group labels between texts of one class. The "
    "mix of classes in the subgroups and chance alone give that much."
)

MADE_ON_TEXTS = (
    "Heads are scored and models fine-tuned on training texts; results come from test texts only."
)

WINNING = (
    "A ticket is a model with heads cut whose mean over seeds plus its standard deviation over "
    "seeds reaches the full model's mean. It is winning if it was trained from the pre-trained "
    "weights, else only matching."
)
"""Chen et al. 2020, as the thesis uses it."""

PROOF = (
    "Before anything was scored, conductance of all layers at once was held against Captum's"
    " LayerConductance (version {captum}) on this model and a text of {tokens} tokens: largest"
    " difference {apart} of a layer's largest attribution (allowed {allowed})."
)

RANDOM_MASKS = (
    "Random masks: the same number of heads drawn at random, silenced in the same weights, "
    "nothing trained. Percentile: share of them that do worse, mean over seeds. p: chance that "
    "random heads do as well. It is the larger of two: the same heads in every seed, or other "
    "heads in each. q: over methods and shares (Benjamini\u2013Hochberg)."
)
"""How single scoring and Algorithm 6.1 are held against chance."""

NO_RANDOM_MASKS = (
    "This audit holds no random masks: it is older than they are, asked for none, or only trains "
    "again."
)

TRUTH = (
    "Truth: each head of the fine-tuned model silenced alone, on the test texts. Slope: how much "
    "more a head costs whose score is one standard deviation higher, with a 95 % interval over "
    "heads. A correlation does not show that size. Leaving one head out misses heads that stand "
    "in for each other."
)

NOT_RETUNED = (
    "Heads are silenced in the full model of every seed and nothing is trained again. Procedures "
    "that train again would give other results."
)
"""Of a set that a person chose."""

NO_TRUTH = "This audit did not silence every head alone (`--leave-one-out`)."

THESIS = (
    "Tables 6.2 (winning tickets), 6.3 (70 % cut, nothing trained again) and 6.4 (80 % cut, "
    "trained again) as printed. WNLI's 56.3 \u00b1 0.0 at 100 % is the share of the larger class."
)

SAME_MODELS = (
    "Fewer than three of its seeds came to different models, so it may be a ticket or not."
)

FEW_SEEDS = "Fewer than three seeds: nothing here is called a ticket."

PROCEDURES = {
    "one-shot-isp": Word(
        "one-shot ISP",
        "Scores once, cuts the lowest heads from the pre-trained weights, and fine-tunes the rest"
        " once.",
    ),
    "isp": Word(
        "ISP",
        "Iterative structured pruning (Algorithm 6.2): every iteration cuts a share of the heads"
        " that are left from the pre-trained weights and fine-tunes the rest.",
    ),
    "isp-strict": Word(
        "strict ISP",
        "Algorithm 6.2 as printed: like ISP, without a stop at every requested share. So it may "
        "cut more than requested; the first iteration that reaches a share counts for it.",
    ),
    "igspf": Word(
        "IGSPF",
        "Finds the heads as Algorithm 6.1 does, cuts them from the pre-trained weights, and"
        " fine-tunes once.",
    ),
    "igspp": Word(
        "IGSPP",
        "As Algorithm 6.1, but in every iteration the heads are cut from the pre-trained weights,"
        " which are fine-tuned before heads are scored again.",
    ),
    "alg61": Word(
        "Algorithm 6.1",
        "Scores, cuts a share of the initial heads, scores what is left again, and so on; trains"
        " nothing again.",
    ),
    "once": Word(
        "single scoring",
        "Scores the heads of the fine-tuned model once, cuts the lowest, and trains nothing again.",
    ),
}
"""Ways to cut heads of a text classifier. An arm of an audit is one of them with a score:
"isp:conductance"."""

IMPORTANCE = {
    "conductance": Word(
        "conductance",
        "Rank correlation between a head's attention and how much the prediction rests on it "
        "(conductance), averaged over texts. Low: it attends elsewhere than to what decides.",
        caveat="A head whose maps never vary has no correlation; it counts as 0.",
    ),
    "attribution_mass": Word(
        "attribution mass",
        "Mean size of the attribution that passes through a head's attention (|sum of its "
        "conductance|), in logits. A correlation leaves out this size.",
    ),
    "abs_corr": Word(
        "size of the correlation",
        "Mean size of the correlation between a head's attention and its attribution, without the"
        " sign.",
        caveat="A head whose maps never vary has no correlation; it counts as 0.",
    ),
    "fixed_class": Word(
        "conductance, fixed class",
        "Rank correlation of attention and attribution, for one and the same class on every text.",
        caveat="A head whose maps never vary has no correlation; it counts as 0.",
    ),
    "layer_integrated_gradients": Word(
        "integrated gradients of head outputs",
        "Mean size of the integrated gradients of a head's output (Captum's"
        " LayerIntegratedGradients), in logits.",
    ),
    "gradient_x_activation": Word(
        "gradient \u00d7 activation",
        "Mean size of the gradient of the logit times a head's output (Captum's"
        " LayerGradientXActivation).",
    ),
    "deep_lift": Word(
        "DeepLift of head outputs",
        "Mean size of the DeepLift attribution of a head's output (Captum's LayerDeepLift), in"
        " logits.",
        caveat="Captum has no rule for softmax, GELU and LayerNorm: they pass plain gradients.",
    ),
    "michel": Word(
        "Michel",
        "Mean absolute gradient of the loss on the head's gate, normalised per layer (Michel et al."
        " 2019).",
    ),
    "magnitude": Word(
        "magnitude",
        "L2 norm of the head's query, key, value and output weights; ignores the texts.",
    ),
    "random": Word(
        "random choice",
        "A seeded random number: what a cut costs without any knowledge of the heads.",
    ),
}
"""What tells which heads of a text classifier matter. The lowest are cut first."""

STAGES = {
    "pre-trained": Word(
        "pre-trained", "The weights before the task, with a classification head drawn at random."
    ),
    "fine-tuned": Word("fine-tuned", "The full model after training on the task, nothing cut."),
}

MAP_CORRELATIONS = {
    "spearman": Word(
        "Spearman", "Correlation of ranks: do large attentions go with large attributions?"
    ),
    "kendall": Word(
        "Kendall", "Share of pairs in the same order minus pairs in the other (tau-b)."
    ),
    "pearson": Word(
        "Pearson", "Correlation of the values themselves; a few large ones can carry it."
    ),
}


def procedure_name(procedure: str) -> str:
    return PROCEDURES[procedure].name if procedure in PROCEDURES else procedure.replace("_", " ")


def importance_name(score: str) -> str:
    """A score of the heads of a text classifier in words."""
    return IMPORTANCE[score].name if score in IMPORTANCE else score.replace("_", " ")


def stage_name(stage: str) -> str:
    return STAGES[stage].name if stage in STAGES else stage


METRICS = {
    "matthews": Word(
        "Matthews correlation",
        "Correlation of predicted and true class: 1 is perfect, 0 is chance, also where one class"
        " is rare.",
        better="higher",
    ),
    "bpsn_auc": Word(
        "BPSN AUC",
        "Positive texts of all others against negative texts of the subgroup (background positive,"
        " subgroup negative; Borkan et al. 2019). Low: the subgroup's negative texts are taken for"
        " positive ones.",
        better="higher",
    ),
    "bnsp_auc": Word(
        "BNSP AUC",
        "Positive texts of the subgroup against negative texts of all others (background negative,"
        " subgroup positive; Borkan et al. 2019). Low: the subgroup's positive texts are missed.",
        better="higher",
    ),
}

TERMS = {
    **{PROCEDURES[name].name: PROCEDURES[name].definition for name in PROCEDURES},
    **{
        IMPORTANCE[name].name: IMPORTANCE[name].definition
        for name in ("conductance", "attribution_mass", "michel")
    },
    **{word.name: word.definition for word in METRICS.values()},
    "winning ticket": WINNING,
    "winning tickets": WINNING,
    "ticket": WINNING,
}

PAGES = {
    "tickets": "How many heads can go, and who loses first?",
    "bench": "What if these heads are off?",
    "sentence": "What does it answer to a sentence, and which words decide?",
}

CHOICES = {"score_settings": IMPORTANCE}
"""Values of settings by name."""


def arm_name(method: str) -> str:
    """A procedure with its score in words, "ISP by conductance"; "" for other methods."""
    procedure, colon, score = method.partition(":")
    return f"{procedure_name(procedure)} by {importance_name(score)}" if colon else ""


SETTINGS = {
    "max texts": "texts per split at most",
    "max length": "tokens of a text at most",
    "tune": "fine-tuning",
    "retune": "full model fine-tuned here",
    "step": "share of heads cut per round",
    "score texts": "training texts a score reads",
    "text b": "second text",
}


PROCEDURE_LOOKS = {
    "once": ("#7a7a7a", "#b0b0b0", "square", "solid"),
    "alg61": ("#8C7A00", "#E6D000", "triangle-down", "solid"),
    "igspf": ("#009E73", "#2CC79B", "diamond", "solid"),
    "igspp": ("#CC79A7", "#E59BC3", "triangle-up", "solid"),
    "isp": ("#0072B2", "#56B4E9", "circle", "solid"),
    "one-shot-isp": ("#882255", "#D46A98", "pentagon", "solid"),
    "by hand": ("#6A3D9A", "#B794F4", "star-diamond", "dot"),
    "isp-strict": ("#4B3A8C", "#9C8BDD", "hexagon", "solid"),
}
SCORE_LOOKS = {
    "conductance": ("", "solid"),
    "michel": ("-open-dot", "dash"),
    "magnitude": ("-dot", "dashdot"),
    "random": ("-open", "dot"),
    "attribution_mass": ("hexagram", "longdash"),
    "abs_corr": ("hourglass", "longdash"),
    "fixed_class": ("bowtie", "longdash"),
    "layer_integrated_gradients": ("star-square", "longdash"),
    "gradient_x_activation": ("star-triangle-up", "longdash"),
    "deep_lift": ("cross", "longdash"),
}
"""The score that picks heads: what ends its procedure's symbol, or a shape in its place, and its
dash."""


def arm_style(arm: str, dark: bool) -> Style:
    """A procedure with a score, "isp:random": the procedure's colour and symbol; filling or shape,
    and dash, tell the score."""
    return pair_style(arm, ":", PROCEDURE_LOOKS, SCORE_LOOKS, dark)
