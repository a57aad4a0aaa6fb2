"""Requests for fair trainings: every fault at once, and equal requests are one run."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from engine.data.images.load import load_images
from engine.tracks.fair_training.context import looked_rows, tuned_rows
from engine.tracks.fair_training.methods import bifp, fair_methods, stages
from engine.tracks.fair_training.request import FairPlan, FairRequest, validate_fair
from tests.builders import refused
from tests.tracks.fair_training.worlds import fair_request


def faults_of(request: FairRequest) -> list[str]:
    return refused(validate_fair, request)


def test_a_sparsity_out_of_reach_names_the_largest_there_is():
    """One filter of each of 8 groups stays, and one weight of each of 13 layers."""
    faults = faults_of(fair_request(sparsities=(0.5, 0.99, 0.99999)))
    assert any(
        "0.99 is out of reach for filters: 8 of 480 must stay" in one and "0.983" in one
        for one in faults
    )
    assert "0.99999 is out of reach for weights" in str(faults) and len(faults) == 3
    validate_fair(fair_request(sparsities=(0.983,)))
    validate_fair(fair_request(sparsities=(0.99,), methods=("snip", "dense-tuned")))


def test_sparsities_like_an_unused_one_of_the_sweep_are_allowed():
    assert validate_fair(fair_request(sparsities=(0.70000001,))).request.sparsities == (0.70000001,)


def regrouped(monkeypatch, change):
    """Avatars whose groups are as `change` makes them of (split, group)."""

    def load(source, ask):
        images = load_images(source, ask)
        table = images.table.copy()
        table["skin"] = [
            change(split, group) for split, group in zip(table["split"], table["skin"], strict=True)
        ]
        return replace(images, table=table)

    monkeypatch.setattr("engine.classifiers.images.request.load_images", load)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda split, group: "all", ["belong to 1 group (all): no gap"]),
        (lambda split, group: "", ["belong to 0 group (none)"]),
        (
            lambda split, group: "light" if (split, group) == ("train", "dark") else group,
            ["no train image belongs to dark"],
        ),
        (
            lambda split, group: "light" if split == "test" else group,
            ["no test image belongs to dark", "no test image belongs to medium"],
        ),
        (
            lambda split, group: "" if split == "validation" else group,
            ["no validation image belongs to light"],
        ),
    ],
)
def test_groups_that_are_not_there_are_named(monkeypatch, change, said):
    regrouped(monkeypatch, change)
    found = faults_of(fair_request())
    assert all(any(part in fault and "axis skin" in fault for fault in found) for part in said)


@pytest.mark.parametrize("part", ["looked at while models train", "trained on"])
def test_groups_must_be_among_the_images_used_of_the_validation_split(monkeypatch, part):
    """A group may be in the split, and yet not in the fifth that is looked at, or in the rest."""
    images = validate_fair(fair_request()).images.table
    rows = (looked_rows if part == "trained on" else tuned_rows)(images, "validation")

    def load(source, ask):
        loaded = load_images(source, ask)
        table = loaded.table.copy()
        table["skin"] = np.where(table["skin"] == "dark", "light", table["skin"])
        others = ["dark", "light", "medium", "medium"] * 100
        table.loc[table["split"] != "validation", "skin"] = others
        table.loc[rows[:3], "skin"] = "dark"
        return replace(loaded, table=table)

    monkeypatch.setattr("engine.classifiers.images.request.load_images", load)
    (said,) = faults_of(fair_request(tune_on="validation"))
    assert "axis skin: none of the" in said and f"{part} belongs to dark" in said
    validate_fair(fair_request())


def test_a_target_with_one_class_is_refused(tmp_path):
    from PIL import Image

    lines, path = ["path,label,side,split"], tmp_path / "images.csv"
    every = product(("left", "right"), ("train", "validation", "test"), range(4))
    for place, (side, split, _) in enumerate(every):
        Image.new("RGB", (32, 32), (place, 9, 9)).save(tmp_path / f"{place}.png")
        lines.append(f"{place}.png,cat,{side},{split}")
    path.write_text("\n".join(lines) + "\n")
    request = fair_request(data=str(path), target="label", axes=("side",), max_images=None)
    assert "two classes" in "\n".join(faults_of(request))


def test_the_id_holds_the_version_of_every_method_whose_models_are_trained():
    """Those of the trade-off too, and those between which the loss is looked at."""

    def methods(**changes):
        plan = FairPlan(fair_request(methods=("pf",), method_settings={}, **changes), None, None)
        assert set(plan.spelled_out()["method_settings"]) == set(plan.request.trained)
        return {name.removeprefix("method ") for name in plan.versions if name.startswith("method")}

    assert methods() == {"pf"}
    assert methods(tradeoff_strengths=(2.0,), tradeoff_methods=("fp",)) == {"pf", "fp"}
    assert methods(surface=True) == {"pf", "bifp-str", "bifp-str-no-w", "bifp-str-no-m"}


def test_methods_that_share_code_share_its_version():
    """Raised where the code is, the version of all that are made of it is raised."""
    of = {name: method.version for name, method in fair_methods().items()}
    assert of["pf-snip"] == of["snip"] == stages.SNIP
    assert of["bifp-str"] == of["bifp-uns"] == bifp.VERSION
    ablated = {of[f"bifp-str-no-{part}"] for part in ("m", "w", "both")}
    assert ablated == {bifp.VERSION + 1}
