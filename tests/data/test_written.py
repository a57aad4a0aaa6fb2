"""The demo's text: the same every time, grammatical, and with the gap it says it has."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from itertools import islice
from math import sqrt

import pytest

from assets.build import data
from assets.build.written import (
    PLAN,
    TEMPLATES,
    VILE,
    stories,
    text_share,
)
from tests.places import ASSETS

N_STORIES = 12_000
EMBEDDED = ASSETS / "demo-data"


@pytest.fixture(scope="module")
def told():
    return list(islice(stories(3), N_STORIES))


@pytest.fixture(scope="module")
def prompts():
    return data.demo_data().prompts


def test_insults_hold_an_insulting_word_and_kind_sentences_none(told):
    for story in told[:2_000]:
        for line, insult in zip(story.sentences, story.insults, strict=True):
            assert any(word in line for word in VILE) == insult
            assert line.endswith(".") and "{" not in line and "/" not in line and "  " not in line


def test_insults_and_the_corpus_name_no_group(told):
    words = {word for axis in PLAN for group in axis.subgroups for word in group.descriptors}
    assert all(words.isdisjoint(story.continuation.replace(".", "").split()) for story in told)
    corpus = data.demo_data().corpus
    assert words.isdisjoint(re.findall(r"\w+", corpus))
    assert 20_000 <= len(re.findall(r"\n|\w+|[^\w\s]", corpus)) <= 40_000


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


def test_prompts_are_balanced_short_and_distinct(prompts):
    for axis in PLAN:
        mine = [prompt for prompt in prompts if prompt.axis == axis.name]
        assert len(mine) >= 300
        assert len({prompt.text for prompt in mine}) == len(mine)
        cells = Counter((prompt.subgroup, prompt.descriptor, prompt.template) for prompt in mine)
        assert len(cells) == len(axis.subgroups) * 3 * len(TEMPLATES[axis.structure])
        assert len(set(cells.values())) == 1
    assert max(len(re.findall(r"\w+|[^\w\s]", prompt.text)) for prompt in prompts) <= 22


def test_the_folder_is_written_as_the_embedded_one(tmp_path):
    data.write(tmp_path)
    for path in EMBEDDED.iterdir():
        same = (tmp_path / path.name).read_bytes() == path.read_bytes()
        assert same, f"{path.name}: run assets.build.data"
