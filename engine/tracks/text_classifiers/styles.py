"""How each procedure looks with each score, in every chart."""

from __future__ import annotations

from engine.report.palette import Look, Style, pair_style

PROCEDURES: dict[str, Look] = {
    "once": ("#7a7a7a", "#b0b0b0", "square", "solid"),
    "alg61": ("#B07A00", "#E6B400", "triangle-down", "solid"),
    "igspf": ("#009E73", "#2CC79B", "diamond", "solid"),
    "igspp": ("#CC79A7", "#E59BC3", "triangle-up", "solid"),
    "isp": ("#0072B2", "#56B4E9", "circle", "solid"),
    "one-shot-isp": ("#D55E00", "#F0803C", "pentagon", "solid"),
    "by hand": ("#6A3D9A", "#B794F4", "star-diamond", "dot"),
    "isp-strict": ("#4B3A8C", "#9C8BDD", "hexagon", "solid"),
}
BY_SCORE = {
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


def arm_style(arm: str, dark: bool = False) -> Style:
    """A procedure with a score, "isp:random": the procedure's colour and symbol; filling or shape,
    and dash, tell the score."""
    return pair_style(arm, ":", PROCEDURES, BY_SCORE, dark)
