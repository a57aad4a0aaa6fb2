"""Panels of an image run: answers follow the tables, hard cases are said, names stay text."""

import numpy as np
import pandas as pd
import pytest

from engine.report import contents, phrasing
from engine.report.charts import (
    by_group,
    classifier_changed,
    cost,
    filter_layers,
    flips,
    lookup,
    metric_curve,
    pareto,
)
from engine.report.charts.panel import Choice
from engine.report.verdict import verdict
from engine.store.runs import Store, where
from engine.tracks.image_classifiers.panels import pw, speedup
from tests.builders import changed, parts_of
from tests.tracks.image_classifiers.made_up_run import make_run

PLAIN = Choice("autobot", "gender", 16.0, None, "auc")
PW = Choice("autobot+pw", "gender", 16.0, None, "auc")
SMALL = {"switches": False, "loss_share": False, "speedups": (4.0, 16.0)}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    make_run(folder, "plain")
    make_run(folder, "same", pw_helps=False, title="PW changes nothing", stream=3, **SMALL)
    return Store(folder)


@pytest.fixture(scope="module")
def run(store):
    return store.open("plain")


def test_a_cut_that_helps_is_reported_so(run, tmp_path):
    lift = {"delta": 0.1, "delta_low": 0.05, "delta_high": 0.15}
    better = changed(run, tmp_path, "groups", lift)
    assert "worse off" not in verdict(better, PLAIN).whole
    assert "gain AUC" in by_group.paid_by_group(better, PLAIN).said


def test_a_verdict_says_what_its_intervals_and_its_gap_are_of(run, tmp_path):
    one = make_run(tmp_path / "one", "one", **(SMALL | {"trials": 1, "images": 120}))
    aimed = contents.default_choice(one)
    assert (
        "one trial: intervals are about its images, and another may differ"
        in verdict(one, aimed).more
    )

    assert "The gap is of mean AUC over 3 trials." in verdict(run, PLAIN).more


def test_degenerate_trials_are_warned_of_and_starred(run):
    taylor = Choice("taylor", "gender", 16.0, None, "auc")
    assert (
        "1 of 3 trials ends with a model that predicts one class" in verdict(run, taylor).more
        and "one class" not in verdict(run, PLAIN).more
    )
    stars = [
        trace
        for part in speedup.groups_along_speedup(run, PLAIN).parts
        for trace in part.data
        if str(trace.marker.symbol).startswith("('star") or "star" in str(trace.marker.symbol)
    ]
    assert len(stars) == 1 and "1 of 3 trials predicts one class" in stars[0].text[0]
    for panel in (metric_curve.gap_along(run, PLAIN), pareto.pareto(run, taylor)):
        first = panel.parts[0] if panel.parts else panel.figure
        assert [trace.name for trace in first.data].count("degenerate trials") == 1


def test_a_subgroup_without_two_classes_or_with_few_images_gets_no_verdict(run):
    skin = Choice("autobot", "skin", 16.0, None, "auc")
    answer = by_group.paid_by_group(run, skin).said
    assert "“dark”: images of one class only, so no verdict" in answer
    assert "“unrecorded”: too few images for a verdict" in answer
    panel = speedup.groups_along_speedup(run, skin)
    assert (
        "Left out: “unrecorded” (too few images)" in panel.caveat
        and "“dark” (one class only)" in panel.caveat
    )
    assert set(panel.table["subgroup"]) == {"light", "medium"}
    assert "dark" not in verdict(run, skin).sentence


def test_two_classes_share_one_auc_and_that_is_said(run):
    by_auc, accuracy = (
        Choice("autobot", "class", 4.0, None, reading) for reading in ("auc", "accuracy")
    )
    assert "both have the same AUC" in by_group.paid_by_group(run, by_auc).caveat
    assert "both have the same AUC" not in by_group.paid_by_group(run, accuracy).caveat


def test_the_dense_model_is_told_without_changes(run):
    dense = Choice("dense", "gender", 1.0, None, "auc")
    assert verdict(run, dense).sentence.startswith("Nothing is cut here")
    assert filter_layers.layer_survival(run, dense).figure is None
    assert flips.flips(run, dense).figure is None
    assert "Nothing is cut here" in speedup.speed(run, dense).said
    at_one = Choice("autobot", "gender", 1.0, None, "auc")
    assert lookup.variant_of(run, at_one)["variant"] == "dense"
    assert all(panel.said for _, panel in contents.all_panels(run, at_one))


def test_whether_pw_helps_is_read_from_the_interval(store, run, tmp_path):
    panel = pw.pw_difference(run, PLAIN)
    row = panel.table.query("subgroup == 'male' and `target speedup` == 16").iloc[0]
    assert (
        row["difference low"] > 0
        and "the PW loss helps it here" in panel.said
        and phrasing.number(row["difference"]) in panel.said
    )
    assert (
        f"n = {row['images']} images, 3 trials" in panel.said
        and "The AUC gap shrinks with it" in panel.said
    )
    same = pw.pw_difference(store.open("same"), PLAIN)
    assert (
        "the data do not tell whether the PW loss helps it here" in same.said
        and "includes zero" in same.said
    )
    value = -run.table("arm_differences")["value"].abs() - 0.1
    harm = {"value": value, "low": -0.5, "high": -0.05}
    harmed = pw.pw_difference(changed(run, tmp_path, "arm_differences", harm), PLAIN)
    assert "the PW loss harms it here" in harmed.said and "helps it here" not in harmed.said
    gone = pw.pw_difference(changed(run, tmp_path, "arm_differences", None), PLAIN)
    assert gone.figure is None and "no AutoBot both with the PW loss and without it" in gone.said


def test_the_ablation_names_what_helps_and_what_cannot_be_told(run):
    panel = pw.ablation(run, PLAIN)
    assert set(panel.table["place"]) == {"in pruning", "in both", "in retraining"}
    mine = panel.table[panel.table["subgroup"] == "male"].set_index(["part", "place"])
    for (part, place), row in mine.iterrows():
        named = "the whole PW loss" if (part, place) == ("PW", "in both") else f"{part} {place}"
        assert named in panel.said
        assert (f"{named}, {phrasing.signed(row['difference'])}" in panel.said) == (
            row["difference low"] > 0
        )
    assert panel.said.startswith("“male”, which pays most, is helped by")


def test_loss_shares_are_means_over_steps_and_trials(run, tmp_path):
    """Three of four batches have no blond man, so none of their loss is theirs."""

    def rare(table):
        return table.query("group != 'male' or label != 1 or step < 10")

    few = changed(run, tmp_path, "loss_share", rare)
    panel = pw.loss_share(few, PLAIN)
    mine = where(few.table("loss_share"), base="autobot", group="male", label=1)
    means = mine.groupby("loss")["share"].mean() / 4
    row = panel.table.query(
        "method == 'AutoBot' and subgroup == 'male' and `class` == 'blond'"
    ).iloc[0]
    assert row["change"] == pytest.approx(means["pw"] - means["plain"])
    assert "more about “male, blond”" in panel.said and len(panel.parts) == 2
    assert not pw.has_loss_share(run, Choice("autobot", "skin", 4.0))


def tiny_run(folder, group="gender"):
    """Four images solved by hand: a stays right, b becomes wrong, c becomes right, d is wrong
    either way."""
    run = make_run(folder, "tiny", images=40, trials=1, **{**SMALL, "speedups": (4.0,)})
    meta, tables = parts_of(run)
    ids = ["a", "b", "c", "d"]
    tables["images"] = pd.DataFrame(
        {
            "image_id": ids,
            "split": "test",
            "label": [0, 1, 2, 0],
            group: list("mmff"),
            "skin": "light",
        }
    )
    names, said = ["p_0", "p_1", "p_2"], {"dense": [0, 1, 0, 1], "autobot-4x#0": [0, 0, 2, 2]}
    parts = (
        pd.DataFrame(np.eye(3)[answers], columns=names).assign(variant=name, image_id=ids)
        for name, answers in said.items()
    )
    tables["predictions"] = pd.concat(parts, ignore_index=True)
    data = {**meta["data"], "classes": ["x", "y", "z"]}
    return Store(folder).write("by-hand", {**meta, "data": data}, tables)


def test_changes_of_class_by_hand(tmp_path):
    run = tiny_run(tmp_path)
    table = classifier_changed.changes(run, "autobot-4x#0").set_index("image_id")
    assert table["kind"].to_dict() == {"a": "", "b": "wrong", "c": "right", "d": "other"}
    choice = Choice("autobot", "gender", 4.0, None, "auc")
    found = flips.flips(run, choice).table.set_index("subgroup")
    columns = ["images", "became wrong", "became right", "otherwise"]
    assert found.loc["m", columns].tolist() == [2, 1, 0, 0]
    assert found.loc["f", columns].tolist() == [2, 0, 1, 1]
    shown = classifier_changed.gallery(run, choice, 0, "f", "")
    assert shown["image_id"].tolist() == ["d", "c"] and shown["png"].isna().all()
    assert classifier_changed.gallery(run, choice, 0, "", "wrong")["image_id"].tolist() == ["b"]
    both = classifier_changed.groups_of_images(run, run.table("images"), "class+gender")
    assert both.tolist() == ["x + m", "y + m", "z + f", "x + f"]


@pytest.mark.parametrize("group", ["kind", "before", "after", "group", "place"])
def test_a_column_of_groups_may_be_called_as_a_column_of_ours(group, tmp_path):
    run, choice = tiny_run(tmp_path, group), Choice("autobot", group, 4.0, None, "auc")
    found = flips.flips(run, choice).table.set_index("subgroup")
    assert found["became right"].to_dict() == {"m": 0, "f": 1}
    assert classifier_changed.gallery(run, choice, 0, "f", "")["image_id"].tolist() == ["d", "c"]


def test_levelling_down_with_higher_better(run, tmp_path):
    def level(results):
        moves = {
            "worst_auc": (0.0, -0.1, 0.1),
            **dict.fromkeys(("best_auc", "auc_gap"), (-0.3, -0.4, -0.2)),
        }
        for metric, ends in moves.items():
            results.loc[results["metric"] == metric, ["delta", "delta_low", "delta_high"]] = ends
        return results

    levelled = changed(run, tmp_path, "results", level)
    assert by_group.levelling_down(levelled, PLAIN).said.startswith("Levelling down")
    assert by_group.levelling_down(run, PLAIN).said.startswith("Both ends got worse")


def timed(run, folder, *gain):
    """The answer about costs where the chosen variant was so much faster, low and high, at 11.7 ms
    against 11.8 ms."""
    name, ends = lookup.variant_of(run, PLAIN)["variant"], ["speedup_low", "speedup_high"]

    def edit(costs):
        columns = ["latency_ms", "dense_latency_ms", "speedup", *ends]
        costs.loc[costs["variant"] == name, columns] = [11.7, 11.8, *gain]
        costs.loc[costs["variant"] == "dense", ends] = [0.99, 1.01]
        return costs

    panel = cost.cost(changed(run, folder, "costs", edit), PLAIN)
    bar = panel.figure.data[0]
    assert bar.x[list(bar.y).index("time")] == pytest.approx(100 / gain[0])
    return panel.said


def test_the_verdict_on_time_never_stands_beside_milliseconds_that_say_the_opposite(run, tmp_path):
    slower = timed(run, tmp_path / "a", 0.70, 0.66, 0.78)
    assert (
        "makes it slower, 0.70 × (in pairs; middle half 0.66 to 0.78)." in slower
        and "The medians in milliseconds" in slower
    )
    assert "11.7 ms" not in slower and "differ the other way" in slower
    faster = timed(run, tmp_path / "b", 1.1, 1.05, 1.2)
    assert (
        "makes it faster, 1.10 × (in pairs; middle half 1.05 to 1.20)." in faster
        and "11.7 ms against 11.8 ms." in faster
    )
    unclear = timed(run, tmp_path / "c", 0.99, 0.9, 1.1)
    assert (
        "with no clear difference in time, 0.99 × (in pairs; middle half 0.90 to 1.10)." in unclear
    )
