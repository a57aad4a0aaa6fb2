"""What is known of a cluster without one: its address, where what does not speak as Ray does is
told within seconds, and the parts that are handed to its workers."""

import socket
import threading
import types

import pytest

from engine.audit import ray_executor
from engine.audit.ray_executor import HTTP_2, SETTINGS, _for_each, address_faults


@pytest.mark.parametrize(
    "answer, said",
    [
        (SETTINGS, None),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is no Ray cluster"),
        (b"", "is no Ray cluster"),
    ],
)
def test_what_listens_must_speak_as_a_cluster_does(answer, said, monkeypatch):
    monkeypatch.setattr(ray_executor, "_need_ray", lambda: None)
    monkeypatch.setattr(ray_executor, "REACH", 0.3)
    heard = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=lambda: heard.append(_answered(server, answer)))
        thread.start()
        found = address_faults(f"127.0.0.1:{server.getsockname()[1]}", "address of the cluster")
        thread.join()
    assert heard == [HTTP_2 + SETTINGS]
    assert [fault.what for fault in found if said not in fault.what] == [] and len(found) == (
        said is not None
    )


def _answered(server, answer):
    """What one caller said; it is answered, or hears nothing until it has gone."""
    line, _ = server.accept()
    with line:
        said = line.recv(1000)
        line.sendall(answer)
        line.recv(1) if not answer else None
    return said


@pytest.mark.parametrize(
    "address, said",
    [
        ("127.0.0.1:1", "nothing answers"),
        ("127.0.0.1:99999", "no host:port"),
        ("nonsense", "no host:port"),
        (5, "no text"),
    ],
)
def test_an_address_that_is_none(address, said, monkeypatch):
    monkeypatch.setattr(ray_executor, "_need_ray", lambda: None)
    [fault] = address_faults(address, "address of the cluster")
    assert said in fault.what and fault.where == "address of the cluster"
    assert (
        address_faults("", "--ray")
        == address_faults(None, "--ray")
        == address_faults("auto", "--ray")
        == []
    )


@pytest.mark.parametrize(
    "workers, sizes",
    [(1, [8, 3]), (2, [8, 3]), (3, [4, 4, 3]), (5, [2, 2, 2, 2, 3]), (20, [1] * 11)],
)
def test_the_longest_parts_are_halved_until_there_is_one_for_every_worker(workers, sizes):
    context = types.SimpleNamespace(kind=lambda name: types.SimpleNamespace(whole=False))
    shards = [types.SimpleNamespace(kind="texts", at=at) for at in range(11)]
    parts = _for_each(workers, context, [shards[:8], shards[8:]])
    assert [len(part) for part in parts] == sizes and [
        one.at for part in parts for one in part
    ] == list(range(11))


def test_what_must_be_computed_together_stays_together_and_nothing_stays_nothing():
    context = types.SimpleNamespace(
        kind=lambda name: types.SimpleNamespace(whole=name == "windows")
    )
    whole, free = [types.SimpleNamespace(kind=kind) for kind in ("windows", "texts")]
    assert [len(part) for part in _for_each(9, context, [[whole] * 6, [free] * 2])] == [6, 1, 1]
    assert _for_each(4, context, []) == []
