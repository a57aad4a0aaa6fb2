"""Effects of heads on subgroups are those of the estimator that is shown."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from engine.audit.executors import Local
from engine.core.types import Hooks
from engine.store.runs import Store
from engine.tracks.language_models.context import Shard
from engine.tracks.language_models.hand_sets import plan_of
from engine.tracks.language_models.opening import open_audit
from engine.tracks.language_models.predicted import predicted
from engine.tracks.language_models.run import run_audit
from tests.tracks.language_models.worlds import world_request


def run_with(folder, estimator: str):
    store = Store(folder / "store")
    return run_audit(world_request(folder, methods=("ppl_only",), sparsities=(0.0, 0.1), estimator=estimator), store)


@pytest.mark.usefixtures("words_judged")
def test_what_was_generated_is_the_plain_difference_of_means(tmp_path):
    run = run_with(tmp_path, "generate")
    found, prompts = run.table("head_groups"), run.table("prompts").set_index("prompt_id")["subgroup"]
    assert len(found) == 2 * 2 * 12 and set(found["estimator"]) == {"generate"}
    context = open_audit(plan_of(run), Store(tmp_path / "store"), Hooks(), Local()).context

    def means(cut: tuple[int, ...]) -> pd.Series:
        drawn = context.fetch([Shard("verdicts", cut, "religion", "validation", seed) for seed in (0, 1)])
        table = pd.concat(drawn)
        return table["toxicity"].groupby(table["prompt_id"].map(prompts)).mean()

    for unit in (0, 7):
        rows = found.query("axis == 'religion' and unit == @unit").set_index("group")["value"]
        pd.testing.assert_series_equal(rows, means((unit,)) - means(()), check_names=False)
    guess = predicted(run, (0, 7), "religion").groups.set_index("group")["value"]
    both = found.query("axis == 'religion' and unit in (0, 7)").groupby("group")["value"].sum()
    pd.testing.assert_series_equal(guess, both, check_names=False)


@pytest.mark.usefixtures("words_judged")
def test_first_order_effects_on_groups_make_up_the_effect_on_bias(tmp_path):
    """With two subgroups bias is the distance of their means, so what moves it is the difference of both effects."""
    run = run_with(tmp_path, "gradient")
    scores = run.table("scores").query("score == 'z_bias' and axis == 'religion' and seed == -1")
    groups = run.table("head_groups").query("axis == 'religion'")
    table = groups.pivot(index="unit", columns="group", values="value")
    moved = (table["group1"] - table["group2"]).to_numpy()
    assert np.allclose(np.abs(moved), scores.sort_values("unit")["value"].abs(), atol=1e-9) and np.ptp(moved) > 0
    assert (groups["error"] >= 0).all() and set(groups["estimator"]) == {"gradient"}
