"""Numbers as one says them aloud."""

from __future__ import annotations

import pytest

from engine.report import in_words


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
    assert {value: in_words.short(value) for value in told} == told
    assert in_words.short(float("nan")) == "not measured"
    assert in_words.apart(0.9012, 0.8996) == ["0.901", "0.900"]


def test_sizes():
    assert [in_words.millions(one) for one in (502_272, 172_866, 53_000, 1_100_000_000)] == [
        "0.5 million",
        "0.17 million",
        "53,000",
        "1.1 billion",
    ]
    assert [in_words.per_cent(one) for one in (0.0154, 0.083, 0.672, -0.05)] == [
        "1.5 %",
        "8.3 %",
        "67 %",
        "5 %",
    ]


RATIOS = {
    0.05: "nine tenths",
    0.2: "three quarters",
    0.47: "more than halves",
    0.5: "about halves",
    0.7: "by about 30 %",
    0.96: "by about 4 %",
}


@pytest.mark.parametrize("ratio", RATIOS)
def test_what_a_ratio_means(ratio):
    assert RATIOS[ratio] in in_words.fell_by(ratio)


def test_what_a_rise_means():
    assert (
        in_words.rose_by(2.2) == "more than doubles"
        and in_words.rose_by(1.3) == "enlarges by about 30 %"
    )


def test_a_model_is_called_by_the_last_part_of_its_path():
    assert in_words.model("/home/me/models/small") == "small"
    assert in_words.model("EleutherAI/gpt-neo-125m") == "EleutherAI/gpt-neo-125m"
