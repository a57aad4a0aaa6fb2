"""Numbers and verdicts in words, and as one says them aloud."""

import math

import numpy as np
import pytest
from scipy import stats

from engine.audit.measurements import latency_row
from engine.core import words
from engine.report import phrasing


@pytest.mark.parametrize(
    ("value", "perplexity", "text"),
    [
        (0.41149, False, "0.411"),
        (-0.246, False, "−0.246"),
        (3.7291, True, "3.73"),
        (41.06, False, "41.1"),
        (1.496, False, "1.50"),
        (411.2, False, "411"),
        (5000, False, "5000"),
        (12_345.0, True, "12.3k"),
        (800_000, False, "800k"),
        (1_234_567, False, "1.23M"),
        (2.1e-6, False, "2.1 × 10⁻⁶"),
        (2.5e11, True, "2.5 × 10¹¹"),
        (0.0, False, "0"),
        (math.nan, False, "not measured"),
        (math.inf, True, "infinite"),
    ],
)
def test_number(value, perplexity, text):
    assert phrasing.number(value, perplexity) == text


@pytest.mark.parametrize(
    ("low", "high", "kind"),
    [
        (-0.2, -0.1, "fell"),
        (0.1, 0.2, "rose"),
        (-0.1, 0.1, "unclear"),
        (0.0, 0.1, "unclear"),
        (math.nan, 1, "unknown"),
    ],
)
def test_a_direction_needs_an_interval_without_zero(low, high, kind):
    assert phrasing.direction({"delta_low": low, "delta_high": high}) == kind


def test_one_of_many_groups_needs_more_than_an_interval_of_its_own():
    row = {"delta": 0.182, "delta_low": 0.022, "delta_high": 0.342}
    assert [phrasing.direction(row, among) for among in (1, 4)] == ["rose", "unclear"]
    wide, alone = stats.t(10).isf([0.025 / 4, 0.025])
    clear = {**row, "delta_low": 0.182 * (1 - 0.99 * alone / wide)}
    assert phrasing.direction(clear, 4) == "rose"


@pytest.mark.parametrize(
    ("low", "high", "kind"),
    [
        (1.0, 1.05, "unclear"),
        (1.05, 1.09, "faster"),
        (0.96, 0.99, "unclear"),
        (0.8, 0.9, "slower"),
        (math.nan, math.nan, "unknown"),
    ],
)
def test_a_pace_inside_what_the_dense_model_gives_against_itself_is_none(low, high, kind):
    timed = lambda low, high: {  # noqa: E731
        "speedup": (low + high) / 2,
        "speedup_low": low,
        "speedup_high": high,
        "n": 25,
    }
    assert phrasing.pace(timed(low, high), timed(0.97, 1.01)) == kind


@pytest.mark.parametrize("rounds", [5, 15])
def test_equal_models_are_seldom_called_faster_or_slower(rounds):
    drawn, found = np.random.default_rng(1), []
    for _ in range(600):
        ratios = np.exp(drawn.normal(0, 0.1, (2, rounds)))
        rows = [latency_row(np.ones(rounds), one) for one in ratios]
        found.append(phrasing.pace(*rows) != "unclear")
    assert np.mean(found) <= 0.05


def test_a_change_that_would_be_found_counts_the_noise_of_the_items_that_turn():
    row = {"delta": 0.0, "delta_low": -0.05, "delta_high": 0.05, "n": 60}
    error, q = 0.05 / stats.t.isf(0.025, 10), stats.t.isf(0.025 / 4, 10) + phrasing.FOUR_OF_FIVE
    found = phrasing.smallest_seen(row, 4, 1.0)
    assert found == pytest.approx(q * math.sqrt(error**2 + found * (1 - found) / 60))
    assert phrasing.smallest_seen(row, 4) == pytest.approx(q * error) and q * error < found


def change(delta, low=math.nan, high=math.nan):
    return phrasing.change({"delta": delta, "delta_low": low, "delta_high": high})


NAMES = ["“a”", "“b”", "“c”", "“d”"]
SAID = {
    "+0.012, 95 % interval −0.020 to 0.050, which includes zero": change(0.012, -0.02, 0.05),
    "+0.012, no interval: too few prompts": change(0.012),
    "change not measured": phrasing.change({"delta": math.nan}),
    "no clear change, ±0.330": change(1.8e-5, -0.32, 0.34),
    "+1.8 × 10⁻⁵, 95 % interval 1 × 10⁻⁵ to 3 × 10⁻⁵": change(1.8e-5, 1e-5, 3e-5),
    "no change": change(0.0, 0.0, 0.0),
    "−0.0003": phrasing.number(-0.000291),
    "0.00, 0.00, −0.30": ", ".join(map(phrasing.correlation, (-0.001, 0.0, -0.3))),
    "a and b": phrasing.listing("ab"),
    "a, b and 2 more": phrasing.listing("abcd", 3),
    "3.1 %": phrasing.percent(0.03125),
    "20 %": phrasing.percent(0.2),
    "0.47, 2.2, 0.085, 0.997, −0.25, 42, 1.0, not measured": ", ".join(
        map(phrasing.short, (0.4651, 2.178, 0.0852, 0.9966, -0.25, 42.4, 1.0, math.nan))
    ),
    "0.901, 0.900": ", ".join(phrasing.apart(0.9012, 0.8996)),
    "0.5 million, 0.17 million, 53,000, 1.1 billion": ", ".join(
        map(phrasing.millions, (502_272, 172_866, 53_000, 1_100_000_000))
    ),
    "1.5 %, 8.3 %, 67 %, 5 %": ", ".join(map(phrasing.per_cent, (0.0154, 0.083, 0.672, -0.05))),
    "raises x by 5 % and y, and widens z": phrasing.verbs(
        [("raises", "x by 5 %"), ("raises", "y"), ("widens", "z")]
    ),
    "raises x for “a”, and y": phrasing.verbs([("raises", "x for “a”"), ("raises", "y")]),
    "all four groups": phrasing.who(NAMES, 4, 3, 4),
    "all four judged groups": phrasing.who(NAMES, 9, 3, 4),
    "four of nine groups": phrasing.who(NAMES, 9, 3, 8),
    "“a” and “b”": phrasing.who(NAMES[:2], 2, 3, 2),
    "small": words.model_name("/home/me/models/small"),
    "EleutherAI/gpt-neo-125m": words.model_name("EleutherAI/gpt-neo-125m"),
}
"""What is to be read, and what makes it: small and clear is no noise, and no correlation is a
negative zero."""


def test_what_is_to_be_read():
    assert {text: said for text, said in SAID.items() if text != said} == {}
