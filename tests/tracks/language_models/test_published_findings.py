"""The findings of the FASP paper, from its own published head scores."""

import json

import pytest

from engine.core.errors import RequestError
from engine.tracks.language_models.published_scores import (
    all_findings,
    load_published,
    published_findings,
)
from tests.places import SHARED

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
    assert (
        all(len(heads) == 28 for heads in found["top_heads"].values())
        and len(found["top_heads"]) == 5
    )
    assert [head for head, count in found["in_axes"].items() if count == 5] == [136]
    assert [head for head, count in found["in_axes"].items() if count == 4] == [133]
    assert len(found["selection"]["critical"]) == 43
    for heads in found["selection"]["heads"].values():
        assert len(heads) == 28 and not set(heads) & set(found["selection"]["critical"])
    json.dumps(found, allow_nan=False)


@needs_scores
def test_single_seed_scores_of_the_large_models_do_not_repeat():
    both = [
        SCORES / f"head_scores_{name}.csv"
        for name in ("EleutherAI_gpt-neo-1.3B", "meta-llama_Llama-2-7b-chat-hf")
    ]
    models = all_findings(load_published(both))["models"]
    assert [model["model"] for model in models] == [
        "EleutherAI/gpt-neo-1.3B",
        "meta-llama/Llama-2-7b-chat-hf",
    ]
    assert all(0 < model["icc"]["gender_and_sex"] < 0.04 for model in models)


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
