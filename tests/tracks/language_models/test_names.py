"""Names of subgroups are never taken for a name of the program's own."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest


def of_texts():
    import pandas as pd

    from pages.tabs import texts

    found = pd.DataFrame({"subgroup": ["(all)", "female"], "change": [0.1, -0.2]}).assign(
        flipped=True
    )
    texts._filters(found)


def test_a_subgroup_of_any_name_is_no_choice_of_all_subgroups():
    at = AppTest.from_function(of_texts).run()
    assert not at.exception
    assert at.selectbox[0].options == ["All subgroups", "(all)", "Female"]
