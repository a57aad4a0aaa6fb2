"""Figures of FASP: their requests hold up, runs are read beside the paper, published scores give
its numbers."""

from __future__ import annotations

import copy
import shutil
from types import SimpleNamespace

import pytest
from pandas.testing import assert_series_equal

from engine.audit.experiments import ExperimentAsk, table_of
from engine.tracks.language_models.experiments.paper import unlike_paper
from engine.tracks.language_models.request import REQUEST
from tests.experiment_checks import QUICK, of_paper
from tests.places import SHARED
from tests.tracks.language_models.made_up_run import make_run

PUBLISHED = SHARED / "fasp_head_scores"
FOUND = of_paper("FASP")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("store"))


def test_every_figure_is_there():
    assert {one.figure for one in FOUND.values()} == {f"Fig. {number}" for number in range(1, 6)}
    assert not FOUND["fasp-fig1"].computes


def test_quick_requests_are_one_audit():
    assert [one.requests(QUICK) for one in FOUND.values() if one.computes] == [[REQUEST]] * 4


def test_the_papers_scale_asks_for_the_papers_settings(tmp_path):
    texts = {"corpus": str(tmp_path / "test.txt"), "validation_corpus": str(tmp_path / "valid.txt")}
    ask = ExperimentAsk(data=str(tmp_path), **texts)
    several = FOUND["fasp-fig2"].requests(ask)
    assert {name: getattr(several[0], name) for name in texts} == texts
    assert [one.model for one in several][:2] == ["distilgpt2", "gpt2"] and len(several) == 6
    one = several[0]
    assert (one.top_k, one.estimator, len(one.sparsities)) == (50, "generate", 11)
    assert several[:3] == FOUND["fasp-fig5"].requests(ask), (
        "figures of the same models share their audits"
    )
    assert several[5].axes == ("gender_and_sex",)
    assert "WikiText" in str(FOUND["fasp-fig2"].faults(ExperimentAsk(data=str(tmp_path)))[0])


def test_what_a_run_shares_with_the_papers_protocol_is_not_named(run):
    meta = copy.deepcopy(run.meta)
    meta["prompts"]["own_split"], meta["request"]["validation_corpus"] = True, "valid.txt"
    others = SimpleNamespace(meta=meta, request=meta["request"])
    ours, papers = (unlike_paper(one, ["gpt2"]) for one in (run, others))
    for name in ("validation prompts", "validation text"):
        assert name in ours and name not in papers


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="needs the published head scores")
def test_published_scores_give_the_numbers_that_the_paper_prints():
    ask = ExperimentAsk(data=str(PUBLISHED))
    for name in ("fasp-fig3", "fasp-fig4"):
        one = FOUND[name]
        assert one.faults(ask) == [] and one.requests(ask) == []
        assert all(panel.has_chart for panel in one.panels([], ask))
    told = table_of(FOUND["fasp-fig3"].read([], ask))
    printed = told[told["paper"].notna()]
    assert printed["paper"].tolist() == printed["ours"].tolist() == [5, 4, 1]
    gpt2 = table_of(FOUND["fasp-fig4"].read([], ask))
    assert len(gpt2) == 3 * 20 and gpt2["low"].lt(gpt2["ours"]).all()
    pair = gpt2[gpt2["what"].str.startswith("gpt2: correlation of nationality and sexual")]
    assert pair["ours"].round(2).tolist() == [0.86, 0.43] and pair["low"].lt(0.4).all(), (
        "Fisher's interval begins at .81"
    )


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="needs the published head scores")
def test_means_over_seeds_do_where_a_folder_has_only_these(tmp_path):
    shutil.copy(PUBLISHED / "head_contributions.json", tmp_path)
    means, seeds = (
        table_of(FOUND["fasp-fig4"].read([], ExperimentAsk(data=str(at))))
        for at in (tmp_path, PUBLISHED)
    )
    assert means["seeds"].isna().all() and seeds["seeds"].eq(3).all()
    (fault,) = FOUND["fasp-fig4"].faults(ExperimentAsk(data=str(tmp_path), model="gpt2-xl"))
    assert "no published scores of gpt2-xl" in fault.what
    assert_series_equal(*(one.set_index("what")["ours"].sort_index() for one in (means, seeds)))


def test_a_folder_without_scores_is_said(tmp_path):
    (fault,) = FOUND["fasp-fig3"].faults(ExperimentAsk(data=str(tmp_path)))
    assert "no published scores of gpt2" in fault.what
