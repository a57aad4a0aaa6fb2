"""The data set with a planted gap has one, and the plain one has none, on the embedded model."""

from engine.tracks.image_classifiers.summary import evaluate


def test_the_planted_gap_lies_outside_its_null_band():
    """What the card says of the embedded model; the plain avatars have no accuracy gap to mend."""
    gap = {}
    for data in ("avatars", "avatars-gap"):
        found = evaluate("demo-resnet", None, data, "blond", ("male",), "validation", 1500, "cpu")
        (gap[data],) = [row for row in found.rows if row["metric"] == "accuracy_gap"]
    assert gap["avatars-gap"]["low"] > gap["avatars-gap"]["null_high"]
    assert gap["avatars"]["value"] < gap["avatars"]["null_high"] + 0.01 < gap["avatars-gap"]["low"]
