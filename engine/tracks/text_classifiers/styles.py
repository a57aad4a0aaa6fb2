"""How each procedure looks with each score, in every chart."""

from __future__ import annotations

from engine.report.palette import Look, Style, style_of

PROCEDURES: dict[str, Look] = {
    "once": ("#7a7a7a", "#b0b0b0", "square", "solid"),
    "alg61": ("#B07A00", "#E6B400", "triangle-down", "solid"),
    "igspf": ("#009E73", "#2CC79B", "diamond", "solid"),
    "igspp": ("#CC79A7", "#E59BC3", "triangle-up", "solid"),
    "isp": ("#0072B2", "#56B4E9", "circle", "solid"),
    "one-shot-isp": ("#D55E00", "#F0803C", "pentagon", "solid"),
}
BY_SCORE = {
    "conductance": ("", "solid"),
    "michel": ("-open-dot", "dash"),
    "magnitude": ("-dot", "dashdot"),
    "random": ("-open", "dot"),
}
"""What ends the symbol of a procedure, and its dash, by the score that picks heads."""


def arm_style(arm: str, dark: bool = False) -> Style:
    """A procedure with a score, "isp:random": the procedure's colour and symbol; filling and dash tell the score."""
    procedure, _, score = arm.partition(":")
    plain = style_of(procedure, PROCEDURES, dark)
    if procedure == "dense":
        return plain
    ending, dash = BY_SCORE.get(score, ("-open-dot", "longdash"))
    return Style(plain.colour, plain.symbol + ending, dash)
