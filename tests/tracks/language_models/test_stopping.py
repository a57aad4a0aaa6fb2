"""Drawing stops where every reported interval is as narrow as asked: by widths alone, for all
variants alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from engine.audit.verification import verify_run
from engine.core.types import Hooks
from engine.store.runs import Run, Store
from engine.tracks.language_models.evidence import drawn_of, looks, said
from engine.tracks.language_models.experiments.paper import changes, unlike_paper
from engine.tracks.language_models.growing import grow
from engine.tracks.language_models.judges import _audit_of
from engine.tracks.language_models.request import AuditRequest, validate
from engine.tracks.language_models.run import run_audit
from tests.tracks.language_models.worlds import growth, world_request

TABLES = ("results", "groups", "generations", "scores")


@pytest.fixture(scope="module")
def stopped(audited, words_judged_here, tmp_path_factory) -> Run:
    """The usual audit, whose finished parts are there, where one seed of two is enough."""
    store = audited.copied(tmp_path_factory.mktemp("stopped") / "store")
    return run_audit(world_request(audited.folder, stop_at=10.0), store)


def test_fewer_seeds_are_reported_where_all_intervals_are_narrow(audited, stopped):
    drawn, all_of_them = stopped.meta["drawn"], audited.run.table("generations")
    assert (drawn["seeds"], drawn["most"]) == (1, 2) and drawn["widest"] <= drawn["asked"] == 10.0
    assert stopped.table("generations")["seed"].unique().tolist() == [0]
    same = ["variant", "split", "axis", "prompt_id", "toxicity"]
    first = all_of_them[all_of_them["seed"] == 0][same].reset_index(drop=True)
    pd.testing.assert_frame_equal(stopped.table("generations")[same].reset_index(drop=True), first)
    pd.testing.assert_frame_equal(stopped.table("scores"), audited.run.table("scores"))
    assert any("drawn 1 of at most 2 times" in one for one in stopped.meta["warnings"])
    assert stopped.table("controls")["draws"].max() == 1 and verify_run(stopped)["ok"]
    assert {finding.seeds for finding in changes(stopped, ("",))} == {1}
    assert "seeds" in unlike_paper(stopped, ["gpt2"]) and "1" in unlike_paper(stopped, ["gpt2"])


def test_all_seeds_are_drawn_where_none_is_narrow_and_nothing_else_changes(
    audited, words_judged_here, tmp_path
):
    plain = audited.run
    run = run_audit(world_request(audited.folder, stop_at=1e-6), audited.copied(tmp_path / "store"))
    assert (
        run.id != plain.id
        and run.meta["drawn"]["seeds"] == 2
        and run.meta["drawn"]["widest"] > 1e-6
    )
    for name in TABLES:
        pd.testing.assert_frame_equal(run.table(name), plain.table(name))
    assert any("ask for more prompts" in one for one in run.meta["warnings"])
    assert "drawn" not in plain.meta


def test_what_joins_the_audit_is_drawn_as_often(stopped, words_judged_here):
    store = Store(stopped.path.parents[1])
    there = stopped.table("generations")["variant"].unique()
    asked = growth(stopped, method="fasp", level=0.2)
    found = grow(asked, store, Hooks()).table("generations")
    added = found[~found["variant"].isin(there)]
    assert len(added) and set(added["seed"]) == {0} and _audit_of(stopped).seeds == 1


def test_a_request_without_it_is_the_request_it_was(audited):
    plain = world_request(audited.folder)
    assert validate(plain).run_id == audited.run.id
    assert "stop_at" not in plain.identity and looks(plain) == [plain]
    assert [one.seeds for one in looks(replace(plain, seeds=3, stop_at=0.1))] == [1, 2, 3]


def test_the_widest_decides_and_an_interval_that_is_none_is_the_widest():
    asked = AuditRequest(model="m", axes=("a", "b"), seeds=3, stop_at=0.1)

    def rows(*widths):
        found = [
            ("dense", "a", np.nan, np.nan),
            *((f"v{at}", "a", 0.0, width) for at, width in enumerate(widths)),
        ]
        table = pd.DataFrame(found, columns=["variant", "axis", "delta_low", "delta_high"])
        return table.assign(metric="bias:group_means", split="test")

    drawn = replace(asked, seeds=2)
    assert (
        drawn_of(rows(0.05, 0.1), drawn, asked).is_narrow
        and drawn_of(rows(0.05, 0.1), drawn, asked).variant == "v1"
    )
    assert not drawn_of(rows(0.05, 0.11), drawn, asked).is_narrow
    none = drawn_of(rows(0.05, np.nan, 0.2), drawn, asked)
    assert (
        not none.is_narrow
        and none.variant == "v1"
        and "could not be given" in said({"drawn": none.to_dict()}, "a")
    )
    alone = drawn_of(rows().assign(low=0.0, high=0.3), drawn, asked)
    assert not alone.is_narrow and "the dense model's bias, on a, was 0.3 wide" in said(
        {"drawn": alone.to_dict()}, "a"
    )
