"""Shards on a Ray cluster: each worker loads the model once, on a device of its own, and sends finished tables back.

Results go into the driver's store, so no disk is shared. Every machine needs this project in the same folder, and the
model and judge under the same name or path; that they are the same is checked with the shard's own key, which holds
weights, tokenizer, data, judge, precision and device. Needs `pip install -r requirements-ray.txt`.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from engine.audit.executors import Executor, describe
from engine.audit.progress import Progress
from engine.audit.request import AuditRequest
from engine.errors import Fault, PruneAuditError, RequestError
from engine.metrics.bench import Bench, InMemory, Shard
from engine.types import Corpus, PromptSet

PROJECT = Path(__file__).resolve().parents[2]
QUIET = 0.3
"""Seconds between two looks at the cluster, and at whether somebody cancelled."""
REACH = 10.0
"""Seconds within which the head of a cluster must answer."""
ATTEMPTS = 3
"""Workers a bundle may take down with it."""
PATIENCE = 90.0
"""Seconds without a living worker before giving up."""

Tables = list[tuple[Shard, pd.DataFrame]]


@dataclass(frozen=True)
class Assignment:
    """Everything a worker needs to set up its bench."""

    request: AuditRequest
    prompts: PromptSet
    corpus: Corpus


class Worker:
    """One process of the cluster: a bench of its own."""

    def __init__(self, work: Assignment) -> None:
        from engine.models.judge import load_judge
        from engine.models.load import load_language_model
        from engine.scores.base import extra_kinds

        asked = work.request
        lm = load_language_model(asked.model, device=asked.device, dtype=asked.dtype, revision=asked.revision)
        judge = load_judge(asked.judge, asked.judge_sha256, device=str(lm.device))
        self.bench = Bench(lm, judge, work.prompts, work.corpus, asked.settings(), extra=extra_kinds())

    def process(self) -> int:
        """The process id; answering it means the model is loaded."""
        return os.getpid()

    def compute(self, shards: list[Shard], key: str, known: Tables) -> Tables:
        """The tables of `shards`. `known` are finished tables they need; `key` is the driver's key of the first."""
        if self.bench.key(shards[0]) != key:
            raise PruneAuditError(
                "A worker has another model, judge, data, precision or device than this machine, so its numbers would "
                "not be the same. Give every machine the same files, and the same --device and --dtype."
            )
        self.bench.keeper = keeper = InMemory()
        for shard, table in known:
            keeper.put(self.bench.key(shard), table)
        return list(zip(shards, self.bench.fetch(shards), strict=True))


@dataclass
class OnRay(Executor):
    """Runs bundles on the cluster at `address` ("host:port", or "auto" for the one on this machine)."""

    address: str
    request: AuditRequest
    attempts: Counter[tuple[Shard, ...]] = field(default_factory=Counter)
    """How often each bundle was handed out."""
    _pool: dict[Any, tuple[Shard, ...] | None] = field(default_factory=dict, repr=False)

    def run(self, bench: Bench, phase: str, shards: Sequence[Shard], progress: Progress) -> None:
        ray = connect(self.address)
        try:
            wanted = [need for shard in shards for need in bench.kind(shard.kind).needs(bench, shard)]
            for stage in (list(dict.fromkeys(wanted)), list(dict.fromkeys(shards))):
                self._stage(ray, bench, phase, stage, progress)
        finally:
            for worker in self._pool:
                with contextlib.suppress(Exception):
                    ray.kill(worker)
            self._pool.clear()

    def _stage(self, ray: Any, bench: Bench, phase: str, shards: Sequence[Shard], progress: Progress) -> None:
        """Finish these shards, which need nothing of each other."""
        sizes = {shard: bench.kind(shard.kind).size(bench, shard) for shard in shards}
        progress.expect(sum(sizes.values()))
        left = [shard for shard in shards if not bench.kept(shard)]
        kept = sum(sizes[shard] for shard in shards) - sum(sizes[shard] for shard in left)
        progress.advance(phase, kept, 0.0, fresh=False)
        queue = deque(tuple(bundle) for bundle in bench.bundles(left))
        if queue:
            self._staff(ray, bench, len(queue))
        running: dict[Any, tuple[Any, tuple[Shard, ...], float]] = {}
        last = time.monotonic()
        while queue or running:
            bench.hooks.check()
            self._hand_out(ray, bench, queue, running)
            done, _ = ray.wait(list(running), timeout=QUIET) if running else ([], [])
            if running:
                last = time.monotonic()
            elif time.monotonic() - last > PATIENCE:
                raise PruneAuditError(
                    f"The Ray cluster at {self.address} has no living worker left. What was finished is kept: "
                    "start workers again and repeat the command."
                )
            for task in done:
                worker, bundle, start = running.pop(task)
                if self._take(ray, bench, task, worker, bundle, queue):
                    size, spent = sum(sizes[shard] for shard in bundle), time.monotonic() - start
                    progress.advance(phase, size, spent / max(1, len(self._pool)), describe(bench, bundle[0]))

    def _staff(self, ray: Any, bench: Bench, bundles: int) -> None:
        """As many workers as the cluster has devices, at most one per bundle; living ones are kept."""
        resources = ray.cluster_resources()
        gpu = bench.lm.device.type == "cuda"
        slots = int(resources.get("GPU" if gpu else "CPU", 0))
        work = ray.put(Assignment(self.request, bench.prompts, bench.corpus))
        remote = ray.remote(Worker).options(**({"num_gpus": 1} if gpu else {"num_cpus": 1}))
        while len(self._pool) < min(slots, bundles):
            self._pool[remote.remote(work)] = None

    def _hand_out(self, ray: Any, bench: Bench, queue: deque[tuple[Shard, ...]], running: dict[Any, Any]) -> None:
        """A bundle for every idle worker."""
        if queue and not self._pool:
            self._staff(ray, bench, len(queue))
        for worker in [worker for worker, busy in self._pool.items() if busy is None]:
            if not queue:
                return
            bundle = queue.popleft()
            self.attempts[bundle] += 1
            needs = [need for shard in bundle for need in bench.kind(shard.kind).needs(bench, shard)]
            known = [(need, bench.fetch([need])[0]) for need in dict.fromkeys(needs) if bench.kept(need)]
            self._pool[worker] = bundle
            running[worker.compute.remote(list(bundle), bench.key(bundle[0]), known)] = (
                worker,
                bundle,
                time.monotonic(),
            )

    def _take(self, ray: Any, bench: Bench, task: Any, worker: Any, bundle: tuple[Shard, ...], queue: deque) -> bool:
        """Keep what a worker sent; a worker that died costs only its bundle. Whether it was finished."""
        from ray.exceptions import RayActorError, RayTaskError

        try:
            found = ray.get(task)
        except RayActorError as error:
            self._pool.pop(worker, None)
            if self.attempts[bundle] >= ATTEMPTS:
                raise PruneAuditError(
                    f"{ATTEMPTS} Ray workers died over the same part ({describe(bench, bundle[0])}), perhaps for want "
                    "of memory. What was finished is kept."
                ) from error
            queue.append(bundle)
            with contextlib.suppress(Exception):
                self._staff(ray, bench, len(queue))
            return False
        except RayTaskError as error:
            cause = error.cause
            raise (cause if isinstance(cause, PruneAuditError) else PruneAuditError(_said(cause))) from error
        for shard, table in found:
            bench.keeper.put(bench.key(shard), table)
        self._pool[worker] = None
        return True


def _said(cause: BaseException) -> str:
    return f"A Ray worker failed: {type(cause).__name__}: {str(cause).splitlines()[0] if str(cause) else ''}."


def connect(address: str) -> Any:
    """The ray module, connected. RequestError where Ray is not installed or the cluster does not answer."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no telemetry
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError as error:
        what = "the package ray is not installed here."
        raise RequestError(Fault("--ray", what, "pip install -r requirements-ray.txt")) from error
    if ray.is_initialized():
        return ray
    _reach(address)
    environment = {"PYTHONPATH": str(PROJECT), "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    try:
        ray.init(address=address, log_to_driver=False, logging_level="error", runtime_env={"env_vars": environment})
    except Exception as error:  # Ray raises many kinds: no cluster, other versions, lost on the way
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        what = f"the cluster at {address} cannot be used: {first[:200]}."
        raise RequestError(
            Fault("--ray", what, "Check the address, and that it runs the same Ray and Python.")
        ) from error
    return ray


def _reach(address: str) -> None:
    """Fail within seconds where nothing listens; Ray itself would try for minutes."""
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
