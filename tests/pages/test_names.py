"""Names that users give are never taken for a name of the program's own."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from engine.report.charts.columns import group_or


def of_changed_items():
    import pandas as pd

    from pages.tabs import changed

    changed._filters(pd.DataFrame({"group": ["(all)", "female"], "kind": ["wrong", "right"]}), 8)


def test_a_subgroup_of_any_name_is_no_choice_of_all_subgroups():
    at = AppTest.from_function(of_changed_items).run()
    assert not at.exception
    assert at.selectbox[0].options == ["All subgroups", "(all)", "Female"]


def test_a_group_that_is_called_as_all_items_are_stands_in_quotes():
    said = group_or("all")
    assert [said(name) for name in ("", "all", "All", "age")] == ["all", "“all”", "“All”", "age"]
