"""Scores that others published: read with all their faults, the paper's findings and figures in
them, and head_contributions.json of the published code written too."""

import copy
import json
from types import SimpleNamespace

import numpy as np
import pytest

from engine.audit.experiments import ExperimentAsk, table_of
from engine.cli import main
from engine.core.errors import RequestError
from engine.core.types import POOLED
from engine.tracks.language_models.experiments.paper import unlike_paper
from engine.tracks.language_models.panels.correlations import wide_scores
from engine.tracks.language_models.panels.heads import pooled_scores
from engine.tracks.language_models.published_scores import (
    FILE,
    MEANS_ONLY,
    all_findings,
    contributions,
    load_published,
    published_findings,
)
from engine.tracks.language_models.request import REQUEST
from tests.experiment_checks import QUICK, of_paper
from tests.places import SHARED
from tests.tracks.language_models.made_up_run import make_run

SCORES = SHARED / "fasp_head_scores"
needs_scores = pytest.mark.skipif(
    not SCORES.is_dir(), reason="the published FASP scores are not beside this checkout"
)
THREE = ("distilgpt2", "gpt2", "EleutherAI_gpt-neo-125M")
HEADER = "Group,Bias,Model,Head id,Method,Seed,Split,PPL\n"


def findings(name):
    return all_findings(load_published([SCORES / f"head_scores_{name}.csv"]))


@needs_scores
@pytest.mark.parametrize("name", THREE)
def test_gender_goes_with_three_axes_and_not_with_religion(name):
    row = findings(name)["correlation"]["gender_and_sex"]
    assert min(row[axis] for axis in ("race_ethnicity", "nationality", "sexual_orientation")) > 0.7
    assert row["religion"] < 0.2
    if name == "distilgpt2":
        assert row["religion"] < 0


@needs_scores
def test_the_top_heads_of_gpt2():
    found = findings("gpt2")
    assert all(len(heads) == 28 for heads in found["top_heads"].values())
    assert len(found["top_heads"]) == 5
    assert [head for head, count in found["in_axes"].items() if count == 5] == [136]
    assert [head for head, count in found["in_axes"].items() if count == 4] == [133]
    assert len(found["selection"]["critical"]) == 43
    for heads in found["selection"]["heads"].values():
        assert len(heads) == 28 and not set(heads) & set(found["selection"]["critical"])
    json.dumps(found, allow_nan=False)


def test_algorithm_1_by_hand(tmp_path):
    # Ten heads; 1 and 2 are critical (perplexity), 3 and 4 leave the lowest bias among the others.
    rows = [
        f"kin,{bias},m,{head},None,1,valid,{ppl}"
        for head, bias, ppl in [
            (1, 0.0, 99),
            (2, 0.1, 98),
            (3, 0.2, 5),
            (4, 0.3, 5),
            *((h, 0.9, 5) for h in range(5, 11)),
        ]
    ]
    (tmp_path / "m.csv").write_text(HEADER + "\n".join(rows))
    (scores,) = load_published([tmp_path / "m.csv"])
    found = published_findings(scores, gamma=0.2, share=0.2)
    assert found["top_heads"] == {"kin": [1, 2]}
    chosen = {
        "gamma": 0.2,
        "share": 0.2,
        "ties": "index",
        "critical": [1, 2],
        "heads": {"kin": [3, 4]},
    }
    assert found["selection"] == {**chosen, "tied": {"protected": 0, "cut_otherwise": {"kin": 0}}}
    assert found["icc"] == {"kin": None}
    with pytest.raises(RequestError, match="above 1"):
        published_findings(scores, gamma=0.9, share=0.2)
    with pytest.raises(RequestError, match=r"outside \[0, 1\)"):
        published_findings(scores, gamma=-1, share=0.2)


def test_float_ids_none_as_a_word_and_files_of_one_model(tmp_path):
    one, two = tmp_path / "a.csv", tmp_path / "b.csv"
    one.write_text(
        HEADER
        + "kin,.4,m,1.0,None,1,valid,9\nkin,.2,m,2.0,None,1,valid,8\nkin,9,m,1.0,None,1,test,9\n"
    )
    two.write_text(
        HEADER
        + "job,.1,m,1,None,1,valid,9\njob,.3,m,2,None,1,valid,8\njob,.5,m,None,None,1,valid,8\n"
    )
    (scores,) = load_published([one, two])
    assert scores.wide().to_dict() == {"job": {1: -0.1, 2: -0.3}, "kin": {1: -0.4, 2: -0.2}}
    assert scores.ppl_after().to_dict() == {1: 9.0, 2: 8.0}
    assert scores.n_heads == 2
    assert scores.shape is None


def test_published_faults_are_listed_together(tmp_path):
    one, two = tmp_path / "a.csv", tmp_path / "b.csv"
    one.write_text(
        HEADER + "kin,x,distilgpt2,1.5,None,1,valid,9\nkin,.2,distilgpt2,73,None,1,valid,8\n"
    )
    two.write_text("Group,Bias\nkin,1\n")
    with pytest.raises(RequestError) as caught:
        load_published([one, two, tmp_path / "gone.csv"])
    text = str(caught.value)
    for said in (
        "1 values are not whole",
        "1 values are not numbers",
        "Head 73 of distilgpt2, which has 72",
        "Columns missing",
        "no such",
    ):
        assert said in text
    two.write_text(HEADER + "kin,.4,m,1,None,1,valid,9\n" * 2)
    with pytest.raises(RequestError, match="repeated"):
        load_published([two])


def file_of(folder, content) -> str:
    path = folder / FILE
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("run"))


def test_places_count_from_0_and_other_lists_are_passed_over(tmp_path):
    lists = {
        "cont_to_kin_bias": [0.4, 0.2, 0.3],
        "cont_to_ppl": [9, 8, 7.5],
        "magnitude_l2_structured": ["?"],
    }
    (scores,) = load_published(
        [file_of(tmp_path, {"m": lists, "norms only": {"magnitude_l2_structured": [1]}})]
    )
    assert scores.wide()["kin"].to_dict() == {1: -0.4, 2: -0.2, 3: -0.3}
    assert scores.ppl_after().to_list() == [9, 8, 7.5]
    assert scores.seeds == 0
    assert set(scores.table["seed"]) == {POOLED}
    assert MEANS_ONLY in scores.notes


@needs_scores
def test_the_published_file_holds_the_means_of_the_published_tables():
    models = {scores.model: scores for scores in load_published([SCORES / FILE])}
    (tables,) = load_published([SCORES / "head_scores_distilgpt2.csv"])
    means = models["distilgpt2"]
    assert np.allclose(means.wide(), tables.wide()) and list(means.wide()) == list(tables.wide())
    here, there = (published_findings(scores)["selection"] for scores in (means, tables))
    assert here["heads"] == there["heads"] and here["critical"] == there["critical"]
    assert (
        "gender_and_sex: 383 of 384 heads have a score." in models["facebook/opt-350m"].notes
    )  # NaN in the file
    assert "bert-base-cased" not in models
    with pytest.raises(RequestError, match="distilgpt2: in a CSV file seed by seed"):
        load_published([SCORES / FILE, SCORES / "head_scores_distilgpt2.csv"])


def test_an_audit_goes_out_and_comes_back_in(run, tmp_path):
    (scores,) = load_published([file_of(tmp_path, contributions(run))])
    back, sent = scores.wide(), wide_scores(run)
    assert scores.model == run.meta["model"]["name"] and set(back) == set(sent)
    for axis in sent:
        shift = (
            back[axis].to_numpy() - sent[axis].to_numpy()
        )  # minus the dense level, the same for every head
        assert np.ptp(shift) < 1e-12 and shift[0] < 0
    results = run.table("results").query("variant == 'dense' and metric == 'perplexity'")
    dense = results.set_index("split")["value"]["validation"]
    assert np.allclose(scores.ppl_after(), dense - pooled_scores(run, "z_ppl")["value"])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[1, 2]", ["not models by name"]),
        ("{", ["Not JSON"]),
        ("[" * 100_000, ["Not JSON"]),
        ({"kin": [1, 2]}, ["'kin' holds no lists by name", "mask.json"]),
        ({"m": {"magnitude": [1]}}, ["No model has scores of bias"]),
        ({"m": {"cont_to_kin_bias": [0.1, 0.2]}}, ["cont_to_ppl is missing"]),
        (
            {
                "distilgpt2": {
                    "cont_to_kin_bias": [0.1] * 73,
                    "cont_to_ppl": [0.1] * 71,
                    "cont_to_job_bias": "x",
                },
                "m": {"cont_to_kin_bias": [None, True, 0.5], "cont_to_ppl": [1.5, 2, float("inf")]},
                "n": {
                    "cont_to_kin_bias": [5, 1, 3],
                    "cont_to_ppl": [7.5] * 9,
                    "cont_to_job_bias": [7.5] * 9,
                },
            },
            [
                "73 numbers for 72 heads",
                "leave out what stands before the first",
                "71 numbers for 72 heads",
                "Not a list of numbers",
                "2 values are not numbers, the first at place 0",
                "the first at place 2",
                "numbers of heads, where a level per head is expected",
            ],
        ),
        (
            f'{{"m": {{"cont_to_kin_bias": [1{"0" * 999}, 2.5], "cont_to_ppl": [1.5, 2]}}}}',
            ["values are not numbers"],
        ),
    ],
)
def test_all_faults_at_once(tmp_path, content, said):
    with pytest.raises(RequestError) as caught:
        load_published([file_of(tmp_path, content)])
    assert [text for text in said if text not in str(caught.value)] == []


def test_the_commands_write_it_and_read_it(run, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        "engine.cli.export.refuse_unsound", lambda *given, **options: None
    )  # its numbers are made up
    there = ["--store", str(run.path.parent.parent)]
    assert (
        main(["export", run.id, "--to", str(tmp_path), "--what", "head_contributions", *there]) == 0
    )
    assert main(["import-scores", str(tmp_path / FILE)]) == 0
    assert "means over seeds" in capsys.readouterr().out


FOUND = of_paper("FASP")


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


@needs_scores
def test_published_scores_give_the_numbers_that_the_paper_prints():
    ask = ExperimentAsk(data=str(SCORES))
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


def test_a_folder_without_scores_is_said(tmp_path):
    (fault,) = FOUND["fasp-fig3"].faults(ExperimentAsk(data=str(tmp_path)))
    assert "no published scores of gpt2" in fault.what
