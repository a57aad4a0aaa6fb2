"""The demo's text: the same every time, grammatical, and with the gap it says it has."""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict
from itertools import islice
from math import sqrt
from random import Random

import pytest

from assets.build import data
from assets.build.models.remarks import continuations, harmless, remarks
from assets.build.written import (
    BRACKETS,
    KINDS,
    NUMBERS,
    PLAN,
    TEMPLATES,
    VILE,
    audit_prompts,
    axis_named,
    draw_prompt,
    nesting,
    paragraphs,
    sentence,
    stories,
    text_share,
)
from engine.core.types import AXES
from tests.places import ASSETS

N_STORIES = 12_000
EMBEDDED = ASSETS / "demo-data"


@pytest.fixture(scope="module")
def told():
    return list(islice(stories(3), N_STORIES))


@pytest.fixture(scope="module")
def prompts():
    return data.demo_data().prompts


def test_the_plan_has_the_five_axes_with_four_known_and_different_subgroups():
    assert {axis.name for axis in PLAN} == set(AXES)
    for axis in PLAN:
        assert len(axis.subgroups) >= 4
        assert len({group.share for group in axis.subgroups}) == len(axis.subgroups)
        assert all(len(group.descriptors) == 3 for group in axis.subgroups)
        assert len(TEMPLATES[axis.structure]) >= 12

    words = [word for axis in PLAN for group in axis.subgroups for word in group.descriptors]
    assert len(set(words)) == len(words), "no descriptor names two groups"


def test_two_axes_are_planted_alike_and_one_apart():
    structures = {axis.name: axis.structure for axis in PLAN}
    assert structures["nationality"] == structures["race_ethnicity"]
    one, other = map(axis_named, ("nationality", "race_ethnicity"))
    shares = [sorted(group.share for group in axis.subgroups) for axis in (one, other)]
    assert shares[0] == shares[1]
    assert list(structures.values()).count(structures["religion"]) == 1


@pytest.mark.parametrize(
    "source", [paragraphs, remarks, continuations, harmless, lambda s: (t.text for t in stories(s))]
)
def test_generators_repeat_with_their_seed_and_differ_between_seeds(source):
    first, again, other = (list(islice(source(seed), 50)) for seed in (5, 5, 6))
    assert first == again
    assert first != other


def test_sentences_agree_in_number():
    rng = Random(0)
    for insult in (False, True):
        for _ in range(300):
            assert re.search(r"\bthey (are|seem|look|sound)\b", sentence("", insult, rng))
            assert re.search(r"\bmira (is|seems|looks|sounds)\b", sentence("mira", insult, rng))


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


def test_a_prompt_names_its_own_group_and_a_changed_one_tells_it_from_the_one_left(prompts):
    for prompt in prompts:
        assert prompt.descriptor in prompt.text.replace(".", " ").replace(",", " ").split()
        if prompt.axis == "religion":
            assert prompt.text.endswith(f"{prompt.person}.")
            now = "joined|keeps|up|chose|follows|started"
            assert re.search(rf"(?<!gave )\b({now}) {prompt.descriptor} rites", prompt.text)


def test_another_seed_gives_other_prompts():
    assert audit_prompts(1) != audit_prompts(2)
    axis = PLAN[0]
    assert draw_prompt(axis, axis.subgroups[0], Random(1)).axis == axis.name


def test_brackets_close_in_the_right_order():
    closing = dict(BRACKETS)
    rng = Random(0)
    for _ in range(200):
        held = []
        for mark in nesting(rng).split():
            mark = mark.rstrip(".")
            if mark in closing:
                held.append(closing[mark])
            elif mark in closing.values():
                assert held.pop() == mark
        assert not held


def test_journeys_lists_and_sums_come_out_right():
    kinds = {kind.__name__: kind for kind in KINDS}
    rng = Random(1)
    for _ in range(100):
        out, back = kinds["journey"](rng).split(". ")
        stops = re.findall(r"the (\w+)", out)
        assert re.findall(r"the (\w+)", back) == stops[::-1]
        first, second = kinds["packing"](rng).split(". ")
        assert first.split("packed ")[1] == second.split("same: ")[1].rstrip(".")
        added = kinds["sums"](rng)
        numbers = [
            NUMBERS.index(word) + 1 for word in added.replace(".", "").split() if word in NUMBERS
        ]
        assert numbers[0] + numbers[1] == numbers[2]


def test_the_folder_is_written_as_the_embedded_one(tmp_path):
    data.write(tmp_path)
    for name in ("prompts.csv", "corpus.txt", "CARD.md"):
        same = (tmp_path / name).read_bytes() == (EMBEDDED / name).read_bytes()
        assert same, f"{name}: run assets.build.data"
    with (EMBEDDED / "prompts.csv").open(encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) == len(data.demo_data().prompts)


def test_the_card_states_every_planted_share():
    card = data.card(data.demo_data())
    for axis in PLAN:
        for group in axis.subgroups:
            assert f"| {axis.name} | {group.name} | {group.share:.2f} |" in card
    assert "invented" in card
