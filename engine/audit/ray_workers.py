"""The workers of one audit on a Ray cluster: started, awaited until their model is loaded, replaced
when one dies."""

from __future__ import annotations

import contextlib
import copy
import importlib
import os
import socket
import time
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from engine.audit.measurements import InMemory, MeasurementContext
from engine.audit.provenance import source_digest, versions
from engine.core.errors import PruneAuditError

PATIENCE = 90.0
"""Seconds without a living worker before giving up."""
LOADING = 900.0
"""Seconds in which the first worker must have loaded its model: Ray leaves workers waiting on a
busy cluster."""
FAILURES = 3
"""Workers in a row that may die while they load."""
LOOK, KNOCKS = 3.0, 4
"""Seconds between looks at the head of the cluster, and how often it may fail to answer in a row.
"""

Tables = list[tuple[Any, pd.DataFrame]]


class Worker:
    """One process of the cluster, with a measurement context of its own."""

    def __init__(self, recipe: tuple[str, Any]) -> None:
        """`recipe` as `MeasurementContext.recipe` gives it."""
        maker, given = recipe
        module, _, name = maker.partition(":")
        # Ray hands arrays over as read-only memory of the cluster; a copy can be written to, as in
        # one process.
        self.context = getattr(importlib.import_module(module), name)(copy.deepcopy(given))
        self.context.prove()

    def process(self) -> int:
        """The process id; answering it means the model is loaded."""
        return os.getpid()

    def loaded(self) -> tuple[int, str, dict[str, str]]:
        """The process id, the machine's name, and what computes there."""
        return os.getpid(), socket.gethostname(), made_of()

    def compute(self, shards: list[Any], key: str, known: Tables) -> Tables:
        """The tables of `shards`. `known` are finished tables they need; `key` is the driver's key
        of the first."""
        if self.context.key(shards[0]) != key:
            raise PruneAuditError(
                "A worker has another model, judge, data, precision or device than this machine, so"
                " its numbers would not be the same. Give every machine the same files, and the"
                " same --device and --dtype."
            )
        self.context.keeper = keeper = InMemory()
        for shard, table in known:
            keeper.put(self.context.key(shard), table)
        return list(zip(shards, self.context.fetch(shards), strict=True))


@dataclass
class WorkerPool:
    """Workers that load their model, and those ready for work; the busy ones are the executor's."""

    loading: dict[Any, Any] = field(default_factory=dict)
    """Awaited answer, which will be the worker's process id → worker."""
    idle: list[Any] = field(default_factory=list)
    processes: dict[Any, int] = field(default_factory=dict)
    """Worker → process id, of all that are ready, idle or busy."""
    slots: int = 0
    """Workers that the machines which now are in the cluster have room for."""
    _work: tuple[int, Any] | None = None
    _failed: int = 0
    _since: float = 0.0
    _seen: float = 0.0

    def room(self, ray: Any, context: MeasurementContext) -> int:
        """Workers that the machines now in the cluster have room for."""
        return int(
            ray.cluster_resources().get("GPU" if context.device.type == "cuda" else "CPU", 0)
        )

    def start(self, ray: Any, context: MeasurementContext, parts: int) -> None:
        """As many workers as the cluster has devices, at most one for each of `parts` bundles."""
        self.slots = self.room(ray, context)
        gpu = context.device.type == "cuda"
        if self._work is None or self._work[0] != id(context):
            self.stop(ray)
            self._work = (id(context), ray.put(context.recipe()))
        remote = ray.remote(Worker).options(**({"num_gpus": 1} if gpu else {"num_cpus": 1}))
        while len(self.loading) + len(self.processes) < min(self.slots, parts):
            worker = remote.remote(self._work[1])
            self.loading[worker.loaded.remote()] = worker

    def reachable(self, ray: Any) -> None:
        """PruneAuditError where the head of the cluster no longer answers; Ray itself would end
        this process."""
        if time.monotonic() - self._seen < LOOK:
            return
        host, _, port = ray.get_runtime_context().gcs_address.rpartition(":")
        for attempt in range(KNOCKS):
            try:
                socket.create_connection((host, int(port)), timeout=LOOK).close()
            except OSError as error:
                if attempt == KNOCKS - 1:
                    self.loading, self.idle, self.processes = (
                        {},
                        [],
                        {},
                    )  # stopping them would wait for ever
                    raise PruneAuditError(
                        f"The head of the Ray cluster at {host}:{port} does not answer any more."
                        " What was finished is kept: start the cluster again and repeat the"
                        " command."
                    ) from error
                time.sleep(LOOK)
        self._seen = time.monotonic()

    def drop_dead(self, ray: Any) -> None:
        """Let go of idle workers that have died meanwhile, so that they are given no work."""
        from ray.exceptions import RayError

        answers = {worker.process.remote(): worker for worker in self.idle}
        done = ray.wait(list(answers), num_returns=len(answers), timeout=LOOK)[0] if answers else []
        self.idle = []
        for answer, worker in answers.items():
            with contextlib.suppress(RayError):
                if answer in done and ray.get(answer):
                    self.idle.append(worker)
                    continue
            self.lost(worker)
            with contextlib.suppress(
                Exception
            ):  # it may live and not answer: its place must become free
                ray.kill(worker)

    def collect_ready(self, ray: Any, address: str) -> None:
        """Move workers that have finished loading to the idle ones. PruneAuditError where none will
        come."""
        from ray.exceptions import RayError

        done = (
            ray.wait(list(self.loading), num_returns=len(self.loading), timeout=0)[0]
            if self.loading
            else []
        )
        for answer in done:
            worker = self.loading.pop(answer)
            try:
                process, host, theirs = ray.get(answer)
            except RayError as error:
                self._failed += 1
                if self._failed >= FAILURES:
                    raise PruneAuditError(
                        f"Ray workers cannot start. The last said: {last_line(error)}"
                    ) from error
            else:
                refuse_other(host, theirs)
                self.processes[worker] = process
                self.idle.append(worker)
                self._failed = 0
        self._wait(address)

    def _wait(self, address: str) -> None:
        """PruneAuditError where no worker was ready for LOADING seconds, or none was alive for
        PATIENCE seconds."""
        now = time.monotonic()
        coming = (
            self.loading and self.slots
        )  # where no machine is left, those that load would wait for ever
        if self.processes or not self._since:
            self._since = now
        elif coming and now - self._since > LOADING:
            raise PruneAuditError(
                f"No worker of the Ray cluster at {address} was ready within {LOADING / 60:.0f} "
                "minutes. It is busy with other work, or the model takes longer to load. What "
                "was finished is kept."
            )
        elif not coming and now - self._since > PATIENCE:
            raise PruneAuditError(
                f"The Ray cluster at {address} has no living worker left. What was finished is"
                " kept: start workers again and repeat the command."
            )

    def lost(self, worker: Any) -> None:
        """Forget a worker that died."""
        self.processes.pop(worker, None)

    def stop(self, ray: Any) -> None:
        """End all workers, busy ones too."""
        for worker in [*self.loading.values(), *self.processes]:
            with contextlib.suppress(Exception):
                ray.kill(worker)
        self.loading, self.idle, self.processes, self._work, self._failed, self._since = (
            {},
            [],
            {},
            None,
            0,
            0.0,
        )


def made_of() -> dict[str, str]:
    """Versions of Python and packages here, and a digest of the engine's code."""
    return {**versions(), "the engine's code": source_digest()}


def refuse_other(host: str, theirs: dict[str, str]) -> None:
    """PruneAuditError where a worker's numbers may not be those of this machine, naming what
    differs."""
    differs = [
        f"{name} is {theirs.get(name, 'unknown')} there and {mine} here"
        for name, mine in made_of().items()
        if theirs.get(name) != mine
    ]
    if differs:
        raise PruneAuditError(
            f"The Ray worker on {host} computes with something else than this machine, so its"
            f" numbers would not be the same: {'; '.join(differs)}. Install the same project and"
            " packages on every machine."
        )


def last_line(error: BaseException) -> str:
    """The last line of what Ray says about an error."""
    return (
        [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    )[-1][:300]
