"""Words about fair training: methods, families, phases, caveats."""

from __future__ import annotations

from engine.core.words import ABOVE_ZERO, Word

METHODS = {
    "bifp-str": Word(
        "BiFP-str",
        "One training that learns which filters to cut and the weights of the rest together, both"
        " with the fairness term; the filters are really cut.",
    ),
    "bifp-widths-random": Word(
        "BiFP widths, random filters",
        "Control: as many filters of each layer as BiFP-str kept, drawn at random, then trained "
        "as P&F. It shares only the layers' widths with BiFP-str, not the filters.",
    ),
    "bifp-widths-fpgm": Word(
        "BiFP widths, FPGM",
        "Control: as many filters of each layer as BiFP-str kept, those that FPGM keeps, then"
        " trained as P&F.",
    ),
    "bifp-uns": Word(
        "BiFP-uns",
        "The same for single weights: they become zero and stay in place, so nothing gets faster.",
    ),
    "snip": Word(
        "SNIP",
        "Cuts the weights to which the loss is least sensitive, once, then trains the rest; ignores"
        " groups.",
    ),
    "fpgm": Word(
        "FPGM",
        "Cuts the filters nearest to the geometric median of their layer, the most replaceable"
        " ones, then trains the rest; ignores groups.",
    ),
    "lottery": Word(
        "Lottery",
        "Trains, cuts the smallest weights, sets the rest back to where they started, and so on"
        " (iterative magnitude pruning with rewinding); ignores groups.",
    ),
    "pf": Word(
        "P&F",
        "Prune, then fair: filters are cut by FPGM, then all of the training has the fairness"
        " term.",
    ),
    "pf-late": Word(
        "P&F late",
        "Filters are cut by FPGM, half of the training is plain, and the fairness term comes in the"
        " second half.",
    ),
    "pf-snip": Word(
        "P&F by SNIP", "Weights are cut by SNIP, then all of the training has the fairness term."
    ),
    "pf-random": Word(
        "P&F at random",
        "Control: filters drawn at random are cut, then all of the training has the fairness term.",
    ),
    "fp": Word(
        "F&P",
        "Fair, then prune: half of the training has the fairness term, then filters are cut by FPGM"
        " and the rest is trained plainly.",
    ),
    "dense-tuned": Word(
        "tuned dense",
        "Nothing is cut; trained on for as long as the others, without fairness term.",
    ),
    "dense-fair": Word(
        "tuned dense with \u03bb", "Nothing is cut; trained on for as long, with the fairness term."
    ),
    "bifp-str-no-m": Word(
        "BiFP-str without m", "BiFP-str whose mask is learned without the fairness term."
    ),
    "bifp-str-no-w": Word(
        "BiFP-str without w", "BiFP-str whose weights are learned without the fairness term."
    ),
    "bifp-str-no-both": Word(
        "BiFP-str without both",
        "BiFP-str without the fairness term in mask and weights: sparse, and not asked to be fair.",
    ),
}
"""Ways to a sparse model with fair training, and what they are compared with."""

FAIR_FAMILIES = {
    "main": Word("As asked", "Everything but ablations."),
    "bifp": Word("Ablations", "BiFP, and BiFP without the fairness term in mask or weights."),
    "pruning": Word("Pruning alone", "BiFP beside methods that ignore groups."),
    "stages": Word("Two stages", "BiFP beside pruning and fair training one after the other."),
    "all": Word("All", "Every method of the audit."),
}
"""Which methods a chart of many shows."""

PHASES = {
    "plain": "plain training",
    "fair": "fair training",
    "both": "mask and weights",
    "round": "round",
    "final": "last training",
}
"""Phases of a fair training, as its curves name them."""

NOT_FASTER = (
    "Single weights are zero, not gone. Nothing gets faster, and the file is as large as before "
    "unless it is packed."
)

SURROGATE = (
    "The surrogate gap is a smooth stand-in on training images that training can follow. The "
    "measured gap counts; here it is on validation images."
)

EQUAL = (
    "Early layers cost more than late ones, so the same number of filters can save very different "
    "FLOPs. Methods that keep costly filters then look better than they are."
)

NO_CONTROLS = (
    "This audit has no controls in BiFP-str's widths, so it may only have found how many filters "
    "each layer needs. Train bifp-widths-random and bifp-widths-fpgm beside it."
)

MADE_ON_FAIR = (
    "No result is measured on the images that masks and weights learn from. The stated fairness "
    "is checked on validation images; results come from test images only."
)

INTERVALS_SEEDS = "Intervals are 95 %, over images and seeds; changes are paired, image by image."

EQUAL_ACCURACY = (
    "Accuracy counts as equal where the interval of its difference includes zero; that does not "
    "prove equality."
)


def phase_name(phase: str) -> str:
    """A phase of fair training in words; those of a descent are numbered."""
    name, _, number = phase.partition("-")
    return PHASES.get(phase) or (
        f"{PHASES[name]} {number}" if name in PHASES else phase.replace("-", " ")
    )


METRICS = {
    "degradation_gap": Word(
        "degradation gap",
        "Accuracy lost against the starting model: the largest loss of a subgroup minus the "
        "smallest.",
        better="lower",
        caveat=ABOVE_ZERO,
    ),
}

TERMS = {
    **{METHODS[name].name: METHODS[name].definition for name in METHODS},
    "degradation gap": METRICS["degradation_gap"].definition,
    "surrogate gap": "A smooth stand-in for the gap, on training images, that training can follow.",
    "λ": "How much the fairness term weighs in training; at 0 it is off.",
}

PAGES = {
    "training": "Can one training make a model sparse and fair?",
}


SETTINGS = {
    "recipe": "training",
    "tune on": "cut and trained on",
    "check every": "updates between two checks on validation images",
    "strength": "strength of the fairness term, λ",
    "tolerance": "gap that costs nothing, τ",
    "notion": "what should be equal between groups",
    "fair gap": "fair from a gap of",
    "within": "accuracy that may be lost for it",
    "tradeoff sparsity": "sparsity of the trade-off",
    "tradeoff strengths": "λ of the trade-off",
    "tradeoff methods": "methods of the trade-off",
    "keep methods": "methods whose models are kept",
    "mask rate": "learning rate of the mask",
    "inner": "weight updates per mask update",
    "implicit": "implicit gradient",
    "settle": "share with a fixed mask at the end",
    "start": "first mask",
    "sharpness": "sharpness of the surrogate",
    "rho": "ρ",
}
