"""A Ray cluster of this machine alone, of small nodes with one core each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

MEMORY = 80 * 2**20
"""Bytes that a node has for objects, about the least that Ray takes."""


@contextmanager
def ray_cluster(nodes: int, head_cores: int = 1) -> Iterator[Any]:
    """A cluster of `nodes` nodes; of head_cores cores is the head, which this process is connected
    to."""
    import ray
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    head = {"num_cpus": head_cores, "include_dashboard": False, "object_store_memory": MEMORY}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(nodes - 1):
            one_more(cluster)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def one_more(cluster: Any) -> Any:
    """A node more, of one core, once it is there."""
    return cluster.add_node(num_cpus=1, object_store_memory=MEMORY)
