"""Shards on a Ray cluster: each worker loads the model once, on a device of its own, and sends
finished tables back.

Results go into the driver's store, so no disk is shared. Every machine needs this project in the
same folder, and the model and judge under the same name or path. The shard's own key checks that
they are the same: it holds weights, tokenizer, data, judge, precision and device. Needs `pip
install -r requirements-ray.txt`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import socket
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from engine.audit.measurements import MeasurementContext
from engine.audit.ray_workers import WorkerPool, last_line
from engine.audit.session import Executor, Progress
from engine.core.errors import Fault, PruneAuditError, RequestError, said_by
from engine.core.files import PROJECT

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
                raise (
                    cause if isinstance(cause, PruneAuditError) else PruneAuditError(_said(cause))
                ) from error
            self.workers.lost(worker)
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


def _said(cause: BaseException) -> str:
    return (
        f"A Ray worker failed: {type(cause).__name__}:"
        f" {str(cause).splitlines()[0] if str(cause) else ''}."
    )


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
        raise RequestError(
            Fault("--ray", what, "Check the address, and that it runs the same Ray and Python.")
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
    """RequestError within seconds where nothing listens, or something else does: Ray itself would
    try for minutes. And without Ray."""
    _need_ray()
    if address in ("auto", "local"):
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    how = "Start one: ray start --head, then give its host:port."
    if not host or not port.isdigit():
        raise RequestError(
            Fault(
                "--ray",
                f"{address!r} is no host:port.",
                'Write for example 10.0.0.5:6379, or "auto".',
            )
        )
    try:
        with socket.create_connection((host, int(port)), timeout=REACH) as line:
            answers = _is_cluster(line)
    except (OSError, OverflowError) as error:
        raise RequestError(Fault("--ray", f"nothing answers at {address}.", how)) from error
    if not answers:
        raise RequestError(Fault("--ray", f"what listens at {address} is no Ray cluster.", how))


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
