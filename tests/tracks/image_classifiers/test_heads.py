"""Heads of a vision transformer: every method chooses some, and the audit holds."""

import numpy as np
import pytest

from engine.audit.verification import verify_run
from engine.store.runs import Store
from engine.tracks.image_classifiers.run import run_image_audit
from tests import tiny_images
from tests.tracks.image_classifiers.worlds import image_request


@pytest.mark.slow
def test_learned_and_trained_methods_choose_heads(tmp_path):
    classes = tuple(map(str, range(10)))
    folder = tiny_images.saved_by_transformers("vit", tmp_path / "vit", classes)
    methods = ("autobot", "taylor", "autobot+pw", "fpgm")
    asked = image_request(model=str(folder), methods=methods, speedups=(1.2,), trials=1)
    run = run_image_audit(asked, Store(tmp_path / "store"))
    assert verify_run(run)["ok"] and run.meta["model"]["units"] == "heads"
    variants, scores = run.table("variants"), run.table("scores")
    assert set(variants.loc[variants["seed"] >= 0, "n_cut"]) == {
        2
    }  # 1.17 x: three would be beyond 1.2 x
    assert (scores.groupby("method")["value"].nunique() > 3).all() and np.isfinite(
        scores["value"]
    ).all()
    assert not any("filter" in said for said in run.meta["warnings"])
