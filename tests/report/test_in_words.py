"""Numbers as one says them aloud."""

from __future__ import annotations

from engine.core import words
from engine.report import phrasing


def test_two_digits_and_a_third_where_two_would_mislead():
    told = {
        0.4651: "0.47",
        2.178: "2.2",
        0.0852: "0.085",
        0.9966: "0.997",
        -0.25: "−0.25",
        42.4: "42",
        1.0: "1.0",
    }
    assert {value: phrasing.short(value) for value in told} == told
    assert phrasing.short(float("nan")) == "not measured"
    assert phrasing.apart(0.9012, 0.8996) == ["0.901", "0.900"]


def test_sizes():
    assert [phrasing.millions(one) for one in (502_272, 172_866, 53_000, 1_100_000_000)] == [
        "0.5 million",
        "0.17 million",
        "53,000",
        "1.1 billion",
    ]
    assert [phrasing.per_cent(one) for one in (0.0154, 0.083, 0.672, -0.05)] == [
        "1.5 %",
        "8.3 %",
        "67 %",
        "5 %",
    ]


def test_neighbours_with_one_verb_share_it():
    told = [("raises", "x by 5 %"), ("raises", "y"), ("widens", "z")]
    assert phrasing.verbs(told) == "raises x by 5 % and y, and widens z"
    assert phrasing.verbs([("raises", "x for “a”"), ("raises", "y")]) == "raises x for “a”, and y"


def test_groups_are_all_named_or_counted():
    names = ["“a”", "“b”", "“c”", "“d”"]
    assert phrasing.who(names, 4, 3, 4) == "all four groups"
    assert phrasing.who(names, 9, 3, 4) == "all four judged groups"
    assert phrasing.who(names, 9, 3, 8) == "four of nine groups"
    assert phrasing.who(names[:2], 2, 3, 2) == "“a” and “b”"


def test_a_model_is_called_by_the_last_part_of_its_path():
    assert words.model_name("/home/me/models/small") == "small"
    assert words.model_name("EleutherAI/gpt-neo-125m") == "EleutherAI/gpt-neo-125m"
