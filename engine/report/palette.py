"""Colours: one theme for light and one for dark, a blue-wine diverging scale, and looks of methods
and series.

Orange means harm and nothing else: what got worse, or is newly wrong. Colours of methods are fixed
in their track.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Style:
    """How a method looks: never told by colour alone."""

    colour: str
    symbol: str
    dash: str = "solid"


@dataclass(frozen=True)
class Theme:
    """What a figure takes from its surroundings. Figures themselves are transparent."""

    ink: str
    soft: str
    grid: str
    band: str
    paper: str
    critical: str
    alarm: str
    quiet: str
    """What stands beside the chosen one: grey, at least 3 to 1 against the ground."""
    diverging: tuple[tuple[float, str], ...]
    unsupported: tuple[tuple[float, str], ...]
    sequential: tuple[tuple[float, str], ...]


LIGHT = Theme(
    ink="#1d2329",
    soft="#5c6670",
    grid="#e3e7eb",
    band="rgba(92,102,112,0.14)",
    paper="#ffffff",
    critical="#000000",
    alarm="#c8102e",
    quiet="#828b94",
    diverging=(
        (0.0, "#0a5a96"),
        (0.25, "#7fb2d9"),
        (0.5, "#f4f4f2"),
        (0.75, "#dc9cb8"),
        (1.0, "#882255"),
    ),
    unsupported=((0.0, "#b9bfc5"), (0.5, "#f2f3f4"), (1.0, "#b9bfc5")),
    sequential=((0.0, "#f1f4f6"), (0.5, "#7fb2d9"), (1.0, "#0a4f86")),
)
DARK = Theme(
    ink="#eef1f4",
    soft="#a9b4bf",
    grid="#323a44",
    band="rgba(169,180,191,0.20)",
    paper="#12171d",
    critical="#ffffff",
    alarm="#ff7a70",
    quiet="#86919c",
    diverging=(
        (0.0, "#4db0f5"),
        (0.25, "#2b6796"),
        (0.5, "#252b33"),
        (0.75, "#7d3558"),
        (1.0, "#ea7db0"),
    ),
    unsupported=((0.0, "#59626c"), (0.5, "#252b33"), (1.0, "#59626c")),
    sequential=((0.0, "#20262d"), (0.5, "#2b6796"), (1.0, "#6cc0fa")),
)

Look = tuple[str, str, str, str]
"""How a method looks: its colour on light ground and on dark, Plotly's marker symbol, the dash of
its lines."""
_SERIES = (
    ("#0072B2", "#56B4E9", "circle"),
    ("#882255", "#D46A98", "square"),
    ("#009E73", "#2CC79B", "diamond"),
    ("#CC79A7", "#E59BC3", "triangle-up"),
    ("#8C7A00", "#E6D000", "triangle-down"),
    ("#7a7a7a", "#b0b0b0", "pentagon"),
)
_SPARE = (
    ("#8C6BB1", "#B79BDC", "hexagon"),
    ("#2F7F7F", "#6FC7C7", "star"),
    ("#4B6A88", "#8FB0D0", "pentagon"),
)


def theme(dark: bool) -> Theme:
    return DARK if dark else LIGHT


def style_of(method: str, looks: Mapping[str, Look], dark: bool) -> Style:
    """A method keeps its look in every chart of its track, by name in `looks`; symbols, so that
    colour is never the only difference. One without a look of its own gets a spare, the same each
    time."""
    if method == "dense":
        return Style(theme(dark).ink, "circle-open")
    light, bright, symbol, dash = looks.get(method) or (
        *_SPARE[sum(method.encode()) % len(_SPARE)],
        "solid",
    )
    return Style(bright if dark else light, symbol, dash)


def pair_style(
    name: str,
    separator: str,
    looks: Mapping[str, Look],
    seconds: Mapping[str, tuple[str, str]],
    dark: bool,
) -> Style:
    """Two things that make one arm, "taylor+pw". The colour is the first's; the second, by
    `seconds`, ends its symbol ("-open") or has one of its own ("cross"), and dashes its lines.
    """
    first, _, second = name.partition(separator)
    plain = style_of(first, looks, dark)
    if first == "dense":
        return plain
    symbol, dash = seconds.get(second, ("-open-dot", "longdashdot"))
    return Style(plain.colour, plain.symbol + symbol if symbol[:1] in ("", "-") else symbol, dash)


def quiet(style: Style, dark: bool = False) -> Style:
    """A look for what stands beside the chosen one: its symbol and dash, without its colour."""
    return replace(style, colour=theme(dark).quiet)


def series_styles(dark: bool) -> tuple[Style, ...]:
    """Colour and symbol of things without a method, such as groups, in order; told apart by
    colour-blind eyes."""
    return tuple(Style(bright if dark else light, symbol) for light, bright, symbol in _SERIES)


def series_colours(dark: bool) -> tuple[str, ...]:
    """Colours for things without one of their own, in order; told apart by colour-blind eyes."""
    return tuple(series_styles(dark)[place].colour for place in (0, 1, 2, 3, 5))
