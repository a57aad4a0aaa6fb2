"""What the track of image classifiers declares: arms apart in charts, in words and in order."""

from engine.core import words
from engine.report.tracks import tracks

METHODS = tracks()["image_classifiers"].methods
BASES = ("autobot", "taylor", "random", "magnitude", "fpgm")


def test_arms_are_told_apart_by_more_than_colour():
    for base in BASES:
        arms = [METHODS.style(f"{base}{loss}") for loss in ("", "+pw", "+labels@retrain")]
        assert len({one.colour for one in arms}) == 1
        assert len({one.symbol for one in arms}) == len({one.dash for one in arms}) == 3
    bases = [METHODS.style(f"{base}+pw") for base in BASES]
    assert len({one.symbol for one in bases}) == len({one.colour for one in bases}) == 5


def test_arms_in_words_and_in_order():
    assert words.method_name("autobot+pw") == "AutoBot + PW"
    assert words.method_name("random+labels@retrain") == "random + PW labels in retraining"
    arms = ["autobot", "autobot+pw", "autobot+labels@prune", "taylor", "random+pw"]
    assert METHODS.order(arms[::-1]) == arms
    arms = ["autobot", "autobot+pw", "autobot+weights@prune", "autobot+labels"]
    assert METHODS.compared(arms, "autobot") == arms[:2]
    assert METHODS.compared(arms, "autobot+labels") == [*arms[:2], arms[-1]]
