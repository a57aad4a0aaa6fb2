"""A Taylor descent that lost the result of one target comes out the same: its path depends on all its targets."""

from __future__ import annotations

import numpy as np

from engine.audit.executors import Local
from engine.audit.image_request import validate_images
from engine.audit.image_run import open_image_audit
from engine.metrics.image_bench import ImageShard
from engine.store.runs import Store
from engine.types import Hooks
from tests.image_worlds import image_request


def test_a_descent_that_lost_one_target_ends_where_it_ended(tmp_path):
    settings = {"taylor": {"count": 20, "every": 1}}
    plan = validate_images(image_request(methods=("taylor",), speedups=(2.0, 16.0), method_settings=settings))
    bench = open_image_audit(plan, Store(tmp_path), Hooks(), Local()).bench
    shards = [ImageShard("chosen", "taylor", "plain", speedup, 0) for speedup in (2.0, 16.0)]
    bench.fetch(shards)
    before = bench.fetch_arrays(shards[1])[0]
    bench.keeper.path(bench.key(shards[1])).unlink()
    after = bench.fetch_arrays(shards[1])[0]
    assert all(np.array_equal(before[name], after[name]) for name in before)
