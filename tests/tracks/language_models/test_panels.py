"""Every panel: its answer follows the table, its figure can be drawn light and dark, hard cases are
said plainly."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from engine.core.errors import RequestError
from engine.report import contents
from engine.report.charts import compare, cost, lookup, pareto
from engine.report.charts.panel import Choice
from engine.report.report import model_card
from engine.report.tracks import track_of
from engine.report.verdict import verdict
from engine.store.runs import Run, Store
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
        assert own.NULL_MEANS in panel.said
        assert panel.figure.data[0].colorscale[0][1] == CHOICE.theme.unsupported[0][1]
    for panel in (along_sparsity.bias_along_sparsity(run, CHOICE), pareto.pareto(run, CHOICE)):
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

    def widen(results: pd.DataFrame) -> pd.DataFrame:
        bands = {
            f"group_null_{end}": results[f"null_{end}"] * times
            for end in ("mean", "low", "high", "p")
        }
        return results.assign(**bands, group_note="")

    return changed(run, folder, "results", widen)


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


def test_one_head_in_numbers(run):
    numbers = heads.head_numbers(run, 9)
    assert set(numbers["quantity"]) >= {"effect on bias", "effect on perplexity", "size of weights"}


def test_pareto_shows_losers_on_validation_only_and_carries_ids(run):
    test, validation = (pareto.pareto(run, CHOICE, split) for split in ("test", "validation"))
    assert test.table["γ"].dropna().unique().tolist() == [0.3]
    assert sorted(validation.table["γ"].dropna().unique()) == [0.2, 0.3, 0.4]


def test_an_unclear_time_and_a_cut_that_disagrees_are_said(run, tmp_path):
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
