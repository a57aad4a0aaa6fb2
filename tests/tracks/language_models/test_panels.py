"""Panels: answers follow the table, hard cases are said plainly; the card of a head, its examples
from texts of a model without it; whether scores would come out again."""

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from engine.core.errors import RequestError
from engine.core.types import rng
from engine.report import contents
from engine.report.charts import by_group, compare, cost, lookup, pareto
from engine.report.charts.panel import Choice
from engine.report.charts.reliability_parts import reliable_said
from engine.report.report import model_card
from engine.report.tracks import track_of
from engine.report.verdict import verdict
from engine.store.runs import Run, Store
from engine.tracks.language_models import words as own
from engine.tracks.language_models.checkpoint import mask_record
from engine.tracks.language_models.evidence import per_cent, power_of
from engine.tracks.language_models.examples import exchanged, pairs, without_head
from engine.tracks.language_models.panels import (
    bench,
    correlations,
    cuts,
    heads,
    reliability,
)
from engine.tracks.language_models.panels.head_card import by_rank, head_card
from engine.tracks.language_models.panels.heads import critical_units, fasp_picture, pooled_scores
from engine.tracks.language_models.published_scores import load_published
from engine.tracks.language_models.words import GROUP_NULL_LABEL, NULL_LABEL
from tests.builders import changed
from tests.places import SHARED
from tests.tracks.language_models.made_up_run import make_run

CHOICE = Choice("fasp", "gender_and_sex", 0.2)


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    folder = tmp_path_factory.mktemp("store")
    make_run(folder, "plain")
    make_run(folder, "null", null_bias=True)
    make_run(folder, "other", judge="another-judge", title="Another judge")
    return Store(folder)


@pytest.fixture(scope="module")
def run(store) -> Run:
    return store.open("plain")


def test_a_method_that_raises_bias_is_reported_so(run, tmp_path):
    rise = {"delta": 0.3, "delta_low": 0.2, "delta_high": 0.4, "delta_p": 0.001}
    worse = changed(run, tmp_path, "results", rise)
    assert "raises the bias" in verdict(worse, CHOICE).sentence
    assert "FASP raises bias" in cuts.bias_along_sparsity(worse, CHOICE).said


def test_null_band_is_said_everywhere_a_ranking_or_change_is_read(store):
    run = store.open("null")
    assert own.NULL_MEANS in verdict(run, CHOICE).more
    for panel in (heads.head_map(run, CHOICE), heads.fasp_picture(run, CHOICE)):
        assert own.NULL_MEANS in panel.said
        assert panel.figure.data[0].colorscale[0][1] == CHOICE.theme.unsupported[0][1]
    for panel in (cuts.bias_along_sparsity(run, CHOICE), pareto.pareto(run, CHOICE)):
        assert "inside its null band" in panel.said
    assert correlations.axis_correlation(run, CHOICE).said.startswith(
        "Not supported for “gender and sex”"
    )
    assert own.NULL_MEANS not in heads.head_map(run, CHOICE, "z_ppl").said


def test_a_cut_by_a_ranking_that_chance_gives_says_so_by_name_and_in_its_mask(store):
    mark, null, plain = "(ranking not supported)", store.open("null"), store.open("plain")
    cut = lookup.variant_of(null, CHOICE)
    drawn = lookup.variant_of(null, replace(CHOICE, method="random_noncritical"))
    assert mark in lookup.variant_label(null, cut) and mark in model_card(null, cut)
    assert "not supported" in mask_record(null, cut).settings["warning"]
    assert mark not in lookup.variant_label(null, drawn) + lookup.variant_label(plain, cut)
    assert "warning" not in mask_record(plain, cut).settings


def with_group_band(run: Run, folder, times: float) -> Run:
    """The run with a group band that is `times` as wide as its words band."""

    bands = run.table("results").filter(regex="^null_").add_prefix("group_") * times
    return changed(run, folder, "results", {**bands, "group_note": ""})


def test_a_sentence_about_a_group_needs_the_group_band(run, tmp_path):
    without = [name for name in run.table("results") if name.startswith("group_")]
    older = changed(run, tmp_path / "older", "results", lambda table: table.drop(columns=without))
    assert "earlier version" in verdict(older, CHOICE).more, "it holds no group band, and says so"
    words_only = with_group_band(run, tmp_path / "words", 50.0)
    assert "nothing follows about a group" in verdict(words_only, CHOICE).more
    assert cuts.who_pays(words_only, CHOICE).mind.endswith("nothing follows about a group.")
    group = with_group_band(run, tmp_path / "group", 1.0)
    assert "group" not in verdict(group, CHOICE).more


def test_charts_draw_both_bands_with_a_legend(run, tmp_path):
    both = with_group_band(run, tmp_path, 1.2)
    assert "group null low" in cuts.bias_along_sparsity(both, CHOICE).table
    figure = cuts.bias_along_sparsity(both, CHOICE).figure
    named = {trace.name for trace in figure.data if trace.showlegend}
    assert {NULL_LABEL, GROUP_NULL_LABEL} <= named and figure.layout.showlegend is not False
    assert NULL_LABEL in (said := pareto.pareto(both, CHOICE).caveat) and GROUP_NULL_LABEL in said


def test_beside_none_stands_what_could_have_been_found(run, tmp_path):
    q = run.table("scores")["q"]
    none = changed(run, tmp_path, "scores", {"q": q.where(q.isna(), 0.9)})
    assert "An earlier version computed this audit" in heads.head_map(none, CHOICE).said
    table = none.table("scores").assign(error=0.05, freedom=20.0)
    none.meta["scoring"] = {"power": power_of(table)}
    answer = heads.head_map(none, CHOICE).said
    assert "no effect of the" in answer
    assert "With 80 % power it could have found an effect of" in answer
    assert "Finding half as much would take about" in answer


def test_a_subgroup_with_too_few_prompts_gets_no_verdict(run):
    panel = cuts.who_pays(run, CHOICE)
    assert "“transgender”: too few prompts" in panel.said
    assert "transgender" not in panel.said.split("too few")[0].replace("“transgender”: ", "")
    assert list(panel.table["subgroup"])[0] == "female" and set(panel.table["prompts"]) == {13, 5}


def test_dense_choice_reports_levels_without_changes(run):
    dense = Choice("dense", "religion", 0.0)
    assert verdict(run, dense).sentence.startswith("Nothing is cut here")
    assert verdict(run, dense).numbers[0].kind == ""
    assert by_group.levelling_down(run, dense).figure is None
    assert "nothing is cut" in heads.fasp_picture(run, dense).said


def test_unknown_choices_name_the_known_ones(run):
    with pytest.raises(RequestError, match="bias_only, fasp, magnitude"):
        verdict(run, Choice("nonsense", "religion", 0.1))
    with pytest.raises(RequestError, match=r"0 %, 10 %, 20 %, 5 %"):
        verdict(run, Choice("fasp", "religion", 0.15))
    with pytest.raises(RequestError, match="pearson, spearman"):
        correlations.axis_correlation(run, CHOICE, "kendall")
    with pytest.raises(RequestError, match="0 to 31"):
        heads.head_numbers(run, 32)


def test_one_head_in_numbers(run):
    numbers = heads.head_numbers(run, 9)
    assert set(numbers["quantity"]) >= {"effect on bias", "effect on perplexity", "size of weights"}


def test_pareto_shows_losers_on_validation_only_and_carries_ids(run):
    test, validation = (pareto.pareto(run, CHOICE, split) for split in ("test", "validation"))
    assert test.table["γ"].dropna().unique().tolist() == [0.3]
    assert sorted(validation.table["γ"].dropna().unique()) == [0.2, 0.3, 0.4, 0.5, 0.6, 0.7]


def test_an_unclear_time_and_a_cut_that_disagrees_are_said(run, tmp_path):
    unclear = {"speedup_low": 0.5, "speedup_high": 2.0, "agrees": False}
    slow = changed(run, tmp_path, "costs", unclear)
    assert "no clear difference in time" in cost.cost(slow, CHOICE).said
    assert "do NOT agree" in cost.cost(slow, CHOICE).said


def test_compare_warns_only_about_what_differs(store):
    runs = [store.open("plain"), store.open("other")]
    settings, warnings = compare.comparability(runs)
    binding = track_of(runs[0]).comparison.binding
    assert settings == ["judge"] and warnings == [binding["judge"]]
    panel = compare.compare_runs(runs, CHOICE)
    assert "Another judge" not in panel.said and len(panel.table) == 4  # the page says it above
    assert compare.comparability(runs[:1] * 2)[1] == []


def test_a_named_variant_becomes_the_choice(run):
    choice = contents.default_choice(run, variant="random-s0.100-r0")
    assert (choice.method, choice.level) == ("random", 0.1)
    with pytest.raises(RequestError, match="dense"):
        contents.default_choice(run, variant="fasp-gender_and_sex-g0.20-s0.100")


def told(run, choice, unit):
    return dict(head_card(run, choice, unit).table.to_numpy())


def test_heads_are_ordered_by_effect_on_the_axis_that_is_read(run):
    values = pooled_scores(run, "z_bias", "gender_and_sex").set_index("unit")["value"]
    order = by_rank(run, CHOICE)
    assert sorted(order) == list(range(32)) and values[list(order)].is_monotonic_decreasing
    assert told(run, CHOICE, order[2])["Rank"].startswith("3 of 32 ")


def test_the_chart_has_a_dot_per_axis_hollow_where_nothing_was_measured(run, tmp_path):
    first = run.meta["request"]["axes"][0]

    table = run.table("scores")
    mine = (table["score"] == "z_bias") & (table["axis"] == first)
    estimated = {"estimator": table["estimator"].mask(mine, "gradient")}
    figure = head_card(changed(run, tmp_path, "scores", estimated), CHOICE, 5).figure
    assert sorted(symbols_of(figure)) == ["circle", "circle-open"]
    assert "circle-open" not in symbols_of(head_card(run, CHOICE, 5).figure)


def symbols_of(figure) -> list[str]:
    """Symbols of the dots that have an interval."""
    return [
        str(symbol)
        for trace in figure.data
        if trace.error_x.array is not None
        for symbol in trace.marker.symbol
    ]


def test_what_it_says_of_bias_follows_from_q_and_sign(run):
    table = pooled_scores(run, "z_bias", "gender_and_sex")
    sure = table[(table["q"] <= 0.05) & (table["value"] > 0)]["unit"].iloc[0]
    open_ = table[table["q"] > 0.05]["unit"].iloc[0]
    assert head_card(run, CHOICE, sure).said.startswith("Adds to the bias of gender and sex: +")
    assert "may be zero" in head_card(run, CHOICE, open_).said


def test_protection_and_loss_follow_from_perplexity(run):
    needed = pooled_scores(run, "z_ppl").set_index("unit")["value"]
    most, least = needed.idxmin(), needed.idxmax()
    assert most in critical_units(run, CHOICE)
    assert told(run, CHOICE, most)["Protected?"].startswith("Yes, by FASP: place 1 of 32")
    assert told(run, CHOICE, least)["Protected?"].startswith("No: place 32 of 32")
    assert told(run, CHOICE, most)["What the model loses"].startswith("Perplexity +")


def test_a_rank_is_sure_where_errors_are_small_and_not_where_they_are_large(run, tmp_path):
    top, value = by_rank(run, CHOICE)[0], run.table("scores")["value"]
    for half, ranks in ((1e-6, "1 (95 %)"), (9, "1 to 3")):
        ends = {"low": value - half, "high": value + half}
        said = told(changed(run, tmp_path / str(half), "scores", ends), CHOICE, top)
        assert f"its rank would be {ranks}" in said["Would that come out again?"]


def test_what_cuts_it_is_read_off_the_variants(run):
    variant = lookup.variant_of(run, CHOICE)
    for unit in (lookup.cut_units(variant)[0], next(iter(critical_units(run, CHOICE)))):
        rows = lookup.of_axis(run, lookup.reported(run), CHOICE.axis).to_dict("records")
        number = sum(unit in lookup.cut_units(row) for row in rows)
        said = told(run, CHOICE, unit)["Cut by"]
        assert said.startswith(f"{number} of" if number else "None of")


def test_without_a_ranking_the_card_still_stands(run, tmp_path):
    table = run.table("scores")
    unranked = table[["value", "low", "high", "p", "q"]].mask(table["score"] == "z_bias")
    panel = head_card(changed(run, tmp_path, "scores", {**unranked}), CHOICE, 5)
    assert "not ranked" in panel.said and not panel.has_chart
    assert "Rank" not in dict(panel.table.to_numpy())


def test_a_frame_marks_the_chosen_head(run):
    shapes = fasp_picture(run, CHOICE, 9).figure.layout.shapes
    halo, frame = (shape for shape in shapes if shape.type == "rect")
    assert (round(np.mean([frame.x0, frame.x1])), round(np.mean([frame.y0, frame.y1]))) == (1, 1)
    assert halo.line.width > frame.line.width


def test_examples_come_from_a_model_with_this_head_alone_off_where_there_is_one(run):
    single = replace(CHOICE, level=0.05)
    (unit,) = lookup.cut_units(lookup.variant_of(run, single))
    found = without_head(run, CHOICE, unit)
    assert "this head alone off" in found.said and len(found.table) == 2
    assert found.table["prompt"].nunique() == 2


def test_examples_else_come_from_the_chosen_variant_and_change_most(run):
    rows = lookup.reported(run).to_dict("records")
    alone = {tuple(lookup.cut_units(row)) for row in rows}
    variant = lookup.variant_of(run, CHOICE)
    unit = next(unit for unit in lookup.cut_units(variant) if (unit,) not in alone)
    found = without_head(run, CHOICE, unit)
    assert "this head and 5 others off (FASP, 20 % cut)" in found.said
    every = pairs(run, variant["variant"], CHOICE.axis)
    shares = [
        exchanged(*texts) for texts in zip(every["text_dense"], every["text_pruned"], strict=True)
    ]
    assert exchanged(*found.table.loc[0, ["before", "after"]]) == max(shares)


def test_no_examples_where_the_head_stays_on(run):
    unit = next(iter(critical_units(run, CHOICE)))
    alone = [json.loads(cut) for cut in lookup.reported(run)["cut"]]
    assert [unit] not in alone
    found = without_head(run, CHOICE, unit)
    assert found.table.empty and "No texts are kept" in found.said


def test_exchanged_words():
    assert exchanged("a b c d", "a b c d") == 0
    assert exchanged("a b c d", "d c b a") == 0
    assert exchanged("a b c d", "a b x y") == 0.5
    assert exchanged("", "") == 0 and exchanged("a", "") == 1


DATA = SHARED / "fasp_head_scores"


def panels_of(run):
    shown = (
        reliability.run_repeats,
        reliability.seed_scatter,
        reliability.more_seeds,
        bench.additivity,
    )
    return [panel(run, CHOICE) for panel in shown]


def test_one_seed_says_that_it_takes_two(run, tmp_path):
    one = changed(run, tmp_path, "scores", lambda scores: scores[scores["seed"].isin([-1, 0])])
    for panel in panels_of(one)[:3]:
        assert panel.figure is None and "at least two seeds" in panel.said


def test_heads_that_were_not_ranked_are_not_drawn(run, tmp_path):
    scores = run.table("scores")
    mine = (scores["score"] == "z_bias") & (scores["axis"] == "gender_and_sex")
    note = scores["note"].mask(mine, "not ranked: the dense bias is inside its null band")
    hidden = changed(run, tmp_path, "scores", {"value": scores["value"].mask(mine), "note": note})
    assert heads.head_map(hidden, CHOICE).figure is None
    assert "not ranked" in heads.head_map(hidden, CHOICE).said
    assert "not ranked" in heads.fasp_picture(hidden, CHOICE).said
    assert bench.additivity(hidden, CHOICE).figure is None


def test_heads_that_were_drawn_again_are_marked_and_counted(run, tmp_path):
    scores = run.table("scores")
    mine, unit = scores["score"] == "z_bias", scores["unit"]
    who = np.select(
        [unit < 1, unit < 2, unit < 5], ["combined", "generate", "reweight"], "gradient"
    )
    ess = pd.Series(np.select([unit < 2, unit < 5], [0.1, 0.6], np.nan)).where(mine)
    drawn = {"estimator": np.where(mine, who, scores["estimator"]), "ess": ess}
    panel = heads.head_map(changed(run, tmp_path, "scores", drawn), CHOICE)
    assert "3 heads by reweighting (ESS at least 0.600 of n)" in panel.caveat
    assert "Reweighting said too little about 2 heads, so new texts were drawn" in panel.caveat
    rings = [
        trace
        for trace in panel.figure.data
        if trace.type == "scatter" and trace.marker.symbol == "circle-open"
    ]
    assert [len(trace.x) for trace in rings] == [2, 1], "two rings, and the legend's"
    assert panel.table["estimator"].value_counts()["generate"] == 1
    assert "ESS (share of n)" in panel.table


@pytest.mark.skipif(not DATA.is_dir(), reason="needs ../shared/data/fasp_head_scores")
def test_published_seeds_are_noise_for_the_two_large_models():
    scores = load_published(sorted(DATA.rglob("*.csv")))
    icc, overlap = reliability.published(scores, CHOICE)
    means = icc.table.groupby("name")["ICC"].mean()
    assert len(means) == 5
    for name in ("EleutherAI/gpt-neo-1.3B", "meta-llama/Llama-2-7b-chat-hf"):
        assert 0 < means[name] < 0.05 and name in icc.said
    assert overlap.table["overlap"].between(0, 1).all() and "chance" in overlap.said


def test_scores_that_never_vary_are_said_to_be_so(run, tmp_path):
    scores = run.table("scores")
    same = {"value": scores["value"].where(scores["seed"] < 0, 0.5)}
    flat = changed(run, tmp_path, "scores", same)
    panels = {panel.key: panel for panel in panels_of(flat)}
    assert panels["run_repeats"].figure is None and panels["more_seeds"].figure is None
    assert "same score" in panels["seed_scatter"].said


def test_axes_whose_noise_hides_small_effects_are_named(run, tmp_path):
    scores = run.table("scores")
    noise = 5 * np.random.default_rng(0).normal(size=len(scores)) * (scores["seed"] >= 0)
    loud = changed(run, tmp_path, "scores", {"value": scores["value"] + noise})
    panel = reliability.run_repeats(loud, CHOICE)
    assert "noise hides" in panel.caveat and set(panel.table["over"]) == {"all heads"}
    wide = pd.DataFrame([{"name": "religion", "ICC": 0.97, "low": 0.06, "high": 0.99}])
    assert "for 0 of 1 axis" in reliable_said(wide, "axis", "axes")


def row(value, half, delta=0.0, moved=0.0):
    ends = {
        "low": value - half,
        "high": value + half,
        "delta_low": delta - moved,
        "delta_high": delta + moved,
    }
    return {"value": value, "delta": delta, **ends}


def changes(*rows, dense):
    return per_cent(pd.DataFrame(list(rows)), dense)


def test_a_full_model_known_exactly_is_a_plain_division():
    found = changes(row(0.6, 0.1, -0.4, 0.1), row(1.5, 0.2, 0.5, 0.2), dense=row(1.0, 0.0))
    assert np.allclose(found, [[-40, -50, -30], [50, 30, 70]])


def test_what_moves_in_proportion_is_known_better_than_either():
    # v = 0.5 v0 exactly: every error is v0's
    found = changes(row(0.5, 0.1, -0.5, 0.1), dense=row(1.0, 0.2)).iloc[0]
    assert np.allclose(found, -50)


def test_no_interval_without_one_and_none_of_a_full_model_not_told_from_zero():
    assert (
        changes(row(0.5, math.nan, -0.5, math.nan), dense=row(1.0, 0.1))[["low", "high"]]
        .isna()
        .all(None)
    )
    found = changes(row(0.5, 0.1, -0.5, 0.2), dense=row(1.0, 1.1)).iloc[0]
    assert found["value"] == -50 and math.isnan(found["low"]) and math.isnan(found["high"])
    assert changes(row(0.05, 0.2, -0.95, 0.2), dense=row(1.0, 0.1))["low"].iat[0] == -100


@pytest.mark.parametrize(
    ("ratio", "dense", "variant", "shared"),
    [
        (0.6, 0.3, 0.25, 0.7),
        pytest.param(1.5, 0.1, 0.2, 0.9, marks=pytest.mark.slow),
    ],
)
def test_coverage_where_the_full_model_is_measured_too(ratio, dense, variant, shared):
    draw = rng("per cent", ratio).standard_normal((2, 1500))
    before = 1 + dense * draw[0]
    after = ratio + variant * (shared * draw[0] + math.sqrt(1 - shared**2) * draw[1])
    moved = 1.96 * math.sqrt(dense**2 + variant**2 - 2 * shared * dense * variant)
    rows = [
        changes(row(two, 1.96 * variant, two - one, moved), dense=row(one, 1.96 * dense)).iloc[0]
        for one, two in zip(before, after, strict=True)
    ]
    told = pd.DataFrame(rows).dropna()
    truth = 100 * (ratio - 1)
    assert len(told) > 1200
    assert 0.93 < (told["low"].le(truth) & told["high"].ge(truth)).mean() < 0.97
