"""A Taylor descent that lost the result of one target comes out the same: its path depends on all
its targets."""

import numpy as np

from engine.audit.session import Local
from engine.classifiers.images.context import ImageShard
from engine.core.types import Hooks
from engine.store.runs import Store
from engine.tracks.image_classifiers.request import validate_images
from engine.tracks.image_classifiers.run import AUDIT
from tests.tracks.image_classifiers.worlds import image_request


def test_a_descent_that_lost_one_target_ends_where_it_ended(tmp_path):
    settings = {"taylor": {"count": 20, "every": 1}}
    plan = validate_images(
        image_request(methods=("taylor",), speedups=(2.0, 16.0), method_settings=settings)
    )
    context = AUDIT.opened(plan, Store(tmp_path), Hooks(), Local()).context
    shards = [ImageShard("chosen", "taylor", "plain", speedup, 0) for speedup in (2.0, 16.0)]
    context.fetch(shards)
    before = context.fetch_arrays(shards[1])[0]
    context.keeper.path(context.key(shards[1])).unlink()
    after = context.fetch_arrays(shards[1])[0]
    assert all(np.array_equal(before[name], after[name]) for name in before)
