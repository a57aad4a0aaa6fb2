"""What the track of image classifiers declares: arms apart in charts, in words and in order; where
a reader starts."""

from __future__ import annotations

from engine.core import words
from engine.report.tracks import tracks


def test_arms_are_told_apart_by_more_than_colour():
    track = tracks()["image_classifiers"]
    for base in ("autobot", "taylor", "random", "magnitude", "fpgm"):
        plain, pw, part = (
            track.methods.style(arm) for arm in (base, f"{base}+pw", f"{base}+labels@retrain")
        )
        assert plain.colour == pw.colour == part.colour
        assert len({one.symbol for one in (plain, pw, part)}) == 3
        assert len({one.dash for one in (plain, pw, part)}) == 3
    bases = [
        track.methods.style(f"{base}+pw")
        for base in ("autobot", "taylor", "random", "magnitude", "fpgm")
    ]
    assert len({one.symbol for one in bases}) == len({one.colour for one in bases}) == 5


def test_arms_in_words():
    assert words.method_name("autobot+pw") == "AutoBot + PW"
    assert words.method_name("taylor") == "Taylor"
    assert words.method_name("random+labels@retrain") == "random + PW labels in retraining"
    track = tracks()["image_classifiers"]
    assert track.methods.order(
        ["random+pw", "taylor", "autobot+labels@prune", "autobot+pw", "autobot"]
    ) == [
        "autobot",
        "autobot+pw",
        "autobot+labels@prune",
        "taylor",
        "random+pw",
    ]
    arms = ["autobot", "autobot+pw", "autobot+weights@prune", "autobot+labels"]
    assert track.methods.compared(arms, "autobot") == ["autobot", "autobot+pw"]
    assert track.methods.compared(arms, "autobot+labels") == [
        "autobot",
        "autobot+pw",
        "autobot+labels",
    ]
