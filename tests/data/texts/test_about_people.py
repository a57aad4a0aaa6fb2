"""Sentences about people to train a judge on: what none may say, and who is named in which."""

import pytest

from assets.build.models.about_people import about_people, skeleton


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
