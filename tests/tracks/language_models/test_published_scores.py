"""The checks on published score files."""

from __future__ import annotations

import pytest

from engine.core.errors import RequestError
from engine.tracks.language_models.published_scores import load_published

HEADER = "Group,Bias,Model,Head id,Method,Seed,Split,PPL\n"


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
    assert (
        scores.ppl_after().to_dict() == {1: 9.0, 2: 8.0}
        and scores.n_heads == 2
        and scores.shape is None
    )


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
