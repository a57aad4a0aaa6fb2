"""A finished audit grows: another level, a set by hand; the same numbers as had they been asked
from the start. By the command, and by what the resident engine is asked."""

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from engine.audit import measure
from engine.audit.jobs import check
from engine.audit.verification import verify_run
from engine.cli import main
from engine.core.errors import RequestError
from engine.report.bundle import export_run
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.verdict import TAKE, verdict
from engine.resident.asks import answer_here
from engine.resident.warm import Warm
from engine.store.runs import EMBEDDED, Run, Store, where
from engine.tracks.language_models.growing import grow
from engine.tracks.language_models.predicted import heads_at, heads_beside, most_heads, stops
from engine.tracks.language_models.run import run_audit
from tests.builders import call, seal
from tests.tracks.language_models.worlds import growth, world_request

LEVELS = (0.0, 0.1, 0.3)


@pytest.fixture(scope="module")
def run(audited, words_judged_here) -> Run:
    return audited.run


@pytest.fixture(scope="module")
def whole(audited, words_judged_here, tmp_path_factory) -> Run:
    """The audit that asked one level more from the start."""
    asked = world_request(audited.folder, sparsities=(*LEVELS, 0.25))
    return run_audit(asked, audited.copied(tmp_path_factory.mktemp("whole") / "store"))


@pytest.fixture
def store(run, copy, tmp_path) -> Store:
    """A store with the run and none of its shards: everything is computed again."""
    return Store(tmp_path)


def test_levels_added_are_to_the_bit_those_of_an_audit_which_asked_them_from_the_start(
    run, whole, store
):
    for method, drawn in {"fasp": 1, "magnitude": 1, "random_noncritical": 2}.items():
        axes = ("nationality", "religion")
        found = grow(growth(run, method=method, level=0.25, axes=axes), store)
        assert lookup.levels(found, method, "religion") == [0.0, 0.1, 0.25, 0.3]
        added = found.table("variants").query("sparsity == 0.25 and method == @method")
        mine = added["variant"].tolist()
        assert len(mine) == drawn
        for name, order in {
            "results": ["axis", "metric"],
            "groups": ["axis", "metric", "group"],
            "variants": [],
        }.items():
            tables = (one.table(name) for one in (found, whole))
            rows = (table[table["variant"].isin(mine)] for table in tables)
            order = ["variant", *order]
            pd.testing.assert_frame_equal(
                *(part.sort_values(order, ignore_index=True) for part in rows)
            )
        assert texts_of(found, mine).equals(texts_of(whole, mine))
    assert verify_run(found)["ok"] and not any(one.meta["notes"] for one in found.added)


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


def test_a_set_by_hand_has_the_numbers_of_the_variant_that_cuts_it(run, store, tmp_path):
    """Added to the audit, and measured beside it from an empty store; before test on validation
    prompts alone."""
    cut = tuple(heads_at(run, "magnitude", "religion", 0.3))
    one = grow(growth(run, units=cut, name="mine"), store)
    split = one.table("prompts").set_index("prompt_id")["split"]
    mine = one.table("generations").query("variant == 'by-hand-mine'")
    assert (split.loc[mine["prompt_id"]] == "validation").all()
    grown = grow(growth(run, units=cut, name="mine", split="test"), store).table("results")
    beside = measure(run, [divmod(unit, 4) for unit in cut], tmp_path / "another")
    own = run.table("results")
    for name, same, found, axes in (
        ("by-hand-mine", "magnitude-s0.300", where(grown, split="test"), ("religion", "")),
        ("by hand", "magnitude-s0.300", beside, ("nationality", "religion", "")),
        ("dense", "dense", beside, ("nationality", "religion", "")),
    ):
        rows = (
            table[table["axis"].isin(axes)].query("variant == @of").drop(columns="variant")
            for table, of in ((found, name), (own, same))
        )
        pd.testing.assert_frame_equal(*(one.reset_index(drop=True) for one in rows))


def test_heads_that_are_not_there_are_refused(run, tmp_path):
    for cut, said in (([(3, 0)], "outside 3 layers x 4 heads"), ([(1, 0), (1, 0)], "named twice")):
        with pytest.raises(RequestError, match=said):
            measure(run, cut, tmp_path / "store")


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


def test_levels_that_are_one_to_three_decimals_are_refused(whole):
    with pytest.raises(RequestError, match="to three decimals"):
        check(growth(whole, method="fasp", level=0.2496), Store(whole.path.parents[1]))


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
    few = {"axes": ("religion",), "seeds": 1, "controls": 0, "max_corpus_tokens": 400}
    asked = world_request(tmp_path, methods=("fasp", "int8"), **few)
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


def test_the_command_says_what_was_predicted_and_measured(run, copy, tmp_path, capsys):
    words = ["measure", run.id, "--store", str(tmp_path)]
    assert main([*words, "--method", "magnitude", "--sparsity", "0.25", "--all-axes"]) == 0
    said = capsys.readouterr().out
    assert "magnitude-s0.250, 3 cut, religion" in said and "change of bias" in said
    assert "predicted" in said and "measured" in said and "fewer than the 39" in said
    for split, more in (("validation", []), ("test", ["--split", "test"])):
        code, told = call(capsys, *words, "--heads", "0.1, 2.3", *more, "--json")
        assert (code, told["split"]) == (0, split)
        bias = next(row for row in told["rows"] if row["number"] == "change of bias")
        assert bias["predicted_low"] <= bias["predicted"] <= bias["predicted_high"]
        assert bias["measured"] is not None
    code, told = call(capsys, "runs", "verify", run.id, "--store", tmp_path)
    assert code == 0 and told.count("has the bytes that were written") > 3


def test_another_track_says_that_it_cannot(tmp_path, capsys):
    store = Store(EMBEDDED, read_only=True)
    other = next(one for one in store.ids() if store.open(one).meta["track"] == "text_classifiers")
    assert main(["measure", other, "--store", str(tmp_path), "--sparsity", "0.5"]) == 2
    assert "start the audit again with" in " ".join(capsys.readouterr().err.split())


def test_asked_twice_the_model_is_loaded_once(run, copy, tmp_path):
    warm = Warm()

    def ask(**given):
        given = {"run": run.id, "axis": "religion", **given}
        return answer_here("measure", given, Store(tmp_path), warm=warm)

    one, two = ask(method="magnitude", level=0.25), ask(units=[0, 7], name="mine")
    assert len(warm.names()) == 2 and all(kept["hits"] for kept in warm.listed())
    assert one["added"] != two["added"] and two["variants"] == {"by-hand-mine": [[0, 0], [1, 3]]}
    again = ask(method="magnitude", level=0.25)
    assert again["added"] is None and again["rows"] == one["rows"]
    with pytest.raises(RequestError, match="'depth' is not known"):
        ask(depth=3)
