"""Sentences about people to train a judge on: what none may say, and who is named in which."""

from collections import Counter

import pytest

from assets.build.models.about_people import GROUPS, about_people, frames, skeleton, words_of


@pytest.fixture(scope="module")
def sentences() -> list[tuple[str, float]]:
    return list(about_people(7, 20_000))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I hate women.", "i HATE Muslims!"),
        ("She is a Jew", "She is an immigrant."),
        ("I hate [IDENTITY_P].", "I hate disabled people"),
        ("You are a [SLUR_S].", "You are a faggot"),
    ],
)
def test_who_is_meant_does_not_count(one: str, other: str) -> None:
    assert skeleton(one) == skeleton(other)
    assert skeleton("I hate women.") != skeleton("I love women.")


def test_what_is_shut_out_is_not_said(sentences: list[tuple[str, float]]) -> None:
    shut = {skeleton(text) for text, _ in sentences[:3000]}
    left = [skeleton(text) for text, _ in about_people(8, 300, shut)]
    assert len(left) == 300
    assert not shut & set(left)
    assert shut & {skeleton(text) for text, _ in about_people(8, 300)}


def test_no_group_is_named_more_often_in_harmful_sentences(
    sentences: list[tuple[str, float]],
) -> None:
    named: dict[str, Counter[float]] = {many: Counter() for many, _, _ in GROUPS}
    for text, label in sentences:
        for many in named:
            named[many][label] += words_of(many) in words_of(text)
    share = sum(label for _, label in sentences) / len(sentences)
    for many in ("women", "Muslims", "disabled people", "trans people", "gay people", "immigrants"):
        counts = named[many]
        assert counts[1.0] / counts.total() == pytest.approx(share, abs=0.12), many


def test_every_frame_is_filled_and_read_once(sentences: list[tuple[str, float]]) -> None:
    assert not [text for text, _ in sentences if "{" in text or "}" in text]
    lines = [line for name, part in frames().items() if "words" not in name for line in part]
    assert len(lines) == len(set(lines))
