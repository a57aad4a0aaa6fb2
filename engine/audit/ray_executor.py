"""Shards on a Ray cluster: each worker loads the model once, on a device of its own, and sends
finished tables back.

Results go into the driver's store, so no disk is shared. Every machine needs this project in the
same folder, and the model and judge under the same name or path. The shard's own key checks that
they are the same: it holds weights, tokenizer, data, judge, precision and device. Needs `pip
install -r requirements-ray.txt`.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import importlib.util
import os
import socket
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from engine.audit.measurements import InMemory, MeasurementContext
from engine.audit.session import Executor, Progress, source_digest, versions
from engine.core.errors import Fault, PruneAuditError, RequestError, refusal, said_by
from engine.core.files import PROJECT

# The workers of one audit on a Ray cluster: started, awaited until their model is loaded,
# replaced when one dies.


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

    def loaded(self) -> tuple[int, str, dict[str, str]]:
        """The process id, the machine's name, and what computes there; answering it means the model
        is loaded."""
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
                    # Stopping them would wait for ever.
                    self.loading, self.idle, self.processes = {}, [], {}
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

        answers = {worker.loaded.remote(): worker for worker in self.idle}
        done = ray.wait(list(answers), num_returns=len(answers), timeout=LOOK)[0] if answers else []
        self.idle = []
        for answer, worker in answers.items():
            with contextlib.suppress(RayError):
                if answer in done and ray.get(answer):
                    self.idle.append(worker)
                    continue
            self.processes.pop(worker, None)
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

    def stop(self, ray: Any) -> None:
        """End all workers, busy ones too."""
        for worker in [*self.loading.values(), *self.processes]:
            with contextlib.suppress(Exception):
                ray.kill(worker)
        self.loading, self.idle, self.processes = {}, [], {}
        self._work, self._failed, self._since = None, 0, 0.0


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


QUIET = 0.3
"""Seconds between two looks at the cluster, and at whether the user cancelled."""
REACH = 10.0
"""Seconds within which the head of a cluster must answer."""
HTTP_2, SETTINGS = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\0\0\0\4\0\0\0\0\0"
"""How both sides begin to speak HTTP/2: the caller's greeting, and a frame of settings that names
none."""
ATTEMPTS = 3
"""Workers a bundle may take down with it."""


@dataclass
class OnRay(Executor):
    """Runs bundles on the cluster at `address` ("host:port", or "auto" for the one on this
    machine)."""

    address: str
    attempts: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    """How often each bundle was handed out."""
    workers: WorkerPool = field(default_factory=WorkerPool, repr=False)
    running: dict[Any, tuple[Any, tuple[Any, ...], float]] = field(default_factory=dict, repr=False)
    """Answer awaited → worker, its bundle, when it was handed out."""

    def run(
        self, context: MeasurementContext, phase: str, shards: Sequence[Any], progress: Progress
    ) -> None:
        ray = connect(self.address)
        try:
            wanted = [
                need for shard in shards for need in context.kind(shard.kind).needs(context, shard)
            ]
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
        self,
        ray: Any,
        context: MeasurementContext,
        phase: str,
        shards: Sequence[Any],
        progress: Progress,
    ) -> None:
        """Finish these shards, which need nothing of each other."""
        self.workers.reachable(ray)
        queue = deque(_for_each(self.workers.room(ray, context), context, context.lacking(shards)))
        lacking = {shard for bundle in queue for shard in bundle}
        kept = context.effort(progress.count([shard for shard in shards if shard not in lacking]))
        sizes = {bundle: context.effort(progress.count(bundle)) for bundle in queue}
        progress.expect(kept + sum(sizes.values()))
        progress.advance(phase, kept, 0.0, fresh=False)
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
                if not self._take(ray, context, task, queue):
                    progress.tell(
                        "A Ray worker died: another one computes its part"
                        f" ({context.describe(bundle[0])})."
                    )
                else:
                    spent = (time.monotonic() - start) / max(1, len(self.workers.processes))
                    progress.advance(phase, sizes[bundle], spent, context.describe_all(bundle))

    def _hand_out(self, context: MeasurementContext, queue: deque[tuple[Any, ...]]) -> None:
        """A bundle for every idle worker."""
        while queue and self.workers.idle:
            worker, bundle = self.workers.idle.pop(), queue.popleft()
            self.attempts[bundle] += 1
            needs = context.all_needs(bundle)
            known = [(need, context.fetch([need])[0]) for need in needs if context.kept(need)]
            answer = worker.compute.remote(list(bundle), context.key(bundle[0]), known)
            self.running[answer] = (worker, bundle, time.monotonic())

    def _take(
        self, ray: Any, context: MeasurementContext, task: Any, queue: deque[tuple[Any, ...]]
    ) -> bool:
        """Keep what a worker sent; a worker that died costs only its bundle. Whether it was
        finished."""
        from ray.exceptions import RayActorError, RayError, RayTaskError

        worker, bundle, _ = self.running.pop(task)
        try:
            found = ray.get(task)
        except (
            RayError
        ) as error:  # the worker, its node, or what it was sending is gone; or its work failed
            if isinstance(error, RayTaskError) and not isinstance(error, RayActorError):
                cause = error.cause
                said = f"A Ray worker failed: {type(cause).__name__}: {said_by(cause)}."
                raise (
                    cause if isinstance(cause, PruneAuditError) else PruneAuditError(said)
                ) from error
            self.workers.processes.pop(worker, None)
            if self.attempts[bundle] >= ATTEMPTS:
                raise PruneAuditError(
                    f"{ATTEMPTS} Ray workers died over the same part"
                    f" ({context.describe(bundle[0])}). What was finished is kept. The last said:"
                    f" {last_line(error)}"
                ) from error
            queue.append(bundle)
            return False
        for shard, table in found:
            if not context.kept(shard):
                context.keeper.put(context.key(shard), table)
        self.workers.idle.append(worker)
        return True


def _for_each(
    workers: int, context: MeasurementContext, bundles: Sequence[Sequence[Any]]
) -> list[tuple[Any, ...]]:
    """The bundles, the longest halved until there is one for every worker. What is computed
    together changes how long it takes and, but for kinds that are `whole`, no number."""
    parts = [tuple(bundle) for bundle in bundles]
    while len(parts) < workers:
        longest = max(
            parts, key=lambda one: 0 if context.kind(one[0].kind).whole else len(one), default=()
        )
        if len(longest) < 2 or context.kind(longest[0].kind).whole:
            break
        at, half = parts.index(longest), (len(longest) + 1) // 2
        parts[at : at + 1] = [longest[:half], longest[half:]]
    return parts


def connect(address: str) -> Any:
    """The ray module, connected. RequestError where Ray is not installed or the cluster does not
    answer."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no telemetry
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    _need_ray()
    import ray

    if ray.is_initialized():
        _same_cluster(ray, address)
        return ray
    reach(address)
    environment = {
        "PYTHONPATH": str(PROJECT),
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    try:
        ray.init(
            address=address,
            log_to_driver=False,
            logging_level="error",
            runtime_env={"env_vars": environment},
        )
    except Exception as error:  # Ray raises many kinds: no cluster, other versions, lost on the way
        what = f"the cluster at {address} cannot be used: {said_by(error)}."
        raise refusal(
            "--ray", what, "Check the address, and that it runs the same Ray and Python."
        ) from error
    _quieten()
    _ASKED.clear()
    _ASKED.add(address)
    return ray


def _quieten() -> None:
    """Keep Ray from printing the deaths of its workers to standard output, where --json writes; we
    say them. It has no option for that: `log_to_driver` is about what workers print."""
    import ray._private.worker

    ray._private.worker._worker_logs_enabled = False


_ASKED: set[str] = set()
"""Addresses that led to the cluster this process is connected to; its head may call itself
otherwise."""


def _same_cluster(ray: Any, address: str) -> None:
    """RequestError where this process is connected to a cluster at another address."""
    connected = ray.get_runtime_context().gcs_address
    if address in ("auto", "local", *_ASKED) or _place(address) == _place(connected):
        return
    what = f"this process is connected to the cluster at {connected}, not to {address}."
    raise refusal("--ray", what, "Start a process of its own for each cluster.")


def _place(address: str) -> tuple[str, str]:
    """Numeric host, port. As written where the name is not known."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    with contextlib.suppress(OSError):
        host = socket.gethostbyname(host)
    return host, port


def _need_ray() -> None:
    if importlib.util.find_spec("ray") is None:
        what = "the package ray is not installed here."
        raise refusal("--ray", what, "pip install -r requirements-ray.txt")


def reach(address: str) -> None:
    """RequestError within seconds where nothing listens, or something else does: Ray itself would
    try for minutes. And without Ray."""
    _need_ray()
    if address in ("auto", "local"):
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    how = "Start one: ray start --head, then give its host:port."
    # Some systems take what is left of a larger number.
    is_port = port.isdecimal() and len(port) < 6 and int(port) < 65_536
    if not (host and is_port):
        raise refusal(
            "--ray",
            f"{address!r} is no host:port.",
            'Write for example 10.0.0.5:6379, or "auto".',
        )
    try:
        with socket.create_connection((host, int(port)), timeout=REACH) as line:
            answers = _is_cluster(line)
    except OSError as error:
        raise refusal("--ray", f"nothing answers at {address}.", how) from error
    if not answers:
        raise refusal("--ray", f"what listens at {address} is no Ray cluster.", how)


def _is_cluster(line: socket.socket) -> bool:
    """Whether the other side speaks as the head of a cluster does (gRPC, so HTTP/2): it begins with
    its settings."""
    if os.environ.get("RAY_USE_TLS") == "1":  # what it says is for Ray alone
        return True
    line.sendall(HTTP_2 + SETTINGS)
    try:
        said = line.recv(len(SETTINGS))
    except OSError:
        return False
    return said[3:4] == SETTINGS[3:4]


def address_faults(address: Any, where: str) -> list[Fault]:
    """What is wrong with a cluster's address, told of `where` it was given: no text, nothing
    answers there, or Ray is not installed. None where no cluster is named."""
    if not address:
        return []
    if not isinstance(address, str):
        return [Fault(where, "is no text.", 'Write for example 10.0.0.5:6379, or "auto".')]
    try:
        reach(address)
    except RequestError as error:
        return [replace(fault, where=where) for fault in error.faults]
    return []
