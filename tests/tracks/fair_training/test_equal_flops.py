"""A whole audit at equal FLOPs with controls in BiFP's widths: what is cut, compared, verified and
said."""

from typing import Any

import numpy as np
import pytest

from engine.store.runs import Run, Store, where
from engine.tracks.fair_training.request import FairRequest
from engine.tracks.fair_training.run import run_fair_audit
from engine.tracks.fair_training.summary import recomputed
from tests.tracks.fair_training.worlds import fair_request

DRAWS, SEEDS = 2, 2
REQUEST = fair_request(
    methods=("bifp-str", "bifp-widths-random", "bifp-widths-fpgm", "pf"),
    equal="FLOPs",
    seeds=SEEDS,
    method_settings={"bifp-widths-random": {"draws": DRAWS}},
    train=None,
    model="demo-resnet",
    keep_weights="none",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    return run_fair_audit(REQUEST, Store(tmp_path_factory.mktemp("equal")))


def test_controls_have_the_widths_of_their_seed_and_other_filters(run):
    variants, layers = run.table("variants").set_index("variant"), run.table("layers")
    kept = layers.pivot(index="variant", columns="group", values="kept")
    for number in range(SEEDS * DRAWS):
        found = kept.loc[f"bifp-widths-random-50%#{number}"]
        assert (found == kept.loc[f"bifp-str-50%#{number % SEEDS}"]).all()
    masks = [
        variants.loc[f"bifp-widths-random-50%#{number}", "mask_digest"]
        for number in range(SEEDS * DRAWS)
    ]
    assert len(set(masks)) == SEEDS * DRAWS


def test_draws_of_a_seed_are_averaged_before_seeds_are_compared(run):
    table = run.table("arm_differences")
    mine = where(table, method="bifp-widths-random", metric="accuracy", axis="")
    (row,) = mine.to_dict("records")
    results = run.table("results")
    accuracy = where(results, metric="accuracy", axis="").set_index("variant")["value"]
    control = np.mean(
        [accuracy[f"bifp-widths-random-50%#{number}"] for number in range(SEEDS * DRAWS)]
    )
    base = np.mean([accuracy[f"bifp-str-50%#{number}"] for number in range(SEEDS)])
    assert row["value"] == pytest.approx(control - base) and row["n_trials"] == SEEDS
    assert {"accuracy", "accuracy_gap", "tpr_gap", "degradation_gap"} == set(table["metric"])


def test_it_verifies_and_notices_a_cut_that_costs_more(run, tmp_path):
    seeds = run.table("variants").query("seed >= 0 and units == 'filters'")
    assert all(check["ok"] for check in recomputed(run)) and seeds["met"].all()

    class Copy:
        meta, request = run.meta, run.request

        def table(self, name: str) -> Any:
            found = run.table(name)
            if name == "variants":
                found["flops"] = found["flops"].where(
                    found["variant"] != "pf-50%#0", found["flops"] * 1.01
                )
            return found

    wrong = [check["what"] for check in recomputed(Copy()) if not check["ok"]]
    assert len(wrong) == 1 and "FLOPs" in wrong[0]


def test_equal_flops_is_the_default_and_the_controls_are_trained_by_default():
    usual = FairRequest(model="demo-resnet", data="avatars", axes=("male",))
    assert usual.equal == "FLOPs" and {*REQUEST.methods} <= {*usual.methods}
