"""Figures and tables of the papers as experiments: each named once, asked and read alike, drawn as
one file."""

import json
import math
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import pytest

from engine.audit.experiments import (
    COLUMNS,
    ExperimentAsk,
    Finding,
    Sketch,
    Stated,
    change,
    differences,
    experiment_named,
    experiments,
    finding,
    table_of,
)
from engine.audit.tracks import tracks
from engine.cli import main
from engine.report.charts.panel import Choice, Panel, blank
from engine.report.report import experiment_html, experiment_text, readable
from tests import made_up
from tests.builders import call
from tests.experiment_checks import QUICK, check_quick_requests, check_reading, without_words

ROW = {
    "value": 0.5,
    "low": 0.4,
    "high": 0.6,
    "null_low": 0.1,
    "null_high": 0.2,
    "n": 30,
    "delta": -0.1,
    "delta_low": -0.2,
    "delta_high": 0.0,
}


def test_every_figure_is_named_by_one_experiment_and_says_what_it_needs():
    found = experiments().values()
    assert len({(one.paper, one.figure) for one in found}) == len(found) >= len(tracks())
    for one in found:
        assert "?" in one.question, one.name
        assert one.figure.startswith(("Fig. ", "Table ")) and one.needs and one.stand_in
        assert one.computes != isinstance(one, Sketch)


def test_a_finding_holds_value_interval_null_band_and_n():
    level, moved = finding("x", ROW, 3, paper=0.7, where="Table 1"), change("y", ROW, 3, scale=100)
    table = table_of([level, moved])
    assert tuple(table.columns) == COLUMNS
    assert table.loc[
        0, ["paper", "ours", "low", "high", "null_low", "null_high", "n", "seeds"]
    ].tolist() == [0.7, 0.5, 0.4, 0.6, 0.1, 0.2, 30, 3]
    assert (moved.ours, moved.low, moved.high) == pytest.approx((-10, -20, 0)) and math.isnan(
        moved.null_low
    )


def test_a_direction_that_the_paper_states_is_compared_with_our_interval():
    rises = Stated("change of AUC, male", "rises", "Sec. 4")
    one = rises.told(change("2x: change of AUC, autobot, male", ROW, 3))
    assert (one.says, one.where, one.agrees) == ("rises", "Sec. 4", "cannot be told")
    assert replace(one, ours=-0.1, low=-0.2, high=-0.05).agrees == "against it"
    assert replace(one, ours=0.2, low=0.1, high=0.3).agrees == "as stated"
    assert replace(one, says="stays").agrees == "not against it", "zero is inside: shown is none"
    assert replace(one, says="not above 0", high=-0.01).agrees == "as stated"
    assert replace(one, low=math.nan, high=math.nan).agrees == "cannot be told"
    assert rises.told(change("change of AUC, male and old", ROW, 3)).agrees == ""
    told = readable(table_of([one])).iloc[0]
    assert told["paper"] == "rises" and told["beside the paper's words"] == "cannot be told"


def test_what_differs_is_told_and_nothing_else():
    paper = {"model": "GPT-2", "seeds": "3"}
    assert (
        differences(paper, {"model": "demo", "seeds": "3", "more": "x"}) == "model demo, not GPT-2"
    )
    assert differences(paper, paper) == ""


def test_the_page_and_the_text_hold_what_was_found_and_escape_it():
    one, figure = Sketch("a", "P", "Fig. 1", "Why?"), blank(Choice("m", "x", 0.1), 100)
    table = table_of(
        [
            Finding(
                "<b>bold</b>",
                0.7,
                "Table 1",
                0.5,
                0.4,
                0.6,
                n=30,
                seeds=3,
                differs="model a, not b",
            )
        ]
    )
    panel = Panel("k", "Why?", "So.", figure, readable(table), "")
    run = SimpleNamespace(id="r1", meta={"title": "T", "warnings": ["W"]})
    page, text = (
        experiment_html(one, table, [run], [panel], [panel]),
        experiment_text(one, table, [run]),
    )
    assert "<b>bold" not in page and "&lt;b&gt;bold" in page
    first = page.partition("</table>")[0]
    assert "(1)" in first and "model a, not b" not in first and "null band" not in first
    assert "(1) What differs: model a, not b." in page
    for part in (
        "paper 0.7 (Table 1)",
        "ours 0.500",
        "[0.400 to 0.600]",
        "n = 30",
        "seeds = 3",
        "! W",
        "run r1: T",
    ):
        assert part in text


def test_the_list_is_printed_with_what_each_needs(capsys):
    _, found = call(capsys, "experiment", "list", "--json")
    assert [one["name"] for one in found] == list(experiments())
    assert main(["experiment", "list"]) == 0
    assert all(
        one["figure"] in line
        for one, line in zip(found, capsys.readouterr().out.splitlines(), strict=True)
    )


@pytest.mark.parametrize("name", experiments())
def test_without_its_data_an_experiment_says_what_it_needs_and_what_quick_would_use(
    name, capsys, tmp_path
):
    one = experiment_named(name)
    code = main(["experiment", name, "--json", "--store", str(tmp_path / "store")])
    out = capsys.readouterr().out
    if one.computes:
        assert code == 2 and one.needs in out and one.stand_in in out and "--quick" in out
    else:
        assert code == 0 and "nothing to compute" in out
    assert not (tmp_path / "store").exists()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The made-up run of a track, written once."""
    folder = tmp_path_factory.mktemp("store")
    return cache(lambda track: made_up.for_papers(track, folder, track))


@pytest.mark.parametrize("name", [name for name, one in experiments().items() if one.computes])
def test_a_run_is_read_beside_the_paper(name, made):
    """Every number has its row; what differs from the paper is told."""
    one = experiment_named(name)
    run = made(type(one).__module__.split(".")[2])
    told = check_reading(one, [run] * len(getattr(one, "parts", [run])))
    assert one.name == name and told["what"].is_unique
    assert told["differs"].str.contains("not ").any()


def test_quick_requests_hold_up_and_those_of_one_experiment_are_different():
    check_quick_requests(experiments())
    for one in experiments().values():
        asked = [json.dumps(without_words(each).identity) for each in one.requests(QUICK)]
        assert len(set(asked)) == len(asked)


def test_what_is_asked_for_goes_before_what_is_usual():
    ask = ExperimentAsk(quick=True, trials=5, first_seed=7)
    for one in experiments().values():
        for request in one.requests(ask):
            assert request.first_seed == 7 and 5 in (
                getattr(request, "trials", 0),
                getattr(request, "seeds", 0),
            )
