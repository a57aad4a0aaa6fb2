"""Two nodes of one core each over one core: `generate` for all heads of the demo on a Ray cluster
of this machine.

All workers are loaded before the clock starts. Where Ray is not installed the row says so.
"""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable
from typing import Any

import pandas as pd

from benchmarks.report import Measure
from engine.audit.session import Executor, Local, Progress

BAR, PROMPTS, AXIS = 1.6, 240, "nationality"


def measures() -> list[Measure]:
    name = "Ray, two nodes of one core over one core, all heads of the demo by `generate`"
    if importlib.util.find_spec("ray") is None:
        return [
            Measure(f"{name}: Ray is not installed (make test-ray installs it)", float("nan"), "")
        ]
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    torch.set_num_threads(1)
    alone, expected = _timed(Local())
    together, found = _on_cluster()
    differ = sum(not one.equals(other) for one, other in zip(found, expected, strict=True))
    return [
        Measure(f"{name}: speedup", alone / together, "×", BAR, at_least=True),
        Measure(f"{name}: tables that differ", differ, "tables", 0.0),
    ]


def _on_cluster() -> tuple[float, list[pd.DataFrame]]:
    import ray
    from ray.cluster_utils import Cluster

    from engine.audit.ray_executor import OnRay

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    try:
        cluster.add_node(num_cpus=1)
        executor = OnRay(cluster.address)
        return _timed(executor, lambda: _all_loaded(executor))
    finally:
        ray.shutdown()
        cluster.shutdown()


def _all_loaded(executor: Any) -> None:
    """Wait until every worker that was started can be given work."""
    import ray

    while executor.workers.loading:
        executor.workers.collect_ready(ray, executor.address)
        time.sleep(0.1)


def _timed(
    executor: Executor, ready: Callable[[], None] = lambda: None
) -> tuple[float, list[pd.DataFrame]]:
    """Seconds of drawing and judging with every head off, and the verdicts."""
    context, shards = _asked()
    say = Progress(lambda event: None)
    executor.run(context, "warm", shards[:1], say)
    executor.run(context, "warm", shards[1:3], say)
    ready()
    start = time.perf_counter()
    executor.run(context, "measure", shards[3:], say)
    seconds = time.perf_counter() - start
    executor.close()
    return seconds, context.fetch(shards)


def _asked() -> tuple[Any, list[Any]]:
    """A context with nothing measured, and the dense model's verdicts, two of other cuts, and those
    of every head."""
    from engine.tracks.language_models.context import Shard
    from engine.tracks.language_models.opening import context_of
    from engine.tracks.language_models.request import AuditRequest, validate

    context = context_of(
        validate(AuditRequest(model="demo-gpt2", axes=(AXIS,), max_prompts=PROMPTS, device="cpu"))
    )
    cuts = [
        (),
        (0, 20),
        (1, 30),
        *((unit,) for unit in range(context.lm.n_layers * context.lm.n_heads)),
    ]
    return context, [Shard("verdicts", cut, AXIS, "test") for cut in cuts]
