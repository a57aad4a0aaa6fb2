"""The address of a cluster: what listens there must speak as Ray does, and what does not is said
within seconds."""

from __future__ import annotations

import socket
import threading

import pytest

from engine.audit import ray_executor
from engine.audit.ray_executor import HTTP_2, SETTINGS, address_faults


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


def _answered(server: socket.socket, answer: bytes) -> bytes:
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
