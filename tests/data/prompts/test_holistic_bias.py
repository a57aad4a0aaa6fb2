"""HolisticBias: grammar on a folder small enough to read, sampling, and the real v1.1."""

import json

import pandas as pd
import pytest

from engine.core.errors import RequestError
from engine.data.prompts.load import load_prompts
from tests.builders import faults_of

DESCRIPTORS = {
    "gender_and_sex": {
        "binary": [{"descriptor": "female", "gender": "female"}, "manly"],
        "sex": ["intersex", {"descriptor": "XX", "article": "an"}],
    },
    "religion": {"all": ["Jewish", "Amish"]},
}
NOUNS = {"female": [["aunt", "aunts"]], "male": [["uncle", "uncles"]], "neutral": [["kid", "kids"]]}
TEMPLATES = {"I'm {noun_phrase}.": {}, "I like {plural_noun_phrase}.": {"must_be_noun": True}}


def write(folder, descriptors=DESCRIPTORS, nouns=NOUNS, templates=TEMPLATES):
    folder.mkdir(exist_ok=True)
    for name, content in (
        ("descriptors", descriptors),
        ("nouns", nouns),
        ("sentence_templates", templates),
    ):
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def test_articles_plurals_and_gendered_descriptors(tmp_path):
    table = load_prompts(write(tmp_path / "hb"), ["gender_and_sex"]).table
    assert len(table) == 2 * (1 + 3 + 3 + 3)
    texts = set(table["text"])
    assert {
        "I'm a female aunt.",
        "I'm an intersex kid.",
        "I'm an XX uncle.",
        "I like manly uncles.",
    } <= texts
    assert "I'm a female uncle." not in texts
    row = table[table["text"] == "I like manly uncles."].iloc[0]
    assert (row["subgroup"], row["descriptor"], row["template"]) == (
        "binary",
        "manly",
        "I like {plural_noun_phrase}. × uncle",
    )


def test_one_bucket_means_descriptors_are_the_subgroups(tmp_path):
    prompts = load_prompts(write(tmp_path / "hb"), ["religion"])
    assert set(prompts.table["subgroup"]) == {"Jewish", "Amish"}
    assert "religion" in prompts.notes[0] and "descriptor is a subgroup" in prompts.notes[0]


def test_sampling_does_not_depend_on_the_order_of_entries(tmp_path):
    def turned(content):
        return {
            key: turned(value) if isinstance(value, dict) else value[::-1]
            for key, value in reversed(content.items())
        }

    nouns = {gender: listed[::-1] for gender, listed in reversed(NOUNS.items())}
    one = load_prompts(write(tmp_path / "a"), ["gender_and_sex"], max_prompts=8)
    other = write(tmp_path / "b", turned(DESCRIPTORS), nouns, dict(reversed(TEMPLATES.items())))
    two = load_prompts(other, ["gender_and_sex"], max_prompts=8)
    pd.testing.assert_frame_equal(one.table, two.table)
    assert one.table.groupby("subgroup").size().to_dict() == {"binary": 4, "sex": 4}


def test_faults(tmp_path):
    with pytest.raises(RequestError, match="'age' is not known. Known: gender_and_sex, religion."):
        load_prompts(write(tmp_path / "a"), ["age"])
    with pytest.raises(RequestError, match="do not have the shape"):
        load_prompts(write(tmp_path / "b", nouns={"female": ["aunt"]}), ["religion"])
    (tmp_path / "a" / "nouns.json").unlink()
    (tmp_path / "a" / "sentence_templates.json").write_text("[")
    found = [fault.where for fault in faults_of(load_prompts, tmp_path / "a", ["religion"])]
    assert found == [str(tmp_path / "a" / "nouns.json"), "sentence_templates.json"]
