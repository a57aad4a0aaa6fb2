"""What the tests of whole runs share: a store, events, a copy of each file's `run`."""

from __future__ import annotations

import os
import shutil
from functools import cache

import pytest

from engine.store.runs import Run, Store

os.environ["PRUNEAUDIT_ENGINE"] = "off"  # the test's own process answers, and no engine stays behind


@pytest.fixture(scope="session", autouse=True)
def components_found_once():
    """Streamlit reads every installed package's description for components whenever a test opens a page, .2 s each
    time: here once."""
    from streamlit.components.v2 import manifest_scanner

    found = cache(manifest_scanner.scan_component_manifests)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_scanner, "scan_component_manifests", found)
        yield


@pytest.fixture(scope="module")
def events() -> list:
    return []


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture
def copy(run, tmp_path) -> Run:
    """The run in a folder of its own, to be damaged."""
    shutil.copytree(run.path, tmp_path / "runs" / run.id)
    return Run(tmp_path / "runs" / run.id)


@pytest.fixture(scope="module")
def cluster():
    """A Ray cluster of two nodes; skips where Ray is not installed."""
    ray = pytest.importorskip("ray", reason="needs ray: pip install -r requirements-ray.txt")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    memory = 80 * 2**20
    nodes = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "include_dashboard": False, "object_store_memory": memory},
    )
    nodes.add_node(num_cpus=1, object_store_memory=memory)
    yield nodes
    ray.shutdown()
    nodes.shutdown()
