"""Whole audits of every kind on a real Ray cluster of this machine whose workers and nodes die: the
same tables."""

import json

import pytest

from benchmarks.hardening._audits import differences
from engine.audit import ray_executor as ray_workers
from engine.audit.jobs import list_jobs
from engine.audit.ray_executor import OnRay
from engine.audit.tracks import tracks
from engine.cli import main
from engine.store.runs import Store
from tests.audit.dying import DOOMED, on_dying_workers
from tests.audit.run_checks import small_audit
from tests.ray_cluster import one_more, ray_cluster

ray = pytest.importorskip("ray", reason="needs ray: pip install -r requirements-ray.txt")

CODE = "the engine's code"


@pytest.fixture(scope="module")
def head():
    """A cluster of one node, to which each test adds the one that dies."""
    with ray_cluster(nodes=1) as cluster:
        yield cluster


@pytest.mark.parametrize("track", list(tracks()))
def test_workers_and_a_node_that_die_in_the_middle_of_any_kind_of_part_cost_that_part(
    track, head, tmp_path, monkeypatch, capsys
):
    words = small_audit(track, tmp_path)
    expected = audited(words, tmp_path / "here", capsys)
    executor = on_dying_workers(tmp_path / "died")
    monkeypatch.setattr("engine.audit.ray_executor.OnRay", executor)
    node = one_more(head)
    (tmp_path / "died" / f"{DOOMED}{node.node_id}").touch()
    found = audited([*words, "--ray", head.address], tmp_path / "there", capsys)
    head.remove_node(node)
    died = {mark.name for mark in (tmp_path / "died").iterdir()}
    assert {*executor.asked, "node"} <= died
    assert found.meta["tables"].keys() == expected.meta["tables"].keys()
    assert differences(found, expected, exact=False) == []


def audited(words, store, capsys):
    """The run that a command computed; what it prints is the run as JSON and nothing of Ray's."""
    assert main([*words, "--json", "--store", str(store)]) == 0, capsys.readouterr().err
    return Store(store).open(json.loads(capsys.readouterr().out)["run"])


@pytest.mark.parametrize("track", list(tracks()))
def test_workers_of_other_code_or_torch_are_refused_by_name(
    track, head, tmp_path, monkeypatch, capsys
):
    mine = ray_workers.made_of()
    monkeypatch.setattr(ray_workers, "made_of", lambda: {**mine, "torch": "1.0", CODE: "0" * 16})
    words = small_audit(track, tmp_path)
    assert main([*words, "--ray", head.address, "--store", str(tmp_path / "store")]) == 1
    said = (
        f"torch is {mine['torch']} there and 1.0 here; the engine's code is {mine[CODE]} there and"
        f" {'0' * 16} here"
    )
    assert said in capsys.readouterr().err
    [job] = list_jobs(Store(tmp_path / "store"))
    assert job.status == "failed" and said in job.message  # as the form's job says it


def test_where_the_last_node_dies_that_is_said_and_the_next_call_goes_on(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("engine.audit.ray_executor.PATIENCE", 3.0)
    track = next(iter(tracks()))
    words = small_audit(track, tmp_path)
    expected = audited(words, tmp_path / "here", capsys)
    ray.shutdown()  # a process has one cluster at a time
    with ray_cluster(nodes=2, head_cores=0) as cluster:
        kept = []
        taken = OnRay._take

        def then_the_node(executor, ray_, context, task, queue):
            kept.append(taken(executor, ray_, context, task, queue))
            if len(kept) == 3:
                cluster.remove_node(cluster.worker_nodes.copy().pop(), allow_graceful=False)
            return kept[-1]

        monkeypatch.setattr(OnRay, "_take", then_the_node)
        command = [*words, "--ray", cluster.address, "--store", str(tmp_path / "there")]
        assert main(command) == 1
        assert "has no living worker left. What was finished is kept" in capsys.readouterr().err
        one_more(cluster)
        found = audited([*words, "--ray", cluster.address], tmp_path / "there", capsys)
    assert differences(found, expected, exact=False) == []
