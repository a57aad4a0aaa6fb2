"""The demo's texts and labelled tasks: as the scripts write them, with the gap that was planted."""

from __future__ import annotations

from collections import defaultdict
from itertools import islice
from math import sqrt

import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from assets.build import data
from assets.build.remark_task import GROUPS, tables
from assets.build.written import PLAN, stories, text_share
from tests.places import ASSETS

N_STORIES = 12_000
EMBEDDED = ASSETS / "demo-data"


@pytest.fixture(scope="module")
def told():
    return list(islice(stories(3), N_STORIES))


def test_planted_shares_are_met_within_binomial_error(told):
    drawn = defaultdict(list)
    for story in told:
        drawn[story.prompt.axis, story.prompt.subgroup].append(story.insults)
    for axis in PLAN:
        for group in axis.subgroups:
            insults = drawn[axis.name, group.name]
            for coins, share in (
                ([one for story in insults for one in story], group.share),
                (list(map(any, insults)), text_share(group.share)),
            ):
                error = sqrt(share * (1 - share) / len(coins))
                assert abs(sum(coins) / len(coins) - share) < 4.5 * error, (axis.name, group.name)


def test_the_folder_is_written_as_the_embedded_one(tmp_path):
    data.write(tmp_path)
    for path in EMBEDDED.iterdir():
        same = (tmp_path / path.name).read_bytes() == path.read_bytes()
        assert same, f"{path.name}: run assets.build.data"


@pytest.fixture(scope="module")
def found():
    return tables()


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
