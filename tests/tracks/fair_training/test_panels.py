"""Panels of fair training: answers follow the tables, hard cases are said, what was not run is not
drawn."""

import json
import math

import numpy as np
import pandas as pd
import pytest

from engine.core.errors import RequestError
from engine.report import bundle
from engine.report.charts import filter_layers, lookup, pareto
from engine.report.charts.panel import Choice
from engine.report.tracks import track_of, tracks
from engine.report.verdict import verdict
from engine.store.runs import Run
from engine.tracks.fair_training import words as own
from engine.tracks.fair_training.methods import fair_methods
from engine.tracks.fair_training.panels import curve, differences, effort, training_curves
from tests.builders import changed
from tests.tracks.fair_training.made_up_run import make_run

STR = Choice("bifp-str", "gender", 0.672, None, "accuracy")
UNS = Choice("bifp-uns", "gender", 0.672, None, "accuracy")
TUNED = Choice("dense-fair", "gender", 0.0, None, "accuracy")
DENSE = Choice("dense", "gender", 0.0, None, "accuracy")


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    return make_run(tmp_path_factory.mktemp("store"), "plain")


def test_every_method_has_words_and_a_look_of_its_own():
    methods = tracks()["fair_training"].methods
    styles = {(one.colour, one.symbol) for one in map(methods.style, own.METHODS)}
    assert set(fair_methods()) == set(own.METHODS) and len(styles) == len(own.METHODS)
    assert all(map(methods.definition, own.METHODS))


def test_models_without_a_cut_can_be_chosen_and_are_not_the_starting_model(run):
    assert lookup.variant_of(run, TUNED)["variant"] == "dense-fair-0%"
    assert lookup.variant_of(run, DENSE)["variant"] == "dense"
    assert verdict(run, TUNED).sentence.startswith("Training on without a cut (tuned dense with λ)")
    assert curve.saved(run, TUNED).said == "Nothing is cut here, so nothing is saved."
    assert "with nothing cut" in curve.fair_curve(run, TUNED).said


def test_weights_get_nothing_faster_and_it_is_said(run):
    assert own.NOT_FASTER in verdict(run, UNS).more
    assert own.NOT_FASTER in curve.saved(run, UNS).said and "65.2 %" in curve.saved(run, UNS).said
    assert own.NOT_FASTER not in verdict(run, STR).more
    assert (
        "of 18,072 weights" in verdict(run, UNS).sentence
        and "of 112 filters" in verdict(run, STR).sentence
    )
    assert "weights" in filter_layers.layer_survival(run, UNS).said


def test_the_curve_shows_a_family(run):
    names = {
        family: set(curve.fair_curve(run, STR, family=family).table["method"])
        for family in curve.families(run)
    }
    assert "BiFP-str without m" in names["bifp"] and "SNIP" not in names["bifp"]
    assert "SNIP" in names["pruning"] and "P&F" not in names["pruning"] and "P&F" in names["stages"]
    assert names["all"] == names["main"] | names["bifp"]
    assert all("BiFP-str" in found for found in names.values())


def test_another_axis_is_said_not_to_be_trained_for(run):
    assert (
        "between groups of gender, not of this axis"
        in curve.fair_curve(run, Choice("bifp-str", "skin", 0.672, None, "accuracy")).said
    )
    skin = Choice("bifp-str", "skin", 0.672, None, "accuracy")
    assert "between groups of gender only" in verdict(run, skin).more


def test_bifp_against_the_others_claims_what_q_allows(run, tmp_path):
    never = changed(run, tmp_path, "arm_differences", {"q": 0.4})
    unclaimed = differences.bifp_against(never, STR)
    said_of = unclaimed.said.casefold()
    assert "clearly smaller" not in said_of and "not clearly different" in said_of
    traces = [trace for part in unclaimed.parts for trace in part.data]
    assert traces and all(set(trace.marker.symbol) == {"circle-open"} for trace in traces)


def test_equal_accuracy_is_told_from_bought_fairness(run, tmp_path):
    def edit(rows: pd.DataFrame) -> pd.DataFrame:
        """P&F minus BiFP: a larger gap; accuracy clearly higher, so BiFP pays for it."""
        mine = rows["method"] == "pf"
        is_gap = rows["metric"] == "accuracy_gap"
        rows.loc[mine, ["value", "low", "high", "q"]] = np.where(
            is_gap[mine].to_numpy()[:, None], [[0.1, 0.05, 0.15, 0.01]], [[0.08, 0.04, 0.12, 0.01]]
        )
        return rows

    answer = differences.bifp_against(changed(run, tmp_path, "arm_differences", edit), STR).said
    assert "than that of P&F, but at a clearly lower accuracy" in answer


def test_the_trade_off_by_degradation_shows_no_areas(run):
    other = differences.tradeoff(run, Choice("bifp-str", "gender", 0.672, None, "degradation"))
    assert "degradation gap" in other.said and len(other.parts) == 1, (
        "areas are of the accuracy gap"
    )


def test_a_paired_comparison_of_areas_decides_alone(run, tmp_path):
    """Intervals that overlap do not say "either may be larger" where the paired difference is
    clear."""
    base = np.where(run.table("hypervolume")["method"] == "bifp-str", "", "bifp-str")
    ends = {"difference": -0.3, "difference_low": -0.4, "difference_high": -0.2}
    paired = {"base": base, "low": 0.0, "high": 1.0, **ends}
    said = differences.tradeoff(changed(run, tmp_path, "hypervolume", paired), STR).said
    assert "is smaller than that of BiFP-str: −0.300" in said and "either may be" not in said


def test_training_cost_says_who_never_got_there(run, tmp_path):
    seconds = effort.effort(run, STR, by="seconds")
    panel = effort.effort(run, STR)
    assert "Never reached by SNIP, FPGM, Lottery" in panel.said
    assert "BiFP saves at least" in panel.said, (
        "P&F is missing in a seed, so what it had is all that is known"
    )
    assert seconds.said != panel.said and "seconds" in seconds.said
    assert not seconds.table["λ"].isin([0.25, 4.0]).any(), "points of the sweep stay out"
    steps = np.where(run.table("reached")["method"] == "bifp-str", 40.0, 400.0)
    quick = {"reached": True, "iterations": steps}
    saved = effort.effort(changed(run, tmp_path, "reached", quick), STR).said
    assert "In every training BiFP-str needs less than F&P, on average 90 % less." in saved
    never = {"reached": False, "iterations": math.nan}
    none = effort.effort(changed(run, tmp_path, "reached", never), STR).said
    assert "no method got there" in none and "With nothing cut it was not reached either" in none


def test_seeds_of_any_number_stay_within_their_row(run, tmp_path):
    far = {"seed": run.table("reached")["seed"] * 40}
    figure = effort.effort(changed(run, tmp_path, "reached", far), STR).figure
    dots = [trace.y for trace in figure.data if trace.type == "scatter"]
    places = [float(y) for ys in dots for y in ys if y is not None]
    assert len(places) > 10 and all(abs(y - round(y)) <= 0.31 for y in places)


def test_what_was_not_trained_or_asked_for_is_not_drawn(run, tmp_path):
    assert training_curves.training(run, DENSE).whole() is None
    for table, make, said in (
        ("tradeoff", differences.tradeoff, "no sweep over λ"),
        ("surface", training_curves.surface, "New audit"),
        ("path", training_curves.path, "New audit"),
    ):
        none = make(changed(run, tmp_path / table, table, None), STR)
        assert none.whole() is None and said in none.said
    shown = training_curves.surface(run, STR, show="gap").figure.data[0]
    assert shown.colorbar.title.text == "accuracy gap"


def test_a_ridge_is_what_rises_above_the_straight_line():
    rows = pd.DataFrame({"t": [0.0, 0.5, 1.0], "loss": [1.0, 1.75, 2.0]})
    assert training_curves.barrier(rows) == pytest.approx(0.25)
    assert training_curves.barrier(rows.assign(loss=[3, 1, 2])) == 0.0


def test_the_sweep_is_a_point_of_the_pareto_chart_on_demand_only(run):
    usual, everything = (pareto.variants_of(run, STR, view) for view in ("test", "trials"))
    assert not (usual["role"] == "tradeoff").any() and (everything["role"] == "tradeoff").any()
    row = everything[everything["variant"] == "pf-70%-l4#1"].iloc[0].to_dict()
    track = track_of(run)
    assert (
        f"{track.variants.label(row)}{track.variants.mark(row)}" == "P&F, 70 % cut, λ = 4, seed 1"
    )
    assert pareto.pareto(run, STR).whole() is not None


def test_a_gap_that_could_not_be_measured_is_said(run, tmp_path):
    """As with too few images of a subgroup: its gap is NaN everywhere."""

    def none(rows: pd.DataFrame) -> pd.DataFrame:
        is_gap = rows["metric"].isin(["accuracy_gap", "degradation_gap"])
        columns = [name for name in ("value", "low", "high", "delta", "p", "q") if name in rows]
        rows.loc[is_gap, columns] = math.nan
        return rows

    less = changed(run, tmp_path / "one", "results", none)
    assert curve.NO_GAP in curve.fair_curve(less, STR).said
    less = changed(run, tmp_path / "two", "arm_differences", none)
    panel = differences.bifp_against(less, STR)
    assert panel.whole() is None and "no gap was measured" in panel.said


def test_masks_of_weights_say_what_they_are(run, tmp_path):
    (path,) = bundle.export_run(run, tmp_path / "weights", ["masks"], variant="bifp-uns-48.8%#0")
    mask = json.loads(path.read_text())
    assert mask["units"] == "weights" and mask["note"] == own.NOT_FASTER and mask["speedup"] == 1.0
    assert mask["realised_sparsity"] == pytest.approx(0.488, abs=1e-3) and len(mask["layers"]) == 6
    with pytest.raises(RequestError, match="cuts nothing"):
        bundle.export_run(run, tmp_path / "none", ["masks"], variant="dense-tuned-0%#0")
