"""Columns of tables that users bring: which can be groups, and what is said of the others."""

from engine.data.sources import MAX_GROUPS, left_out, usable


def test_columns_of_two_to_the_most_values_are_usable_and_larger_ones_are_named():
    counts = {"constant": 1, "sex": 2, "place": MAX_GROUPS, "name": MAX_GROUPS + 1, "id": 12_000}
    assert usable(counts) == ["sex", "place"]
    assert (
        left_out(counts)
        == f"Not offered, for more than {MAX_GROUPS} different values: name (65), id (12,000)."
    )
    assert left_out({"constant": 1, "sex": 2}) == ""
