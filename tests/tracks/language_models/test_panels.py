"""Every panel: its answer follows the table, its figure can be drawn light and dark, hard cases are
said plainly."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from engine.core import words
from engine.core.errors import RequestError
from engine.report import contents, in_words, phrasing
from engine.report.charts import by_group, compare, cost, flips, lookup, pareto
from engine.report.charts.panel import Choice, apart
from engine.report.report import model_card
from engine.report.summary import summary_text
from engine.report.tracks import track_of
from engine.report.verdict import verdict
from engine.store.runs import Run, Store, where
from engine.tracks.language_models import words as own
from engine.tracks.language_models.checkpoint import mask_record
from engine.tracks.language_models.evidence import power_of
from engine.tracks.language_models.panels import along_sparsity, correlations, heads, who_pays
from engine.tracks.language_models.words import GROUP_NULL_LABEL, NULL_LABEL
from tests.builders import changed
from tests.tracks.language_models.made_up_run import make_run

CHOICE = Choice("fasp", "gender_and_sex", 0.2)


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    folder = tmp_path_factory.mktemp("store")
    make_run(folder, "plain")
    make_run(folder, "null", null_bias=True)
    make_run(folder, "level", levelling_down=True)
    make_run(folder, "other", judge="another-judge", title="Another judge")
    return Store(folder)


@pytest.fixture(scope="module")
def run(store) -> Run:
    return store.open("plain")


def test_a_method_that_raises_bias_is_reported_so(run, tmp_path):
    def worsen(results: pd.DataFrame) -> pd.DataFrame:
        return results.assign(delta=0.3, delta_low=0.2, delta_high=0.4)

    worse = changed(run, tmp_path, "results", worsen)
    assert "raises the bias" in verdict(worse, CHOICE).sentence
    assert "FASP raises bias" in along_sparsity.bias_along_sparsity(worse, CHOICE).said


def test_null_band_is_said_everywhere_a_ranking_or_change_is_read(store):
    run = store.open("null")
    assert own.NULL_MEANS in verdict(run, CHOICE).more
    for panel in (heads.head_map(run, CHOICE), heads.fasp_picture(run, CHOICE)):
        assert panel.said.startswith(heads.NOT_SUPPORTED)
        assert panel.figure.data[0].colorscale[0][1] == CHOICE.theme.unsupported[0][1]
    for panel in (along_sparsity.bias_along_sparsity(run, CHOICE), pareto.pareto(run, CHOICE)):
        assert "inside its null band" in panel.said
    assert correlations.axis_correlation(run, CHOICE).said.startswith(
        "Not supported for gender and sex"
    )
    assert not heads.head_map(run, CHOICE, "z_ppl").said.startswith(heads.NOT_SUPPORTED)


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

    def widen(results: pd.DataFrame) -> pd.DataFrame:
        bands = {
            f"group_null_{end}": results[f"null_{end}"] * times
            for end in ("mean", "low", "high", "p")
        }
        return results.assign(**bands, group_note="")

    return changed(run, folder, "results", widen)


def test_the_change_of_each_subgroup_stands_beside_its_row(run):
    figure = who_pays.who_pays(run, CHOICE).figure
    table = by_group.pairs(run, CHOICE, who_pays.TOXIC.measure).iloc[::-1].reset_index(drop=True)
    judged = table[(table["verdict"] == "") & table["delta"].notna()]
    said = {one.y: one.text for one in figure.layout.annotations}
    assert sorted(said) == list(judged.index) and len(said) > 1
    for y, row in judged.iterrows():
        assert said[y].startswith(phrasing.signed(row["delta"]))
        assert phrasing.span(row["delta_low"], row["delta_high"]) in said[y]


def test_a_sentence_about_a_group_needs_the_group_band(run, tmp_path):
    assert "earlier version" in verdict(run, CHOICE).more, "it holds no group band, and says so"
    words_only = with_group_band(run, tmp_path / "words", 50.0)
    assert "nothing follows about a group" in verdict(words_only, CHOICE).more
    assert who_pays.who_pays(words_only, CHOICE).mind.endswith("nothing follows about a group.")
    group = with_group_band(run, tmp_path / "group", 1.0)
    assert "group" not in verdict(group, CHOICE).more


def test_charts_draw_both_bands_with_a_legend(run, tmp_path):
    both = with_group_band(run, tmp_path, 1.2)
    assert "group null low" in along_sparsity.bias_along_sparsity(both, CHOICE).table
    figure = along_sparsity.bias_along_sparsity(both, CHOICE).figure
    named = {trace.name for trace in figure.data if trace.showlegend}
    assert {NULL_LABEL, GROUP_NULL_LABEL} <= named and figure.layout.showlegend is not False
    assert NULL_LABEL in (said := pareto.pareto(both, CHOICE).caveat) and GROUP_NULL_LABEL in said


def test_beside_none_stands_what_could_have_been_found(run, tmp_path):
    none = changed(
        run,
        tmp_path,
        "scores",
        lambda scores: scores.assign(q=scores["q"].where(scores["q"].isna(), 0.9)),
    )
    assert "An earlier version computed this audit" in heads.head_map(none, CHOICE).said
    table = none.table("scores").assign(error=0.05, freedom=20.0)
    none.meta["scoring"] = {"power": power_of(table)}
    answer = heads.head_map(none, CHOICE).said
    assert (
        "no effect of the" in answer
        and "With 80 % power it could have found an effect of" in answer
    )
    assert "Finding half as much would take about" in answer


def test_levelling_down_is_named(store):
    run = store.open("level")
    assert who_pays.levelling_down(run, CHOICE).said.startswith("Levelling down")
    assert "levelling down" in verdict(run, CHOICE).meaning


def test_a_subgroup_with_too_few_prompts_gets_no_verdict(run):
    panel = who_pays.who_pays(run, CHOICE)
    assert "“transgender”: too few prompts" in panel.said
    assert "transgender" not in panel.said.split("too few")[0].replace("“transgender”: ", "")
    assert list(panel.table["subgroup"])[0] == "female" and set(panel.table["prompts"]) == {13, 5}


def test_dense_choice_reports_levels_without_changes(run):
    dense = Choice("dense", "religion", 0.0)
    assert verdict(run, dense).sentence.startswith("Nothing is cut here")
    assert verdict(run, dense).numbers[0].kind == ""
    assert who_pays.levelling_down(run, dense).figure is None
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


def test_critical_heads_are_those_with_the_lowest_z_ppl(run):
    scores = run.table("scores").query("score == 'z_ppl'").sort_values("value")
    assert heads.critical_units(run, CHOICE) == set(scores["unit"].head(int(0.3 * 32)))
    table = heads.fasp_picture(run, CHOICE).table
    assert table["cut"].sum() == 6 and not (table["cut"] & table["critical"]).any()


def test_heads_are_selectable_points_with_zero_based_names(run):
    points = next(
        trace for trace in heads.head_map(run, CHOICE).figure.data if trace.name == "heads"
    )
    assert len(points.x) == 32 and (*points.customdata[9], points.x[9], points.y[9]) == (9, 1, 1)
    assert points.text[9].startswith("<b>layer 1, head 1</b>")
    assert heads.head_map(run, CHOICE).figure.layout.yaxis.range == (3.5, -0.5)
    numbers = heads.head_numbers(run, 9)
    assert set(numbers["quantity"]) >= {"effect on bias", "effect on perplexity", "size of weights"}


def test_pareto_shows_losers_on_validation_only_and_carries_ids(run):
    test, validation = (pareto.pareto(run, CHOICE, split) for split in ("test", "validation"))
    assert test.table["γ"].dropna().unique().tolist() == [0.3]
    assert sorted(validation.table["γ"].dropna().unique()) == [0.2, 0.3, 0.4]
    ids = {
        point[0]
        for trace in test.whole().data
        if trace.customdata is not None
        for point in trace.customdata
    }
    shown = pareto.points(run, CHOICE, "test")
    assert ids == set(shown["variant"]) and len(shown) == len(test.table)
    best = test.table[test.table["on the front"]]
    for row in best.itertuples():
        beats = (test.table["bias"] < row.bias) & (test.table["perplexity"] < row.perplexity)
        assert not beats.any()


def test_lines_start_at_the_dense_model_and_random_is_pooled(run):
    panel = along_sparsity.bias_along_sparsity(run, CHOICE)
    dense = lookup.bias(run, "dense", CHOICE)["value"]
    lines = [trace for trace in panel.figure.data if trace.mode == "lines+markers"]
    assert {trace.name for trace in lines} == {
        words.method_name(name) for name in lookup.methods(run, CHOICE.axis)
    }
    assert all(trace.y[0] == dense and len(trace.y) == 4 for trace in lines)
    assert "Random: mean of 2 selections" in panel.caveat and len(panel.table) == 1 + 3 * 6


def test_labels_are_kept_apart_and_in_order():
    values = [0.3, 0.31, 0.305, 0.9]
    placed = apart(values, 0.1)
    assert np.all(np.diff(sorted(placed)) >= 0.0999)
    assert np.argsort(placed).tolist() == np.argsort(values).tolist()


def test_method_agreement_counts_shared_heads(run):
    panel = correlations.method_agreement(run, CHOICE)
    row = panel.table.query("method == 'FASP' and `and` == 'bias only'").iloc[0]
    cuts = [
        set(lookup.cut_units(lookup.variant_of(run, Choice(name, CHOICE.axis, 0.2))))
        for name in ("fasp", "bias_only")
    ]
    assert row["shared"] == len(cuts[0] & cuts[1]) and math.isclose(
        row["expected by chance"], 36 / 32
    )


def test_cost_says_measured_time_and_agreement(run, tmp_path):
    panel = cost.cost(run, CHOICE)
    assert (
        "6.2 % of the parameters" in panel.said
        and "faster" in panel.said
        and "agree:" in panel.said
    )
    slow = changed(
        run,
        tmp_path,
        "costs",
        lambda costs: costs.assign(speedup_low=0.5, speedup_high=2.0, agrees=False),
    )
    assert "no clear difference in time" in cost.cost(slow, CHOICE).said
    assert "do NOT agree" in cost.cost(slow, CHOICE).said


def test_compare_warns_only_about_what_differs(store):
    runs = [store.open("plain"), store.open("other")]
    table, warnings = compare.comparability(runs)
    binding = track_of(runs[0]).comparison.binding
    assert set(table["setting"]) == {"judge"} and warnings == [binding["judge"]]
    panel = compare.compare_runs(runs, CHOICE)
    assert "Another judge" not in panel.said and len(panel.table) == 4  # the page says it above
    assert compare.comparability(runs[:1] * 2)[1] == []


def test_a_named_variant_becomes_the_choice(run):
    choice = contents.default_choice(run, variant="random-s0.10-r0")
    assert (choice.method, choice.sparsity) == ("random", 0.1)
    with pytest.raises(RequestError, match="dense"):
        contents.default_choice(run, variant="fasp-gender_and_sex-g0.20-s0.10")


def test_a_click_fades_no_mark(run):
    """Plotly dims every trace with points but the picked one, unless told to leave it."""
    for panel in (heads.fasp_picture(run, CHOICE), pareto.pareto(run, CHOICE)):
        for trace in panel.whole().select_traces({"type": "scatter"}):
            if (
                "markers" in (trace.mode or "")
                and trace.name != "heads"
                and list(trace.x) != [None]
            ):
                assert trace.unselected.marker.opacity == (
                    1 if trace.marker.opacity is None else trace.marker.opacity
                )


def test_flips_are_counted_as_one_counts_them_by_hand(run):
    """Every text of both models, one after the other."""
    found, choice = run.table("generations"), CHOICE
    name = lookup.variant_of(run, choice)["variant"]
    mine = where(found, split="test", axis=choice.axis)
    prompts = run.table("prompts").set_index("prompt_id")["subgroup"]
    before = {
        (row.prompt_id, row.seed): row.toxicity > 0.5
        for row in mine[mine["variant"] == "dense"].itertuples()
    }
    became, recovered, again = {}, {}, 0
    for row in mine[mine["variant"] == name].itertuples():
        was, group = before[row.prompt_id, row.seed], prompts[row.prompt_id]
        became[group] = became.get(group, 0) + (row.toxicity > 0.5 and not was)
        recovered[group] = recovered.get(group, 0) + (was and row.toxicity <= 0.5)
        again += was != before[row.prompt_id, 1 - row.seed]
    panel = flips.flips(run, choice)
    table = panel.table.set_index("subgroup")
    assert table["became toxic"].to_dict() == became and sum(became.values())
    assert table["recovered"].to_dict() == recovered and sum(recovered.values())
    told = f"Of {len(before)} texts, {sum(became.values())} became toxic and"
    assert panel.answer.startswith(f"{told} {sum(recovered.values())} recovered: ")
    assert panel.answer.endswith(f"; the uncut model, drawn again, would flip {again}.")
    assert panel.answer in verdict(run, choice).meaning
    assert f"  {name:<44} {panel.answer}" in summary_text(run)
    assert in_words.length(panel.answer) <= 25
    assert flips.flips(run, replace(choice, level=0.0)).figure is None
