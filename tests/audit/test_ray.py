"""A real Ray cluster of two nodes on this machine: every track gives the same tables as in this process."""

from __future__ import annotations

import importlib
import os
import signal

import numpy as np
import pytest

from engine.audit.progress import Progress
from engine.audit.tracks import tracks
from engine.store.array_table import unpack

ray = pytest.importorskip("ray", reason="needs ray: pip install -r requirements-ray.txt")

from engine.audit.ray_executor import OnRay  # noqa: E402

WORLDS = {name: getattr(importlib.import_module(f"tests.tracks.{name}.worlds"), "cluster_world", None)
          for name in tracks()}  # fmt: skip
"""What each track measures on a cluster; None where its own tests say more about that."""


@pytest.mark.parametrize("world", [pytest.param(world, id=name) for name, world in WORLDS.items() if world])
def test_every_track_gives_on_a_cluster_what_this_process_gives(world, cluster, tmp_path):
    context, shards = world(tmp_path)
    expected = context.fetch(shards)
    again, shards = world(tmp_path)
    executor = OnRay(cluster.address)
    for shard in shards:  # each may need those before it
        executor.run(again, "measure", [shard], Progress(lambda event: None))
    executor.close()
    _same(shards, again.fetch(shards), expected)


@pytest.mark.parametrize("world", [pytest.param(world, id=name) for name, world in WORLDS.items() if world])
def test_a_worker_that_dies_in_the_middle_of_any_kind_of_part_costs_that_part(world, cluster, tmp_path):
    context, shards = world(tmp_path)
    expected = context.fetch(shards)
    again, shards = world(tmp_path)
    executor, killed = OnRay(cluster.address), {}
    hand_out = executor._hand_out

    def then_kill(context, queue):
        hand_out(context, queue)
        for worker, bundle, _ in executor.running.values():
            if bundle[0].kind not in killed and worker in executor.workers.processes:
                killed[bundle[0].kind] = bundle
                os.kill(executor.workers.processes[worker], signal.SIGKILL)
                break

    executor._hand_out = then_kill
    for shard in shards:
        executor.run(again, "measure", [shard], Progress(lambda event: None))
    executor.close()
    assert {shard.kind for shard in shards} <= set(killed)
    twice = {bundle for bundle, times in executor.attempts.items() if times > 1}
    assert twice <= set(killed.values()), "only parts whose worker was killed are handed out again"
    _same(shards, again.fetch(shards), expected)


def _same(shards, found, expected):
    """Tables of the same numbers, to the bit; but for seconds, which are of the machine."""
    for shard, one, other in zip(shards, found, expected, strict=True):
        (mine, plain), (theirs, plainly) = unpack(one), unpack(other)
        assert mine.keys() == theirs.keys() and plain.keys() == plainly.keys(), shard
        for name in mine.keys() - {"curve/seconds"}:
            np.testing.assert_array_equal(mine[name], theirs[name], err_msg=f"{name} of {shard}")
        assert {**plain, "spent": 0} == {**plainly, "spent": 0}, shard
