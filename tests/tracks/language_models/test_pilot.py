"""What a pilot can say, and that a head none of whose few new texts came out otherwise says
nothing."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from engine.tracks.language_models import pilot


def table(*drawn: float) -> pd.DataFrame:
    """A pilot of 60 texts: reweight with an error of .02 for four heads, generate with errors
    `drawn` for the first."""
    rows = [("reweight", unit, 0.02, 1.0) for unit in range(4)] + [
        ("gradient", unit, 0.02, 0.1) for unit in range(4)
    ]
    rows += [("generate", unit, error, 2.0) for unit, error in enumerate(drawn)]
    return pd.DataFrame(rows, columns=["estimator", "unit", "error", "seconds"]).assign(
        ess=0.9, effective=50.0, n=60
    )


def test_heads_of_which_no_text_turned_neither_cost_nothing_nor_have_intervals_of_no_width():
    still = table(0.0, 1e-9)
    assert (
        math.isnan(pilot.widths_for(still, 60)["generate"])
        and pilot.widths_for(still, 60)["reweight"] > 0
    )
    assert pilot.cheapest(still, 0.3) == "reweight"


def test_only_heads_of_which_some_text_turned_are_compared():
    some, one = table(0.0, 0.04), table(0.04)
    for name in ("reweight", "generate"):
        assert pilot.cost(some, name) == pytest.approx(pilot.cost(one, name))
        assert pilot.widths_for(some, 60)[name] == pytest.approx(pilot.widths_for(one, 60)[name])
    assert pilot.widths_for(some, 60)["generate"] == pytest.approx(
        2 * pilot.widths_for(some, 60)["reweight"]
    )
