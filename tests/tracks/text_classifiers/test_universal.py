"""Masks of one task on another: what is trained, what is said, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from engine.cli import main
from engine.core.errors import RequestError
from engine.report.charts.panel import Choice
from engine.store.runs import Store
from engine.tracks.text_classifiers.run import run_text_audit
from engine.tracks.text_classifiers.universal import (
    QUESTION,
    Ask,
    line_of,
    tasks_of,
    universal,
    universal_masks,
    universal_panel,
)
from tests.builders import call
from tests.tracks.text_classifiers.worlds import colour_csv, text_request, text_world

ARM = "one-shot-isp:magnitude"
ASK = Ask(ARM, 0.25, 2)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = text_world(tmp_path_factory.mktemp("world"))
    colour_csv(folder / "more.csv", train=36, test=30)
    store = Store(folder / "store")
    asked = {
        "methods": (ARM,),
        "sparsities": (0.25,),
        "leave_one_out": False,
        "keep_weights": "none",
    }
    runs = [
        run_text_audit(text_request(folder, data=str(folder / name), **asked), store)
        for name in ("colours.csv", "more.csv")
    ]
    return store, runs


@pytest.fixture(scope="module")
def table(world):
    store, runs = world
    return universal(runs, ASK, store)


def test_every_mask_meets_every_task_and_own_masks_are_the_audits(world, table):
    _, runs = world
    names = [run.meta["data"]["name"] for run in runs]
    assert set(table["mask"]) == {*names, "random 1", "random 2"} and set(table["task"]) == set(
        names
    )
    assert len(table) == 8 and table["own"].sum() == 2 and set(table["n_seeds"]) == {3}
    for run, task in zip(runs, names, strict=True):
        own = table[(table["mask"] == task) & (table["task"] == task)].iloc[0]
        level = run.table("ticket_levels").query("axis == ''").iloc[0]
        result = (
            run.table("results")
            .query(f"variant == '{ARM}-25%' and metric == 'accuracy' and axis == ''")
            .iloc[0]
        )
        for name in ("mean", "std", "full_mean"):
            assert own[name] == pytest.approx(level[name])
        assert own["word"] == (level["word"] if own["doubt"] == "" else "")
        assert [own[f"delta{end}"] for end in ("", "_low", "_high")] == pytest.approx(
            [result[f"delta{end}"] for end in ("", "_low", "_high")]
        )


def test_random_masks_are_the_null_of_the_tasks_own(table):
    own = table[table["n_random"] > 0]
    assert (
        set(own["n_random"]) == {2}
        and own["p"].between(1 / 3, 1).all()
        and own["percentile"].between(0, 1).all()
    )
    assert table[table["mask"].str.startswith("random")]["p"].isna().all()


def test_universal_is_matching_everywhere_and_nothing_with_few_seeds():
    table = pd.DataFrame(
        {
            "mask": ["a", "a", "b", "b", "c", "c"],
            "word": ["winning", "winning", "winning", "no", "", ""],
        }
    )
    assert universal_masks(table) == {"a": True, "b": False, "c": None}


def test_a_second_time_nothing_is_trained(world, table, monkeypatch):
    store, runs = world
    monkeypatch.setattr("engine.tracks.text_classifiers.measurements.tuned.Tuned.compute", None)
    assert_frame_equal(universal(runs, ASK, store), table)


def test_a_full_model_at_chance_is_matched_by_nothing(world, monkeypatch):
    store, runs = world
    monkeypatch.setattr(
        "engine.tracks.text_classifiers.universal.at_chance", lambda *_: "it is at chance"
    )
    table = universal(runs, ASK, store)
    assert set(table["word"]) == {""} and set(table["doubt"]) == {"it is at chance"}
    assert set(universal_masks(table).values()) == {None}


def test_each_mask_is_drawn_with_its_change_and_ranked_among_enough_random_masks(table):
    panel = universal_panel(table, universal_masks(table), Choice("", "", 0.0))
    assert len(panel.parts) == table["task"].nunique() and "No rank among 2" in panel.caveat
    for part, (_, rows) in zip(panel.parts, table.groupby("task", sort=False), strict=True):
        own, chance = [trace for trace in part.data if trace.x[0] is not None]
        assert [*own.x, *chance.x] == rows["delta"].tolist(), "own masks first, then random ones"
        assert [*own.y, *chance.y] == [0, 1, 2, 2]
        assert np.isfinite(own.error_x.array).all() and np.isnan(chance.error_x.array).all()
    assert panel.table["p"].isna().all()
    many = table.assign(n_random=table["n_random"].mask(table["n_random"] > 0, 19))
    again = universal_panel(many, universal_masks(many), Choice("", "", 0.0))
    assert (
        again.table["p"].tolist() == pytest.approx(table["p"].tolist(), nan_ok=True)
        and "No rank" not in again.caveat
    )
    assert "of 19 random masks, p = " in line_of(many.iloc[0]) and "p = " not in line_of(
        table.iloc[0]
    )


def test_all_faults_at_once(world, tmp_path):
    _, runs = world
    with pytest.raises(RequestError) as caught:
        tasks_of([runs[0]], Ask("isp:michel", 0.25, -1))
    for said in ("needs two tasks", "below 0", "isp:michel"):
        assert said in str(caught.value)
    with pytest.raises(RequestError, match="0.9 was not cut"):
        tasks_of(runs, Ask(ARM, 0.9))
    with pytest.raises(RequestError, match="the same task"):
        tasks_of([runs[0], runs[0]], ASK)


def test_the_command_prints_what_it_wrote(world, table, tmp_path, capsys):
    store, runs = world
    asked = f"--method {ARM} --sparsity 0.25 --store {store.root}"
    words = ["universal", *(run.id for run in runs), *asked.split()]
    assert main([*words, "--out", str(tmp_path / "u.csv")]) == 0
    said = capsys.readouterr().out
    assert ("on every task" in said and "Of 2 random masks" in said) != (
        "nothing is called universal" in said
    )
    assert len(pd.read_csv(tmp_path / "u.csv")) == 8 and "No rank among 2 random masks" in said
    assert "percentile" not in said
    assert main([*words, "--out", str(tmp_path / "u.html")]) == 0
    page = (tmp_path / "u.html").read_text(encoding="utf-8")
    assert QUESTION in page and '"dark":' in page and all(run.id in page for run in runs)
    capsys.readouterr()
    _, found = call(capsys, *words, "--json")
    assert set(found["universal"]) == set(table["mask"]) and len(found["rows"]) == 8
