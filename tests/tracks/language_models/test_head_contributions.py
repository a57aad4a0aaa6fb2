"""head_contributions.json of the published code: read, written, and every way in which it can be
wrong."""

from __future__ import annotations

import json

import numpy as np
import pytest

from engine.cli import main
from engine.core.errors import RequestError
from engine.core.types import POOLED
from engine.tracks.language_models.panels.correlations import wide_scores
from engine.tracks.language_models.panels.heads import pooled_scores
from engine.tracks.language_models.published_scores import (
    FILE,
    MEANS_ONLY,
    contributions,
    load_published,
    published_findings,
)
from tests.places import SHARED
from tests.tracks.language_models.made_up_run import make_run

SCORES = SHARED / "fasp_head_scores"
needs_scores = pytest.mark.skipif(
    not SCORES.is_dir(), reason="the published FASP scores are not beside this checkout"
)


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
    assert (
        scores.seeds == 0 and set(scores.table["seed"]) == {POOLED} and MEANS_ONLY in scores.notes
    )


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
    z_ppl = pooled_scores(run, "z_ppl")["value"].to_numpy()
    assert np.allclose(np.diff(scores.ppl_after()), -np.diff(z_ppl))


def test_the_level_without_a_head_is_dense_minus_its_effect(run):
    (lists,) = contributions(run).values()
    results = run.table("results").query("variant == 'dense' and split == 'validation'")
    if results.empty:
        results = run.table("results").query("variant == 'dense' and split == 'test'")
    dense = float(results.query("metric == 'perplexity'")["value"].iloc[0])
    assert np.allclose(lists["cont_to_ppl"], dense - pooled_scores(run, "z_ppl")["value"])


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
