"""How each way of fair training looks, in every chart."""

from __future__ import annotations

from engine.report.palette import Look

LOOKS: dict[str, Look] = {
    "bifp-str": ("#0072B2", "#56B4E9", "circle", "solid"),
    "bifp-uns": ("#0072B2", "#56B4E9", "circle-open", "dash"),
    "bifp-str-no-m": ("#2A93D5", "#9AD4F7", "triangle-left", "dot"),
    "bifp-str-no-w": ("#2A93D5", "#9AD4F7", "triangle-right-open", "dashdot"),
    "bifp-str-no-both": ("#2A93D5", "#9AD4F7", "x", "longdash"),
    "bifp-widths-random": ("#2F8FCB", "#0093E0", "cross-open", "dot"),
    "bifp-widths-fpgm": ("#2F8FCB", "#0093E0", "pentagon-open", "dot"),
    "snip": ("#B07A00", "#E6B400", "star", "dash"),
    "fpgm": ("#CC79A7", "#E59BC3", "pentagon", "solid"),
    "lottery": ("#009E73", "#2CC79B", "diamond", "dash"),
    "pf": ("#D55E00", "#F0803C", "square", "solid"),
    "pf-late": ("#D55E00", "#F0803C", "square-open", "dot"),
    "pf-snip": ("#D55E00", "#F0803C", "triangle-up-open", "dash"),
    "fp": ("#D55E00", "#F0803C", "triangle-down", "dashdot"),
    "pf-random": ("#7a7a7a", "#b0b0b0", "cross", "dot"),
    "dense-tuned": ("#7a7a7a", "#b0b0b0", "hexagon-open", "dot"),
    "dense-fair": ("#7a7a7a", "#b0b0b0", "hexagon", "dot"),
}
"""Colour by family (BiFP, its ablations, pruning alone, two stages, references), symbol by method.
Broken lines cut weights or leave something out."""
