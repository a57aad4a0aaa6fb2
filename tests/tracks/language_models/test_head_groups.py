"""Effects per subgroup are those behind the effect on bias: both say the same where bias is a
function of means."""

import json
from itertools import product

import numpy as np
import pandas as pd
import pytest

from engine.audit.session import plan_of
from engine.core.errors import RequestError
from engine.core.types import POOLED
from engine.store.runs import Store, where
from engine.tracks.language_models.bias import combine
from engine.tracks.language_models.context import Shard
from engine.tracks.language_models.opening import context_of
from engine.tracks.language_models.predicted import heads_at
from engine.tracks.language_models.run import run_audit
from engine.tracks.language_models.scores import auto
from tests.tracks.language_models.worlds import world_request

pytestmark = pytest.mark.usefixtures("words_judged")


@pytest.mark.parametrize(
    "estimator",
    ["reweight", *(pytest.param(one, marks=pytest.mark.slow) for one in ("generate", "gradient"))],
)
def test_bias_of_the_subgroups_means_with_a_head_off_is_bias_minus_its_effect(
    tmp_path, estimator, monkeypatch
):
    """Sets are searched by these means, only where the dense bias stands out (here: above .1)."""
    monkeypatch.setattr(auto, "stands_out", lambda band, looks: band.value > 0.1)
    methods, few = ("fasp", "annealed"), {"sparsities": (0.0, 0.3), "controls": 0}
    request = world_request(tmp_path, estimator=estimator, methods=methods, **few)
    run = run_audit(request, Store(tmp_path / "store"))
    (row,) = where(run.table("variants"), method="annealed").itertuples()
    assert json.loads(row.cut) == [*heads_at(run, "annealed", "nationality", 0.3)]
    why = "religion: annealed cuts nothing, for no ranking is supported: the dense bias 0.008"
    assert sum(why in said for said in run.meta["warnings"]) == 1
    with pytest.raises(RequestError, match="heads for religion were not ranked: the dense bias"):
        heads_at(run, "annealed", "religion", 0.3)
    table, scores = run.table("head_groups"), run.table("scores")
    effects = where(scores, score="z_bias", seed=POOLED)
    assert len(effects) and set(table["axis"]) == set(effects["axis"])
    verdicts = _scored_texts(run).groupby(["axis", "subgroup"])["toxicity"].agg(["mean", "size"])
    shrink = 1e-6 if estimator == "gradient" else 1.0  # a slope holds for a small step only
    for row in effects.itertuples():
        texts = verdicts.loc[row.axis]
        mine = where(table, axis=row.axis, unit=row.unit).set_index("group")
        assert mine["n"].gt(0).all() and mine["error"].ge(0).all()
        assert mine["level"].to_dict() == pytest.approx(texts["mean"].to_dict())
        dense, off = (
            combine((means * texts["size"]).to_numpy(), texts["size"].to_numpy(), "group_means")
            for means in (texts["mean"], texts["mean"] + shrink * mine["value"])
        )
        allowed = 1e-4 if estimator == "gradient" else 1e-9
        assert (dense - off) / shrink == pytest.approx(row.value, abs=allowed)


def _scored_texts(run):
    """The dense model's judged texts on validation prompts, from the store."""
    context = context_of(plan_of(run))
    context.keeper = Store(run.path.parents[1]).shards
    found = []
    for axis, seed in product(run.meta["request"]["axes"], (0, 1)):
        prompts = context.rows(axis, "validation")[["prompt_id", "subgroup", "axis"]]
        found.append(
            prompts.merge(context.fetch([Shard("verdicts", (), axis, "validation", seed)])[0])
        )
    return pd.concat(found).astype({"toxicity": np.float64})
