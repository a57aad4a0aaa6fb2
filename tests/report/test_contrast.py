"""Words and marks can be seen by everybody: contrast of every colour against the ground of both
themes (WCAG 2.2)."""

import colorsys
import re
import tomllib

import pytest

from engine.report import palette
from engine.report.tracks import tracks
from tests.places import ROOT

GROUND = {
    dark: tomllib.loads((ROOT / ".streamlit/config.toml").read_text())["theme"][
        "dark" if dark else "light"
    ]
    for dark in (False, True)
}


def rgb(colour):
    return [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]


def luminance(colour):
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in rgb(colour)
    ]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_that_of_the_standard():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("dark", [False, True])
def test_words_stand_out_by_four_and_a_half_and_marks_by_three(dark):
    ground, look = GROUND[dark]["backgroundColor"], palette.theme(dark)
    assert min(contrast(colour, ground) for colour in (look.ink, look.soft, look.alarm)) >= 4.5
    assert contrast(look.quiet, ground) >= 3
    for style in palette.series_styles(dark):
        assert contrast(style.colour, ground) >= 3, style


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("track", tracks())
def test_every_method_can_be_seen(track, dark):
    from engine.core import words

    ground = GROUND[dark]["backgroundColor"]
    for method in words.gathered("METHODS"):
        assert contrast(tracks()[track].methods.style(method, dark).colour, ground) >= 3, method


def test_orange_is_kept_for_harm():
    """What got worse, and what is newly wrong: no method, group, series or effect looks so."""
    for path in (
        *(ROOT / "engine/report").rglob("*.py"),
        *(ROOT / "engine/tracks").rglob("*.py"),
        *(ROOT / "assets").glob("*.css"),
    ):
        for colour in re.findall(r"#[0-9a-fA-F]{6}\b", path.read_text(encoding="utf-8")):
            hue, _, saturation = colorsys.rgb_to_hls(*rgb(colour))
            is_orange = 12 < 360 * hue < 42 and saturation > 0.5
            assert not is_orange or path.name in ("classifier_changed.py", "flips.py"), (
                path,
                colour,
            )
