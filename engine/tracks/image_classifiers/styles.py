"""How each method looks with each loss, in every chart."""

from __future__ import annotations

from engine.report.palette import Look, Style, pair_style

LOOKS: dict[str, Look] = {
    "autobot": ("#0072B2", "#56B4E9", "square", "solid"),
    "taylor": ("#D55E00", "#F0803C", "triangle-up", "solid"),
    "fpgm": ("#CC79A7", "#E59BC3", "pentagon", "solid"),
    "magnitude": ("#009E73", "#2CC79B", "diamond", "solid"),
    "by hand": ("#6A3D9A", "#B794F4", "hexagon", "dot"),
    "random": ("#7a7a7a", "#b0b0b0", "x", "solid"),
}
BY_LOSS = {"": ("-open", "dot"), "pw": ("", "solid")}
"""What ends the symbol of a method, and its dash, by the loss: filled and solid with the whole PW
loss."""


def arm_style(arm: str, dark: bool = False) -> Style:
    """A method with a loss, "taylor+pw": the method's colour and symbol; filling and dash tell the
    loss."""
    return pair_style(arm, "+", LOOKS, BY_LOSS, dark)
