"""A real Ray cluster of two nodes on this machine: the same tables as local, and a killed worker
costs one bundle."""

import json
import os
import signal
import threading
from dataclasses import replace
from shutil import copytree

import pandas as pd
import pytest

ray = pytest.importorskip("ray", reason="needs ray: pip install -r requirements-ray.txt")

from benchmarks.hardening._audits import differences  # noqa: E402
from engine.audit.ray_executor import (  # noqa: E402
    OnRay,
    WorkerPool,
    connect,
)
from engine.audit.session import Local, Progress  # noqa: E402
from engine.cli import main  # noqa: E402
from engine.core.errors import Cancelled, PruneAuditError, RequestError  # noqa: E402
from engine.core.types import Hooks  # noqa: E402
from engine.store.runs import Store  # noqa: E402
from engine.tracks.language_models.context import Shard  # noqa: E402
from engine.tracks.language_models.opening import open_audit  # noqa: E402
from engine.tracks.language_models.request import validate  # noqa: E402
from engine.tracks.language_models.words import JUDGED_HERE  # noqa: E402
from tests.tiny import build  # noqa: E402
from tests.tracks.language_models.worlds import small_audit, world_request, write_pairs  # noqa: E402


def audit_in(folder, store, hooks=None):
    request = world_request(folder, max_new_tokens=4)
    return request, open_audit(validate(request), Store(store), hooks or Hooks(), Local())


def some_shards() -> list[Shard]:
    heads = [Shard("verdicts", (unit,), "religion", "validation", 0) for unit in range(4)]
    weights = [Shard("text_logps", (unit,), "religion", "validation", 0) for unit in range(12)]
    return [
        Shard("verdicts", (), "religion", "validation", 0),
        *heads,
        *weights,
        Shard("windows", (3, 4), split="test"),
    ]


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    _, audit = audit_in(folder, folder / "local")
    return folder, audit.context.fetch(some_shards())


def assert_alike(audit, expected) -> None:
    """What is kept of the measurements is what is expected."""
    for one, other in zip(audit.context.fetch(some_shards()), expected, strict=True):
        pd.testing.assert_frame_equal(one, other)


def sent_elsewhere(audit, folder) -> None:
    """Workers are told that the model lies in another folder."""
    plan = audit.plan
    audit.context.plan = replace(plan, request=replace(plan.request, model=str(folder)))


def test_a_killed_worker_costs_only_its_bundle(cluster, local, tmp_path):
    folder, expected = local
    _, audit = audit_in(folder, tmp_path)
    executor, killed = OnRay(cluster.address), []
    hand_out = executor._hand_out

    def then_kill_one(context, queue):
        hand_out(context, queue)
        if not killed and len(executor.attempts) > 2 and executor.running:
            worker, bundle, _ = next(iter(executor.running.values()))
            killed.append(bundle)
            os.kill(executor.workers.processes[worker], signal.SIGKILL)

    executor._hand_out = then_kill_one
    executor.run(audit.context, "score heads", some_shards(), Progress(lambda event: None))
    assert killed
    again = [bundle for bundle, times in executor.attempts.items() if times > 1]
    assert len(again) <= 1, "at most the bundle it was working on is handed out again"
    assert_alike(audit, expected)


def test_it_stops_at_the_first_look_after_it_was_asked_to(cluster, local, tmp_path):
    looks, asked = [], threading.Event()

    def check():
        looks.append(asked.is_set())
        if asked.is_set():
            raise Cancelled("stop")

    _, audit = audit_in(local[0], tmp_path, Hooks(check=check))
    progress = Progress(lambda event: asked.set() if event.done else None)
    with pytest.raises(Cancelled):
        OnRay(cluster.address).run(audit.context, "score heads", some_shards(), progress)
    assert sum(looks) == 1 and any(not audit.context.kept(shard) for shard in some_shards())


def test_other_files_on_a_worker_are_refused(cluster, local, tmp_path):
    _, audit = audit_in(local[0], tmp_path)
    build("gpt2", tmp_path / "elsewhere", seed=5)
    sent_elsewhere(audit, tmp_path / "elsewhere")
    with pytest.raises(PruneAuditError, match="another model, judge, data"):
        OnRay(cluster.address).run(
            audit.context, "score heads", some_shards()[:1], Progress(lambda event: None)
        )


def test_a_cluster_without_workers_gives_up_and_keeps_what_was_finished(
    cluster, local, tmp_path, monkeypatch
):
    monkeypatch.setattr("engine.audit.ray_executor.PATIENCE", 3.0)
    _, audit = audit_in(local[0], tmp_path)
    executor = OnRay(cluster.address)
    monkeypatch.setattr(executor.workers, "start", lambda *args: None)
    with pytest.raises(PruneAuditError, match="no living worker left"):
        executor.run(audit.context, "score heads", some_shards(), Progress(lambda event: None))


def test_a_busy_cluster_is_waited_for_and_then_said(cluster, local, tmp_path, monkeypatch):
    monkeypatch.setattr("engine.audit.ray_executor.LOADING", 3.0)
    _, audit = audit_in(local[0], tmp_path)
    connect(cluster.address)

    @ray.remote(num_cpus=1)
    class Guest:
        def here(self):
            return True

    guests = [Guest.remote() for _ in range(2)]
    assert all(ray.get([guest.here.remote() for guest in guests]))
    executor = OnRay(cluster.address)
    with pytest.raises(PruneAuditError, match="busy with other work"):
        executor.run(audit.context, "score heads", some_shards()[:1], Progress(lambda event: None))
    assert not executor.attempts, "nothing is handed to a worker that is not there"
    for guest in guests:
        ray.kill(guest)


def test_workers_that_cannot_load_the_model_are_named(cluster, local, tmp_path):
    _, audit = audit_in(local[0], tmp_path)
    sent_elsewhere(audit, tmp_path / "gone")
    executor = OnRay(cluster.address)
    with pytest.raises(PruneAuditError, match="cannot start.*gone"):
        executor.run(audit.context, "score heads", some_shards()[:1], Progress(lambda event: None))


def test_workers_stay_between_phases_and_leave_at_the_end(cluster, local, tmp_path):
    _, audit = audit_in(local[0], tmp_path)
    executor = OnRay(cluster.address)
    executor.run(audit.context, "score heads", some_shards()[:5], Progress(lambda event: None))
    first = dict(executor.workers.processes)
    executor.run(audit.context, "measure variants", some_shards()[5:], Progress(lambda event: None))
    assert set(first.values()) <= set(executor.workers.processes.values())
    executor.close()
    assert not executor.workers.processes


def test_one_process_one_cluster(cluster):
    connect(cluster.address)
    with pytest.raises(RequestError, match="is connected to the cluster at"):
        connect("127.0.0.1:1")


def test_workers_that_died_while_idle_get_no_work(cluster, local, tmp_path):
    folder, expected = local
    _, audit = audit_in(folder, tmp_path)
    executor = OnRay(cluster.address)
    executor.run(audit.context, "score heads", some_shards()[:5], Progress(lambda event: None))
    for process in executor.workers.processes.values():
        os.kill(process, signal.SIGKILL)
    executor.run(audit.context, "measure variants", some_shards()[5:], Progress(lambda event: None))
    executor.close()
    assert set(executor.attempts.values()) == {1}, "no bundle is blamed for it"
    assert_alike(audit, expected)


def test_a_head_that_is_gone_is_said(monkeypatch):
    class Context:
        gcs_address = "127.0.0.1:1"

    monkeypatch.setattr("engine.audit.ray_executor.LOOK", 0.05)
    monkeypatch.setattr(ray, "get_runtime_context", Context)
    with pytest.raises(PruneAuditError, match="does not answer any more"):
        WorkerPool().reachable(ray)


def test_an_audit_grows_on_a_cluster_as_it_does_here(cluster, tmp_path, capsys):
    """By a benchmark, which workers measure; by another judge, who is asked in this process, and
    that is said."""
    words = [*small_audit(tmp_path), "--max-prompts", "12", "--json"]
    assert main([*words, "--store", str(tmp_path / "here")]) == 0
    run = json.loads(capsys.readouterr().out)["run"]
    copytree(tmp_path / "here", tmp_path / "there")
    for asked in (
        ["--benchmark", f"crows_pairs={write_pairs(tmp_path)}"],
        ["--judge", "demo-bert", "--judge-label", "insulting"],
    ):
        grow = ["measure", run, *asked, "--store"]
        assert main([*grow, str(tmp_path / "here")]) == 0, capsys.readouterr().err
        capsys.readouterr()
        assert main([*grow, str(tmp_path / "there"), "--ray", cluster.address]) == 0, (
            capsys.readouterr().err
        )
        assert (JUDGED_HERE in capsys.readouterr().err) == ("--judge" in asked)
        assert not differences(
            *(Store(tmp_path / name).open(run) for name in ("here", "there")), exact=False
        )
