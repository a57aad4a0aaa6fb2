"""A whole fair training of a tiny classifier: complete, exact, repeatable, resumable, and
verified."""

import json
from dataclasses import replace

import numpy as np
import pytest

from engine.audit.jobs import job_id_of, live_points, run_job
from engine.audit.verification import verify_run
from engine.resident.asks import answer_here
from engine.stats.pareto import front, hypervolume
from engine.store.runs import Run, Store, where
from engine.tracks.fair_training.request import arms_of, compared
from engine.tracks.fair_training.run import run_fair_audit
from tests.audit.run_checks import value_of
from tests.classifiers.whole_runs import (
    COLUMNS,
    WholeRun,
    changed_values,
    models_of,
)
from tests.tracks.fair_training.worlds import fair_request

REQUEST = fair_request(
    methods=("bifp-str", "pf", "bifp-uns", "lottery", "dense-fair"),
    sparsities=(0.5, 0.7),
    axes=("skin", "male"),
    tradeoff_methods=("bifp-str", "pf", "lottery"),
    tradeoff_strengths=(1.0, 3.0),
    surface=True,
)
OWN = {
    "variants": (
        "variant method base target_axis gamma sparsity realised n_cut seed pooled chosen"
        " degenerate met cut history mask_digest max_logit_difference units strength parameters_cut"
        " speedup flops role"
    ),
    "arm_differences": "method base sparsity axis metric group value low high p q n n_trials",
    "images": "image_id split label male skin",
    "predictions": "variant image_id p_0 p_1",
    "curves": (
        "variant phase step loss penalty surrogate_gap mask_updates examples seconds accuracy gap"
        " degradation val_loss"
    ),
    "reached": (
        "variant method sparsity strength seed gap_target accuracy_target notion reached held"
        " iterations mask_updates examples seconds total_iterations total_mask_updates"
        " total_examples total_seconds"
    ),
    "tradeoff": (
        "method strength sparsity axis accuracy accuracy_low accuracy_high gap gap_low gap_high"
        " degradation degradation_low degradation_high n_trials on_front"
    ),
    "hypervolume": (
        "method axis value low high n_trials reference_accuracy reference_gap base difference "
        "difference_low difference_high difference_p"
    ),
    "surface": "method_b x y loss accuracy gap",
    "surface_points": "method x y loss accuracy gap",
    "path": "other t loss accuracy gap loss_without_recalibration",
}


class TestWhole(WholeRun):
    columns = {**COLUMNS, **OWN}
    phases = {
        "load",
        "train the dense model",
        "ask the dense model",
        "train and cut",
        "loss between models",
        "measure cost",
        "measure",
    }
    follow = 4
    warned = (
        "Seeds: only 2",
        "nothing gets faster",
        "short training",
        "no gap to mend",
        "Few images to train",
    )
    told = (
        "bifp-str-70%",
        "How much training does it take",
        "who offers the better choice?",
        "is BiFP's accuracy gap smaller",
    )


@pytest.fixture(scope="module")
def run(store, events) -> Run:
    with (
        pytest.MonkeyPatch.context() as patch
    ):  # few points between the models: each is asked about all images
        patch.setattr("engine.tracks.fair_training.measurements.trained.SIDE", 4)
        patch.setattr("engine.tracks.fair_training.measurements.trained.STEPS", 5)
        return run_job(store, REQUEST, events.append)


def answers_of(run, variant) -> np.ndarray:
    table = run.table("predictions")
    return table[table["variant"] == variant][["p_0", "p_1"]].to_numpy(dtype=float)


def test_every_variant_is_in_every_table_it_belongs_to(run):
    variants = run.table("variants")
    cutting = [name for name in REQUEST.methods if name != "dense-fair"]
    reported = {f"{name}-{share}%" for name in cutting for share in (50, 70)} | {"dense-fair-0%"}
    swept = {"bifp-str-70%-l3", "pf-70%-l3"}
    # λ 1 is the request's own, so it is among the reported
    single = {f"{name}#{seed}" for name in reported | swept for seed in (0, 1)}
    assert set(variants["variant"]) == {"dense"} | reported | swept | single
    assert set(variants[variants["chosen"]]["variant"]) == {"dense"} | reported
    assert set(variants[variants["role"] == "tradeoff"]["pooled"]) - {""} == swept
    assert set(run.table("predictions")["variant"]) == {"dense"} | single
    assert set(run.table("curves")["variant"]) == {"dense"} | single
    assert set(run.table("reached")["variant"]) == single
    assert set(run.table("costs")["variant"]) == {"dense"} | reported | swept
    assert set(run.table("layers")["variant"]) == {
        name for name in single if not name.startswith("dense")
    }
    dense = where(run.table("results"), variant="dense")
    assert "degradation_gap" not in set(dense["metric"])
    first = {f"{name}#0" for name in reported}
    assert set(run.table("weights")["variant"]) == {"dense"} | first


def test_sparsity_is_exact(run):
    """To the filter, and to the weight."""
    rows, n_weights = models_of(run), 306_352
    total = {"filters": run.meta["model"]["n_filters"], "weights": n_weights}
    for row in rows[rows["units"] != "none"].itertuples():
        assert row.n_cut == total[row.units] - round((1 - row.sparsity) * total[row.units]), (
            row.Index
        )
        assert row.realised == pytest.approx(row.n_cut / total[row.units])
    assert (rows[rows["units"] == "none"][["n_cut", "realised", "sparsity"]] == 0).all().all()
    assert (rows[rows["units"] == "weights"]["speedup"] == 1.0).all()
    assert (rows[rows["units"] == "filters"]["speedup"] > 1.5).all()
    assert (rows["max_logit_difference"] < 1e-3).all()


@pytest.mark.parametrize("name", ["bifp-str-70%", "lottery-50%", "dense-fair-0%"])
def test_checkpoints_reload_with_the_same_answers(run, tmp_path, name):
    """Filters as a cut folder, weights and dense models as a whole one; `evaluate` reads both."""
    from engine.report.bundle import export_run

    evaluate = pytest.importorskip("engine.tracks.image_classifiers.summary").evaluate
    paths = export_run(run, tmp_path, ("checkpoint",), False, name)
    (agreement,) = [path for path in paths if path.name == "agreement.json"]
    assert json.loads(agreement.read_text())["largest_difference"] < 1e-5
    found = evaluate(
        str(agreement.parent), None, "avatars", "blond", ("skin", "male"), "test", 200, "cpu"
    )
    (accuracy,) = [
        row["value"] for row in found.rows if row["metric"] == "accuracy" and not row["axis"]
    ]
    assert accuracy == pytest.approx(value_of(run.table("results"), f"{name}#0", "accuracy"))


@pytest.mark.parametrize("name", ["bifp-str-70%", "lottery-50%", "dense-fair-0%"])
def test_a_picture_gets_the_answers_of_the_audit(run, store, name):
    """Filters that are cut, weights that are zero, and a whole model that was trained: each as it
    was measured."""
    stored = run.table("predictions").set_index(["variant", "image_id"]).filter(regex="^p_")
    image = run.table("thumbs")["image_id"].iat[0]
    answer = answer_here(
        "trained picture",
        {"run": run.id, "image": image, "variant": name, "way": "grad-cam"},
        store,
    )
    for side, variant in (("dense", "dense"), ("pruned", f"{name}#0")):
        np.testing.assert_allclose(
            answer[side]["probabilities"], stored.loc[(variant, image)], atol=1e-3
        )
    assert np.ptp(answer["pruned"]["map"]) > 0


def test_differences_are_a_method_minus_bifp(run):
    results, table = run.table("results"), run.table("arm_differences")
    others = {"pf", "bifp-uns", "lottery"}
    assert set(zip(table["method"], table["base"], strict=True)) == {
        *((name, "bifp-str") for name in others),
        ("lottery", "bifp-uns"),
    }
    assert set(table["metric"]) == {"accuracy", "accuracy_gap", "tpr_gap", "degradation_gap"}
    assert (table["group"] == "").all()
    assert set(table["sparsity"]) == {0.5, 0.7}
    for row in table.itertuples():
        one, other = (
            value_of(results, f"{name}-{100 * row.sparsity:g}%", row.metric, row.axis)
            for name in (row.method, row.base)
        )
        assert row.value == pytest.approx(
            one - other, abs=1e-9, nan_ok=row.axis == "male"
        )  # too few blond men
        assert row.low <= row.value <= row.high or row.axis == "male"
    known = table["p"].notna()
    assert known.sum() == 2 * 4 * 4 and (table["q"] >= table["p"] - 1e-12)[known].all()


def test_without_bifp_nothing_is_compared():
    assert compared(arms_of(fair_request(methods=("pf", "snip")))) == []


NAMES = {
    ("bifp-str", 1.0): "bifp-str-70%",
    ("bifp-str", 3.0): "bifp-str-70%-l3",
    ("pf", 1.0): "pf-70%",
    ("pf", 3.0): "pf-70%-l3",
    ("lottery", 0.0): "lottery-70%",
}
"""Variants of the trade-off, by method and strength."""


def test_the_tradeoff_is_made_of_the_same_numbers(run):
    results, table = run.table("results"), run.table("tradeoff")
    for axis, rows in table.groupby("axis"):
        assert set(zip(rows["method"], rows["strength"], strict=True)) == set(NAMES)
        for row in rows.itertuples():
            name = NAMES[row.method, row.strength]
            assert row.accuracy == pytest.approx(value_of(results, name, "accuracy"))
            for own, gap in ((row.gap, "accuracy_gap"), (row.degradation, "degradation_gap")):
                wanted = value_of(results, name, gap, axis)
                assert own == pytest.approx(wanted, nan_ok=axis == "male")
        assert (rows["on_front"] == front(-rows["accuracy"], rows["gap"])).all()


def test_the_hypervolume_is_the_mean_of_the_seeds_areas(run):
    results, images = run.table("results"), run.table("images")
    guess = images["label"].value_counts(normalize=True).iloc[0]
    table = run.table("hypervolume")
    assert table.set_index("axis").loc["male", "value"].isna().all() and len(table) == 6
    skin = where(table, axis="skin").set_index("method", drop=False)
    largest = max(
        value_of(results, f"{name}#{seed}", "accuracy_gap", "skin")
        for name in NAMES.values()
        for seed in (0, 1)
    )
    for row in skin.itertuples():
        assert row.reference_accuracy == pytest.approx(guess) and row.low <= row.value <= row.high
        assert row.base == ("" if row.method == "bifp-str" else "bifp-str")
        if row.base:
            assert row.difference == pytest.approx(row.value - skin.loc[row.base, "value"])
            assert row.difference_low <= row.difference <= row.difference_high
        names = [name for (method, _), name in NAMES.items() if method == row.method]
        areas = []
        reference = 1 - guess, largest
        assert row.reference_gap == pytest.approx(largest) and largest > 0
        for seed in (0, 1):
            accuracies, gaps = (
                [value_of(results, f"{name}#{seed}", metric, axis) for name in names]
                for metric, axis in (("accuracy", ""), ("accuracy_gap", "skin"))
            )
            areas.append(hypervolume(1 - np.array(accuracies), gaps, reference))
        assert row.value == pytest.approx(np.mean(areas))


def test_without_a_gap_to_mend_nothing_is_reached(run):
    """Which look is the first at a model that is sparse enough: test_parts.py."""
    table = run.table("reached")
    assert table["gap_target"].isna().all() and table["accuracy_target"].nunique() == 1
    assert (table["notion"] == "accuracy").all() and table["iterations"].isna().all()
    assert not table[["reached", "held"]].any(axis=None)
    assert (table["total_iterations"] >= 6).all()
    assert (table["total_examples"] / table["total_iterations"]).between(8, 2 * 16).all()
    rounds = table[table["method"] == "lottery"].set_index("variant")["total_iterations"]
    assert rounds["lottery-70%#0"] > rounds["lottery-50%#0"] > 12  # what led there counts


def test_the_surface_goes_through_its_three_models(run):
    """At its corners and at the ends of the paths is the loss of the trained models."""
    points, path, surface = run.table("surface_points"), run.table("path"), run.table("surface")
    assert list(points["method"]) == ["bifp-str", "bifp-str-no-w", "bifp-str-no-m"]
    assert (
        tuple(points.loc[0, ["x", "y"]]) == (0.0, 0.0)
        and points.loc[1, "y"] == 0.0
        and len(surface) == 16
    )
    assert surface["x"].min() < points["x"].min() and surface["y"].max() > points["y"].max()
    assert np.isfinite(surface["loss"]).all() and set(path["other"]) == {
        "bifp-str-no-w",
        "bifp-str-no-m",
    }
    results = run.table("results")
    for row in points.itertuples():
        ends = [
            *where(path, other=row.method, t=1.0)["loss"],
            *(path[path["t"] == 0.0]["loss"] if row.method == "bifp-str" else []),
        ]
        assert ends == pytest.approx([row.loss] * len(ends), abs=1e-5)
    own = value_of(results, "bifp-str-70%#0", "cross_entropy")  # all 200 test images are looked at
    end = where(path, other="bifp-str-no-w", t=0.0)["loss_without_recalibration"].item()
    assert end == pytest.approx(own, abs=1e-4)


def test_live_points_are_the_curves(run, store):
    table = live_points(store, job_id_of(REQUEST))
    mine = table[table["shard"] == "bifp-str, 50 % cut, λ 1, seed 0"]
    curve = run.table("curves").query("variant == 'bifp-str-50%#0'")
    for name in ("step", "loss", "gap", "accuracy", "cut"):
        assert np.allclose(mine[name], curve[name], equal_nan=True), name
    with (store.jobs_folder / job_id_of(REQUEST) / "points.jsonl").open("a") as file:
        row = {"shard": mine["shard"].iloc[0], "phase": "both", "step": 1, "loss": 9.0, "gap": None}
        file.write(json.dumps(row) + "\n{cut short")
    again = live_points(store, job_id_of(REQUEST))
    assert (
        len(again) == len(table)
        and again.set_index(["shard", "step"]).loc[(mine["shard"].iloc[0], 1), "loss"] == 9
    )
    assert live_points(store, "job-unknown").empty


def test_finished_trainings_serve_another_request(run, store, monkeypatch):
    """One method and one sparsity: nothing is trained again."""
    monkeypatch.setattr("engine.tracks.fair_training.trainer.Trainer.run", None)
    less = run_fair_audit(
        replace(
            REQUEST,
            methods=("pf",),
            sparsities=(0.5,),
            tradeoff_strengths=(),
            surface=False,
            keep_weights="none",
        ),
        store,
    )
    assert less.id != run.id and np.array_equal(
        answers_of(less, "pf-50%#1"), answers_of(run, "pf-50%#1")
    )
    assert not {"tradeoff", "hypervolume", "surface", "path"} & set(less.meta["tables"])


@pytest.mark.parametrize(
    ("name", "where", "column", "value"),
    [
        (
            "results",
            {"variant": "pf-50%#1", "metric": "degradation_gap", "axis": "skin"},
            "value",
            0.5,
        ),
        ("variants", {"variant": "bifp-uns-70%#0"}, "n_cut", 7),
        ("reached", {"variant": "pf-70%#0"}, "iterations", 1.0),
    ],
)
def test_numbers_that_do_not_follow_are_noticed(copy, name, where, column, value):
    more = {"reached": True} if name == "reached" else {}
    changed_values(copy, name, where, **{column: value}, **more)
    assert not verify_run(copy)["ok"]


def test_a_cut_that_is_not_the_mask_is_refused_and_not_kept(tmp_path, monkeypatch):
    from engine.core.errors import MaskError
    from engine.surgery.filters import graph as filter_cut

    real = filter_cut.agree_filters
    monkeypatch.setattr(
        "engine.classifiers.images.dense.agree_filters",
        lambda *words: replace(real(*words), holds=False),
    )
    with pytest.raises(MaskError, match="pf, 50 % cut"):
        run_fair_audit(fair_request(methods=("pf",), seeds=1), Store(tmp_path))
    assert Store(tmp_path).ids() == []
