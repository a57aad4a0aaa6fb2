"""Columns declared once: a table shows those it has, under titles and with values for people."""

import pandas as pd

from engine.report.charts.cost import as_change, direction, q_said, verdict_on
from engine.report.schema import group_or, readable, title_of
from engine.report.tracks import Measure


def test_a_table_for_people_has_the_columns_it_knows_in_their_order():
    table = pd.DataFrame({"value": [0.5], "method": ["fasp"], "group": [""], "_place": [3]})
    shown = readable(table, "method group value p", group=group_or("all texts"), value="share")
    assert shown.columns.tolist() == ["method", "subgroup", "share"]
    assert shown.iloc[0].tolist() == ["FASP", "all texts", 0.5]
    assert table["method"].tolist() == ["fasp"], "the run's own table stays as it is"


def test_a_title_follows_from_the_value_that_a_column_belongs_to():
    assert title_of("delta_low") == "change low" and title_of("gap_target") == "accuracy gap stated"
    assert title_of("total_examples") == "examples in all" and title_of("seed") == "seed"


def test_a_difference_is_claimed_by_its_interval_and_its_q():
    row = {"value": 0.2, "low": 0.1, "high": 0.3, "q": 0.01}
    assert direction(row) == "rose" and direction({**row, "q": 0.2}) == "by chance"
    assert direction({**row, "low": -0.1}) == "unclear", (
        "an interval with zero claims nothing, whatever q says"
    )
    assert q_said(row) == "q = 0.010" and q_said({**row, "q": float("nan")}) == ""
    assert as_change(row) == {"delta": 0.2, "delta_low": 0.1, "delta_high": 0.3}


def test_helping_depends_on_which_way_is_better():
    rose = {"value": 0.2, "low": 0.1, "high": 0.3}
    assert verdict_on(Measure("accuracy"), rose) == "helps"
    assert verdict_on(Measure("accuracy_gap"), rose) == "harms"
    assert verdict_on(Measure("accuracy"), {**rose, "high": float("nan")}) == "unclear"
