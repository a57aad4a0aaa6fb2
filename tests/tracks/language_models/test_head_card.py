"""The card of a head: what it says follows from the tables, and its examples from the texts of a
model without it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from engine.core.errors import RequestError
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.tracks.language_models.examples import exchanged, pairs, without_head
from engine.tracks.language_models.panels.head_card import by_rank, head_card
from engine.tracks.language_models.panels.heads import critical_units, fasp_picture, pooled_scores
from tests.builders import changed
from tests.tracks.language_models.made_up_run import make_run

CHOICE = Choice("fasp", "gender_and_sex", 0.2)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("store"), "plain")


def told(run, choice, unit):
    return dict(head_card(run, choice, unit).table.to_numpy())


def test_heads_are_ordered_by_effect_on_the_axis_that_is_read(run):
    values = pooled_scores(run, "z_bias", "gender_and_sex").set_index("unit")["value"]
    order = by_rank(run, CHOICE)
    assert sorted(order) == list(range(32)) and values[list(order)].is_monotonic_decreasing
    assert told(run, CHOICE, order[2])["Rank"].startswith("3 of 32 ")


def test_the_chart_has_a_dot_per_axis_hollow_where_nothing_was_measured(run, tmp_path):
    first = run.meta["request"]["axes"][0]

    def estimate(table):
        mine = (table["score"] == "z_bias") & (table["axis"] == first)
        return table.assign(estimator=table["estimator"].mask(mine, "gradient"))

    figure = head_card(changed(run, tmp_path, "scores", estimate), CHOICE, 5).figure
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
    top = by_rank(run, CHOICE)[0]

    def blurred(table):
        return table.assign(low=table["value"] - 9, high=table["value"] + 9)

    def sharp(table):
        return table.assign(low=table["value"] - 1e-6, high=table["value"] + 1e-6)

    assert (
        "its rank would be 1 (95 %)"
        in told(changed(run, tmp_path / "a", "scores", sharp), CHOICE, top)[
            "Would that come out again?"
        ]
    )
    assert (
        "its rank would be 1 to 3"
        in told(changed(run, tmp_path / "b", "scores", blurred), CHOICE, top)[
            "Would that come out again?"
        ]
    )


def test_what_cuts_it_is_read_off_the_variants(run):
    variant = lookup.variant_of(run, CHOICE)
    for unit in (lookup.cut_units(variant)[0], next(iter(critical_units(run, CHOICE)))):
        rows = lookup.of_axis(run, lookup.reported(run), CHOICE.axis).to_dict("records")
        number = sum(unit in lookup.cut_units(row) for row in rows)
        said = told(run, CHOICE, unit)["Cut by"]
        assert said.startswith(f"{number} of" if number else "None of")


def test_without_a_ranking_the_card_still_stands(run, tmp_path):
    def unranked(table):
        mine = table["score"] == "z_bias"
        return table.assign(
            **{name: table[name].mask(mine) for name in ("value", "low", "high", "p", "q")}
        )

    panel = head_card(changed(run, tmp_path, "scores", unranked), CHOICE, 5)
    assert "not ranked" in panel.said and not panel.has_chart
    assert "Rank" not in dict(panel.table.to_numpy())


def test_no_such_head(run):
    with pytest.raises(RequestError, match="0 to 31"):
        head_card(run, CHOICE, 32)


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
