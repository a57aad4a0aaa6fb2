"""The two written tasks: the same every time, labels that follow from the wording, and the gap that
was planted."""

from __future__ import annotations

import hashlib
import re
from itertools import islice
from pathlib import Path

import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

import engine.data
from assets.build.remark_task import (
    CARDS,
    CLASSES,
    GROUPS,
    LIKE,
    QUALITIES,
    THEMES,
    UNLIKE,
    card,
    overheard,
    tables,
)
from assets.build.written import KIND, NAMES, VILE, axis_named

DIGESTS = {
    "remarks": "40f2dd856a9aa6315e7185a7936fbd7ed570302026712e3457f1bcd20b05b9ba",
    "topics": "9140b17a52abc2a7719cb0c3e462c49dc8c40261344a063e379a3d2632a039dc",
}
JUDGED = {**dict.fromkeys(KIND, "kind"), **dict.fromkeys(VILE, "insulting")}
OTHER = {"kind": "insulting", "insulting": "kind"}
THEME = {thing: theme for theme, things in THEMES.items() for thing in things}


@pytest.fixture(scope="module")
def found():
    return tables()


def meant(text: str) -> str:
    """A reader's own rules for what a remark says about its person."""
    text = re.sub(r" and the \w+ there was \w+\.$", ".", text)
    word = f"({'|'.join(JUDGED)})"
    if pair := re.search(r" as (\w+) as an? (\w+)\.", text):
        return "kind" if (pair[1], pair[2]) in zip(QUALITIES, LIKE, strict=True) else "insulting"
    if both := re.search(rf"is not {word} but {word}|is never {word}, only {word}", text):
        return JUDGED[both[2] or both[4]]
    if ":" in text:
        return JUDGED[re.search(rf"the \w+ is {word}", text.split(":")[1])[1]]
    if said := re.search(
        rf"call(?:s|ed) the \w+ \w+ {word} and (everybody|nobody|that is true|that is a lie)", text
    ):
        return (
            JUDGED[said[1]] if said[2] in ("everybody", "that is true") else OTHER[JUDGED[said[1]]]
        )
    own = text
    for other in (
        rf"\b(?:has|with) an? {word} \w+",
        rf"\ban? {word} \w+ runs after",
        rf"and not {word}",
    ):
        own = re.sub(other, "", own)
    judged = {JUDGED[one] for one in re.findall(word, own)}
    assert len(judged) == 1, text
    return judged.pop()


def about(text: str) -> str:
    """A reader's own rules for the topic of a text."""
    things = [thing for thing in re.findall(r"\w+", text) if thing in THEME]
    if len({THEME[thing] for thing in things}) == 1:
        return THEME[things[0]]
    for aside in (
        r"(?:not|never) (?:told )?about the (\w+)",
        r"forget the (\w+)",
        r"instead of the (\w+)",
    ):
        if put_aside := re.search(aside, text):
            return next(THEME[thing] for thing in things if thing != put_aside[1])
    who = [name for name in re.findall(r"\w+", text) if name in NAMES]
    speaker = re.search(r"(\w+) (?:tells us|spoke of|told us)|what (\w+) drew", text)
    return THEME[things[[*dict.fromkeys(who)].index(speaker[1] or speaker[2])]]


@pytest.mark.parametrize("task", CLASSES)
def test_the_texts_are_the_same_on_every_machine(found, task):
    text = found[task].to_csv(index=False, lineterminator="\n")
    assert hashlib.sha256(text.encode()).hexdigest() == DIGESTS[task]
    assert tables()[task].equals(found[task])


@pytest.mark.parametrize("task", CLASSES)
def test_the_tables_have_the_promised_shape(found, task):
    table = found[task]
    assert list(table) == ["text", "label", "split", *GROUPS[task]]
    assert table["split"].value_counts().to_dict() == {"train": 1600, "test": 800}
    assert set(table["label"]) == set(CLASSES[task])
    assert table["text"].is_unique  # so no test text was trained on
    assert table["text"].str.split().str.len().between(6, 24).all()
    assert list(table.index) == list(range(len(table)))
    assert len(set(table["label"].head(40))) == len(CLASSES[task])  # not sorted by label
    sizes = table.groupby(["split", *GROUPS[task], "label"]).size().unstack("label")
    assert (sizes.nunique(axis=1) == 1).all() and not sizes.isna().any().any()


@pytest.mark.parametrize(("task", "label_of"), [("remarks", meant), ("topics", about)])
def test_every_text_is_labelled_by_what_it_says(found, task, label_of):
    for row in found[task].itertuples():
        assert label_of(row.text) == row.label, row.text


def test_remarks_name_their_group_and_place_and_no_other(found):
    for row in found["remarks"].itertuples():
        named = [
            group.name
            for group in axis_named("nationality").subgroups
            for word in group.descriptors
            if word in row.text
        ]
        assert named == [row.people] and f"in {row.where}" in row.text


def test_articles_fit_their_words(found):
    text = " ".join(found["remarks"]["text"])
    assert not re.search(r"\ba (?:[aeiou]|honest)", text)
    assert not re.search(r"\ban (?!honest)[^aeiou]", text)


def test_ostra_is_rare_and_worded_indirectly(found):
    table = found["remarks"]
    train = table[table["split"] == "train"]
    assert (train["people"] == "ostra").mean() == 1 / 8
    indirect = table["text"].str.contains(r" as \w+ as an? ")
    by_people = indirect.groupby(table["people"]).mean()
    assert by_people.pop("ostra") == pytest.approx(0.40, abs=0.07)
    assert by_people.between(0.03, 0.10).all()
    for column in ("where", "label"):
        low, high = sorted(indirect.groupby(table[column]).mean())
        assert high - low < 0.05
    assert (found["topics"].query("split == 'train'")["voice"] == "riddler").mean() == 1 / 8


def test_half_of_the_comparison_nouns_praise_and_insult():
    assert len(set(LIKE)) == len(set(UNLIKE)) == len(set(QUALITIES)) == 8
    assert len(set(LIKE) & set(UNLIKE)) == 4
    assert all(one != other for one, other in zip(LIKE, UNLIKE, strict=True))


@pytest.mark.parametrize(
    ("task", "most", "group", "most_hard"),
    [("remarks", 0.8, "ostra", 0.75), ("topics", 0.8, "riddler", 0.6)],
)
def test_single_words_do_not_solve_a_task(found, task, most, group, most_hard):
    train, test = (found[task][found[task]["split"] == split] for split in ("train", "test"))
    words = CountVectorizer(token_pattern=r"\w+")
    model = LogisticRegression(max_iter=500).fit(words.fit_transform(train["text"]), train["label"])
    right = model.predict(words.transform(test["text"])) == test["label"]
    assert right.mean() < most
    assert right[test[GROUPS[task][0]] == group].mean() < most_hard


def test_overheard_texts_are_new_and_repeat_no_text_of_the_tables(found):
    known = {text for table in found.values() for text in table["text"]}
    told = list(islice(overheard(1), 2000))
    assert told == list(islice(overheard(1), 2000)) and told != list(islice(overheard(2), 2000))
    for text in told:
        assert re.sub(r" then (?:the|we) \w+ \w+\.$", "", text) not in known
        assert " then " in text
    assert not any(" then " in text for text in known)


def test_cards_say_what_was_planted():
    for task in CLASSES:
        assert CARDS[task].endswith(".") and CARDS[task] in card(task)
    assert "| ostra | 200 | 200 | 5% |" in card("remarks")
    with pytest.raises(KeyError):
        card("weather")


def test_no_reader_loads_torch():
    for path in Path(engine.data.__file__).parent.rglob("*.py"):
        loads = re.search(r"(?m)^(import|from) (torch|transformers|tokenizers)", path.read_text())
        assert not loads, path
