"""A real Ray cluster of two nodes on this machine: every track gives the same tables as in this
process."""

import importlib

import numpy as np
import pytest

from engine.audit.session import Progress
from engine.audit.tracks import tracks
from engine.store.runs import unpack

ray = pytest.importorskip("ray", reason="needs ray: pip install -r requirements-ray.txt")

from engine.audit.ray_executor import OnRay  # noqa: E402

WORLDS = {
    name: getattr(importlib.import_module(f"tests.tracks.{name}.worlds"), "cluster_world", None)
    for name in tracks()
}
"""What each track measures on a cluster; None where its own tests say more about that."""


@pytest.mark.parametrize(
    "world", [pytest.param(world, id=name) for name, world in WORLDS.items() if world]
)
def test_every_track_gives_on_a_cluster_what_this_process_gives(world, cluster, tmp_path):
    context, shards = world(tmp_path)
    expected = context.fetch(shards)
    again, shards = world(tmp_path)
    executor = OnRay(cluster.address)
    for shard in shards:  # each may need those before it
        executor.run(again, "measure", [shard], Progress(lambda event: None))
    executor.close()
    for shard, one, other in zip(shards, again.fetch(shards), expected, strict=True):
        (mine, plain), (theirs, plainly) = unpack(one), unpack(other)
        assert mine.keys() == theirs.keys() and plain.keys() == plainly.keys(), shard
        for name in mine.keys() - {"curve/seconds"}:
            np.testing.assert_array_equal(mine[name], theirs[name], err_msg=f"{name} of {shard}")
        assert {**plain, "spent": 0} == {**plainly, "spent": 0}, shard
