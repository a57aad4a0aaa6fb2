"""A finished audit grows: another level, a set by hand; the same numbers as had they been asked
from the start."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from engine.audit.jobs import check
from engine.audit.request import Growth
from engine.audit.verification import verify_run
from engine.core.errors import RequestError
from engine.report.bundle import export_run
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.hand_sets import tried
from engine.report.verdict import TAKE, verdict
from engine.store.runs import Run, Store, where
from engine.tracks.language_models.growing import grow
from engine.tracks.language_models.predicted import heads_at, heads_beside, most_heads, stops
from engine.tracks.language_models.run import run_audit
from tests.builders import seal
from tests.tracks.language_models.worlds import world_request

METHODS = ("fasp", "magnitude", "random_noncritical")
LEVELS = (0.0, 0.1, 0.3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("world")


@pytest.fixture(scope="module")
def run(words_judged_here, folder) -> Run:
    return run_audit(
        world_request(folder, methods=METHODS, sparsities=LEVELS), Store(folder / "store")
    )


@pytest.fixture(scope="module")
def whole(run, folder) -> Run:
    """The audit that asked one level more from the start."""
    return run_audit(
        world_request(folder, methods=METHODS, sparsities=(*LEVELS, 0.25)), Store(folder / "store")
    )


@pytest.fixture
def store(run, copy, tmp_path) -> Store:
    """A store with the run and none of its shards: everything is computed again."""
    return Store(tmp_path)


def growth(run: Run, **asked: object) -> Growth:
    return Growth(**{"track": "language_models", "run": run.id, "axis": "religion", **asked})


@pytest.mark.parametrize("method", METHODS)
def test_a_level_added_is_to_the_bit_that_of_an_audit_which_asked_it_from_the_start(
    run, whole, store, method
):
    found = grow(growth(run, method=method, level=0.25, axes=("nationality", "religion")), store)
    assert lookup.levels(found, method, "religion") == [0.0, 0.1, 0.25, 0.3]
    mine = found.table("variants").query("sparsity == 0.25")["variant"].tolist()
    assert len(mine) == {"random_noncritical": 2}.get(method, 1)
    for name, order in (
        ("results", ["axis", "metric"]),
        ("groups", ["axis", "metric", "group"]),
        ("variants", []),
    ):
        tables = []
        for one in (found, whole):
            table = one.table(name)
            rows = table[table["variant"].isin(mine)].sort_values(
                ["variant", *order], ignore_index=True
            )
            tables.append(rows)
        pd.testing.assert_frame_equal(*tables)
    assert texts_of(found, mine).equals(texts_of(whole, mine))
    assert verify_run(found)["ok"] and found.added[0].meta["notes"] == []


def texts_of(run: Run, variants: list[str]) -> pd.DataFrame:
    table = run.table("generations").merge(run.table("texts"), on="text_id", validate="many_to_one")
    table = table[table["variant"].isin(variants)].drop(columns="text_id")
    return table.sort_values(["variant", "axis", "seed", "prompt_id"], ignore_index=True)


def test_protected_heads_are_left_on_and_the_next_ones_are_cut(run):
    plain = heads_at(run, "magnitude", "religion", 0.25)
    assert heads_beside(run, "magnitude", "religion", 0.25, ()) == plain and len(plain) == 3
    found = heads_beside(run, "magnitude", "religion", 0.25, {plain[0]})
    longer = heads_at(run, "magnitude", "religion", 4 / 12)
    assert found == tuple(unit for unit in longer if unit != plain[0]), "the fourth takes its place"
    assert heads_beside(run, "magnitude", "religion", 0.25, set(range(11))) == (11,), (
        "as far as it can cut"
    )


def test_the_same_asked_again_is_found_and_another_axis_adds_only_that(run, store):
    asked = growth(run, method="fasp", level=0.25)
    first = grow(asked, store)
    assert grow(asked, store).additions == first.additions
    both = grow(replace(asked, axes=("religion", "nationality")), store)
    assert [one.meta["asked"]["axes"] for one in both.added] == [["religion"], ["nationality"]]
    assert not both.table("variants")["variant"].duplicated().any()
    assert not both.table("results").duplicated(["variant", "split", "axis", "metric"]).any()


def test_a_set_by_hand_is_first_measured_on_validation_and_counts_as_reported_after_test(
    run, store
):
    assert tried(run) == 0
    cut = tuple(
        json.loads(
            run.table("variants").query("method == 'magnitude' and sparsity == 0.3").iloc[0]["cut"]
        )
    )
    one = grow(growth(run, units=cut, name="mine"), store)
    rows = one.table("results").query("variant == 'by-hand-mine'")
    assert set(rows["split"]) == {"validation"} and {"religion", ""} == set(rows["axis"])
    assert rows[rows["metric"].isin(["bias:group_means", "perplexity"])]["delta"].notna().all()
    assert "by-hand-mine" not in lookup.methods(one)
    shown = one.table("prompts").set_index("prompt_id")["split"]
    mine = one.table("generations").query("variant == 'by-hand-mine'")
    assert (shown.loc[mine["prompt_id"]] == "validation").all() and (
        mine["split"] == "validation"
    ).all()
    dense = one.table("results").query("variant == 'dense' and split == 'validation'")
    assert set(dense["axis"]) == {"religion", ""} and verify_run(one)["ok"]

    two = grow(growth(run, units=cut, name="mine", split="test"), store)
    own = two.table("results")
    test = where(own, variant="by-hand-mine", split="test")
    same = own[(own["variant"] == "magnitude-s0.300") & own["axis"].isin(["religion", ""])]
    drop = ["variant"]
    pd.testing.assert_frame_equal(
        test.drop(columns=drop).reset_index(drop=True),
        same.drop(columns=drop).reset_index(drop=True),
    )
    assert "by-hand-mine" in lookup.methods(two, "religion") and tried(two) == 1
    again = grow(growth(run, units=(7,)), store)
    assert tried(again) == 2 and again.table("variants")["variant"].is_unique
    assert "by-hand-mine" in set(lookup.reported(again)["variant"])


def test_stops_are_every_number_of_heads_and_finished_levels_keep_their_place(run):
    found = stops(run, "fasp", "religion")
    assert [one.n_cut for one in found] == list(range(10)) and most_heads(
        run, "fasp", "religion"
    ) == 9
    assert {one.n_cut: one.level for one in found if one.finished} == {0: 0.0, 1: 0.1, 3: 0.3}
    assert found[2].level == pytest.approx(2 / 12)
    assert [len(heads_at(run, "fasp", "religion", one.level)) for one in found[1:]] == list(
        range(1, 10)
    )
    assert most_heads(run, "magnitude", "religion") == 11
    chosen = run.table("variants").query(
        "method == 'fasp' and target_axis == 'religion' and sparsity == 0.3"
    )
    assert list(heads_at(run, "fasp", "religion", 0.3)) == json.loads(chosen["cut"].item())


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"method": "fasp", "level": 0.9}, "between 1 and 9 of 12"),
        ({"method": "fasp", "level": 0.01}, "between 1 and 9 of 12"),
        ({"method": "fasp", "level": 1.5}, "between 1 and 9 of 12"),
        ({"method": "fasp", "level": -0.1}, "between 1 and 9 of 12"),
        ({"method": "by hand", "level": 0.2}, "fasp"),
        ({"method": "gradient", "level": 0.2}, "Known: fasp, magnitude"),
        ({"method": "fasp", "level": 0.2, "split": "validation"}, "on test prompts"),
        ({"method": "fasp", "level": 0.2, "axes": ("age",)}, "'age' is not known"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_loads(run, store, asked, words):
    with pytest.raises(RequestError, match=words):
        check(growth(run, **asked), store)
    assert not (store.root / "additions").exists() and not (store.root / "shards").exists()


def test_levels_that_are_one_to_three_decimals_are_refused(whole, folder):
    with pytest.raises(RequestError, match="to three decimals"):
        check(growth(whole, method="fasp", level=0.2496), Store(folder / "store"))


def test_all_heads_may_be_cut_where_the_model_can(run, store):
    found = grow(growth(run, units=tuple(range(12)), split="test"), store)
    assert found.table("variants")["realised"].max() == 1.0 and verify_run(found)["ok"]


def test_a_run_that_would_be_another_today_does_not_grow(run, store, copy):
    renamed = copy.path.with_name("0000000000000000")
    copy.path.rename(renamed)
    seal(renamed, {**run.meta, "id": renamed.name})
    with pytest.raises(RequestError, match="Audit again"):
        grow(replace(growth(run, units=(1,)), run=renamed.name), store)


def test_an_audit_whose_text_is_not_here_grows_without_a_perplexity(words_judged_here, tmp_path):
    """Others' texts are not embedded beside the figures."""
    store = Store(tmp_path / "store")
    asked = world_request(tmp_path, methods=("fasp", "int8"), max_corpus_tokens=400)
    run = run_audit(asked, store)
    (text := Path(run.meta["request"]["corpus"])).rename(text.with_suffix(".away"))
    found = grow(growth(run, method="fasp", level=0.2), store)
    new = found.table("variants").query("sparsity == 0.2")["variant"].item()
    rows = where(found.table("results"), variant=new, split="test").set_index("metric")
    assert pd.isna(rows.loc["perplexity", "value"])
    assert rows.loc[f"bias:{run.meta['request']['reading']}", "value"] >= 0
    assert [note for one in found.added for note in one.meta["notes"]] == [
        f"Perplexity was not measured: this audit read {run.meta['corpus']['name']}, which is not"
        " on this machine."
    ]
    assert all(check["ok"] for check in verify_run(found)["checks"])
    choice = Choice("fasp", "religion", 0.2)
    assert verdict(found, choice).cost.startswith("Perplexity was not measured.")
    assert verdict(found, choice).advice.answer != TAKE
    int8 = found.table("variants").query("method == 'int8'")["variant"].item()
    assert export_run(found, tmp_path / "out", ("checkpoint",), variant=int8)
    text.with_suffix(".away").rename(text)
