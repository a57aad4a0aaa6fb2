"""How each selection looks, in every chart."""

from __future__ import annotations

from engine.report.palette import Look

LOOKS: dict[str, Look] = {
    "fasp": ("#0072B2", "#56B4E9", "circle", "solid"),
    "bias_only": ("#D55E00", "#F0803C", "square", "solid"),
    "ppl_only": ("#2F8FCB", "#0093E0", "star", "solid"),
    "magnitude": ("#009E73", "#2CC79B", "diamond", "solid"),
    "gradient": ("#CC79A7", "#E59BC3", "triangle-up", "solid"),
    "random": ("#7a7a7a", "#b0b0b0", "x", "solid"),
    "random_noncritical": ("#B07A00", "#E6B400", "cross", "solid"),
    "wanda": ("#117A65", "#45C9A8", "triangle-down", "dash"),
    "sparsegpt": ("#A63D40", "#F08A8C", "triangle-left", "dash"),
    "magnitude_weights": ("#8A6D1D", "#D9B44A", "diamond-tall", "dash"),
    "random_weights": ("#5C6670", "#A9B4BF", "x-open", "dash"),
    "layer_drop": ("#5B4B9A", "#A99BEA", "square-open", "dash"),
    "int8": ("#1F5FA8", "#6FB1FA", "hourglass", "dash"),
    "int4": ("#1F5FA8", "#6FB1FA", "hourglass-open", "dash"),
    "by hand": ("#6A3D9A", "#B794F4", "hexagon", "dot"),
}
