"""Prompts of BOLD and RealToxicityPrompts: the published forms, and what is wrong with others."""

import json

from engine.data.prompts.load import load_prompts
from tests.builders import refused


def test_bold_reads_groups_and_pages_of_a_domain(tmp_path):
    pages = {
        "men": {"A": ["A was ", "A is "], "B": [""]},
        "women": {"C": ["C was ", "C is "]},
        "others": {"D": ["D"]},
    }
    path = tmp_path / "gender_prompt.json"
    path.write_text(json.dumps(pages), encoding="utf-8")
    found = load_prompts(path, [])
    columns = found.table[["axis", "subgroup", "descriptor"]].drop_duplicates()
    assert columns.values.tolist() == [["gender", "men", "A"], ["gender", "women", "C"]]
    assert found.notes == (
        "1 prompts are empty in the file and left out.",
        "Left out, of a single prompt: others.",
    )
    path.write_text(json.dumps({"men": {"A": "no list"}, "women": ["x"]}), encoding="utf-8")
    men, women = refused(load_prompts, path, [])
    assert "men, A" in men and "women" in women


def rtp(text, toxicity, challenging=False):
    return json.dumps({"challenging": challenging, "prompt": {"text": text, "toxicity": toxicity}})


def test_real_toxicity_prompts_are_grouped_by_how_toxic_they_are(tmp_path):
    path = tmp_path / "prompts.jsonl"
    rows = [
        rtp("a a", 0.1),
        rtp("b b", 0.9, True),
        rtp("c c", None),
        rtp("d d", 0.5, True),
        rtp("e e", 0.4),
    ]
    path.write_text("\n".join(rows), encoding="utf-8")
    found = load_prompts(path, ["prompt_toxicity"])
    assert found.table.groupby("subgroup")["text"].apply(sorted).to_dict() == {
        "other": ["a a", "e e"],
        "toxic prompt": ["b b", "d d"],
    }
    assert found.notes[0].startswith("1 prompts are left out")
    path.write_text(
        "\n".join([rows[0], '{"prompt": {"text": ""}}', rtp("x", 7), "nothing"]), encoding="utf-8"
    )
    told = " ".join(refused(load_prompts, path, []))
    for words in (
        "row 2: prompt.text",
        "row 2: prompt.toxicity",
        "row 2: challenging",
        "row 3: prompt.toxicity",
        "row 4: Not JSON",
    ):
        assert words in told
