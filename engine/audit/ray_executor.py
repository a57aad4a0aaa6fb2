"""Shards on a Ray cluster: each worker loads the model once, on a device of its own, and sends finished tables back.

Results go into the driver's store, so no disk is shared. Every machine needs this project in the same folder, and the
model and judge under the same name or path; that they are the same is checked with the shard's own key, which holds
weights, tokenizer, data, judge, precision and device. Needs `pip install -r requirements-ray.txt`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import socket
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.audit.executors import Executor
from engine.audit.measurements import MeasurementContext
from engine.audit.progress import Progress
from engine.audit.ray_workers import WorkerPool, last_line
from engine.core.errors import Fault, PruneAuditError, RequestError
from engine.core.files import PROJECT

QUIET = 0.3
"""Seconds between two looks at the cluster, and at whether the user cancelled."""
REACH = 10.0
"""Seconds within which the head of a cluster must answer."""
ATTEMPTS = 3
"""Workers a bundle may take down with it."""


@dataclass
class OnRay(Executor):
    """Runs bundles on the cluster at `address` ("host:port", or "auto" for the one on this machine)."""

    address: str
    attempts: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    """How often each bundle was handed out."""
    workers: WorkerPool = field(default_factory=WorkerPool, repr=False)
    running: dict[Any, tuple[Any, tuple[Any, ...], float]] = field(default_factory=dict, repr=False)
    """Answer awaited → worker, its bundle, when it was handed out."""

    def run(self, context: MeasurementContext, phase: str, shards: Sequence[Any], progress: Progress) -> None:
        ray = connect(self.address)
        try:
            wanted = [need for shard in shards for need in context.kind(shard.kind).needs(context, shard)]
            for stage in (list(dict.fromkeys(wanted)), list(dict.fromkeys(shards))):
                self._stage(ray, context, phase, stage, progress)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self.workers.loading or self.workers.processes:
            import ray

            self.workers.stop(ray)
        self.running.clear()

    def _stage(
        self, ray: Any, context: MeasurementContext, phase: str, shards: Sequence[Any], progress: Progress
    ) -> None:
        """Finish these shards, which need nothing of each other."""
        sizes = {shard: context.kind(shard.kind).size(context, shard) for shard in shards}
        progress.expect(sum(sizes.values()))
        left = [shard for shard in shards if not context.kept(shard)]
        kept = sum(sizes[shard] for shard in shards) - sum(sizes[shard] for shard in left)
        progress.advance(phase, kept, 0.0, fresh=False)
        queue = deque(tuple(bundle) for bundle in context.bundles(left))
        self.workers.drop_dead(ray)
        while queue or self.running:
            context.hooks.check()
            self.workers.reachable(ray)
            self.workers.start(ray, context, len(queue) + len(self.running))
            self.workers.collect_ready(ray, self.address)
            self._hand_out(context, queue)
            if not self.running:
                progress.say(phase, "waiting for Ray workers")
                time.sleep(QUIET)
                continue
            for task in ray.wait(list(self.running), timeout=QUIET)[0]:
                _, bundle, start = self.running[task]
                if self._take(ray, context, task, queue):
                    size, spent = sum(sizes[shard] for shard in bundle), time.monotonic() - start
                    progress.advance(
                        phase, size, spent / max(1, len(self.workers.processes)), context.describe(bundle[0])
                    )

    def _hand_out(self, context: MeasurementContext, queue: deque[tuple[Any, ...]]) -> None:
        """A bundle for every idle worker."""
        while queue and self.workers.idle:
            worker, bundle = self.workers.idle.pop(), queue.popleft()
            self.attempts[bundle] += 1
            needs = context.all_needs(bundle)
            known = [(need, context.fetch([need])[0]) for need in needs if context.kept(need)]
            answer = worker.compute.remote(list(bundle), context.key(bundle[0]), known)
            self.running[answer] = (worker, bundle, time.monotonic())

    def _take(self, ray: Any, context: MeasurementContext, task: Any, queue: deque[tuple[Any, ...]]) -> bool:
        """Keep what a worker sent; a worker that died costs only its bundle. Whether it was finished."""
        from ray.exceptions import RayActorError, RayError, RayTaskError

        worker, bundle, _ = self.running.pop(task)
        try:
            found = ray.get(task)
        except RayError as error:  # the worker, its node, or what it was sending is gone; or its work failed
            if isinstance(error, RayTaskError) and not isinstance(error, RayActorError):
                cause = error.cause
                raise (cause if isinstance(cause, PruneAuditError) else PruneAuditError(_said(cause))) from error
            self.workers.lost(worker)
            if self.attempts[bundle] >= ATTEMPTS:
                raise PruneAuditError(
                    f"{ATTEMPTS} Ray workers died over the same part ({context.describe(bundle[0])}). What was "
                    f"finished is kept. The last said: {last_line(error)}"
                ) from error
            queue.append(bundle)
            return False
        for shard, table in found:
            context.keeper.put(context.key(shard), table)
        self.workers.idle.append(worker)
        return True


def _said(cause: BaseException) -> str:
    return f"A Ray worker failed: {type(cause).__name__}: {str(cause).splitlines()[0] if str(cause) else ''}."


def connect(address: str) -> Any:
    """The ray module, connected. RequestError where Ray is not installed or the cluster does not answer."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no telemetry
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    _need_ray()
    import ray

    if ray.is_initialized():
        _same_cluster(ray, address)
        return ray
    reach(address)
    environment = {"PYTHONPATH": str(PROJECT), "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    try:
        ray.init(address=address, log_to_driver=False, logging_level="error", runtime_env={"env_vars": environment})
    except Exception as error:  # Ray raises many kinds: no cluster, other versions, lost on the way
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        what = f"the cluster at {address} cannot be used: {first[:200]}."
        raise RequestError(
            Fault("--ray", what, "Check the address, and that it runs the same Ray and Python.")
        ) from error
    _ASKED.clear()
    _ASKED.add(address)
    return ray


_ASKED: set[str] = set()
"""Addresses that led to the cluster this process is connected to; its head may call itself otherwise."""


def _same_cluster(ray: Any, address: str) -> None:
    """RequestError where this process is connected to a cluster at another address."""
    connected = ray.get_runtime_context().gcs_address
    if address in ("auto", "local", *_ASKED) or _place(address) == _place(connected):
        return
    what = f"this process is connected to the cluster at {connected}, not to {address}."
    raise RequestError(Fault("--ray", what, "Start a process of its own for each cluster."))


def _place(address: str) -> tuple[str, str]:
    """Numeric host, port. As written where the name is not known."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    with contextlib.suppress(OSError):
        host = socket.gethostbyname(host)
    return host, port


def _need_ray() -> None:
    if importlib.util.find_spec("ray") is None:
        what = "the package ray is not installed here."
        raise RequestError(Fault("--ray", what, "pip install -r requirements-ray.txt"))


def reach(address: str) -> None:
    """RequestError within seconds where nothing listens, Ray itself would try for minutes; and without Ray."""
    _need_ray()
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if address in ("auto", "local"):
        return
    fault = Fault("--ray", f"nothing answers at {address}.", "Start one: ray start --head, then give its host:port.")
    if not host or not port.isdigit():
        raise RequestError(
            Fault("--ray", f"{address!r} is no host:port.", 'Write for example 10.0.0.5:6379, or "auto".')
        )
    try:
        socket.create_connection((host, int(port)), timeout=REACH).close()
    except OSError as error:
        raise RequestError(fault) from error
