"""What may happen to the engine's process: killed, started twice, broken; the asker hardly
notices."""

import os
import signal
import socket
import threading

import pytest

from engine.audit.tracks import tracks
from engine.core.errors import PruneAuditError, RequestError
from engine.core.types import Hooks
from engine.resident import client
from engine.resident.client import ask, start, start_takes, status, stop
from engine.resident.wire import place_of


def test_killed_over_a_question_it_is_started_again_and_asked_once_more(processes, store):
    killed = []

    def kill(row):
        killed.append(row["pid"])
        os.kill(row["pid"], signal.SIGKILL)

    found = ask("second", {}, store, Hooks(point=kill))
    assert killed and found["pid"] not in killed and len(processes) == 2
    assert stop(store) and processes[-1].wait(30) == 0


def test_killed_again_and_again_it_says_so(processes, store):
    with pytest.raises(PruneAuditError, match="ended twice"):
        ask("long", {}, store, Hooks(point=lambda row: os.kill(row["pid"], signal.SIGKILL)))
    assert len(processes) == 2


def test_what_starting_it_takes_is_known_without_starting_it(processes, store, monkeypatch):
    assert start_takes(store) == client.COLD and not processes
    ask("echo", {}, store)
    assert start_takes(store) == 0 and len(processes) == 1
    assert stop(store) and start_takes(store) == client.COLD
    monkeypatch.setenv("PRUNEAUDIT_ENGINE", "off")
    assert start_takes(store) == 0


def test_two_who_start_it_at_the_same_moment_are_answered_by_one(processes, store):
    together, pids = threading.Barrier(2), []

    def work():
        together.wait()
        pids.append(ask("echo", {}, store)["pid"])

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(pids) == 2 and len(set(pids)) == 1
    assert status(store)["pid"] == pids[0]


def test_a_stale_socket_is_replaced(processes, store):
    place = place_of(store)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(place.socket))
    assert place.socket.exists() and place.dialled() is None
    assert ask("echo", {}, store)["pid"] == processes[0].pid


def test_one_that_cannot_start_says_why(engines, store, monkeypatch):
    monkeypatch.setenv("PRUNEAUDIT_MEMORY", "a lot")
    with pytest.raises(
        PruneAuditError, match="could not start:\nPRUNEAUDIT_MEMORY: 'a lot' is no amount"
    ) as error:
        ask("start", {}, store)
    assert not isinstance(error.value, RequestError)


@pytest.fixture
def real(engines, store):
    yield start(store)
    stop(store)


def test_the_real_engine_checks_a_request_and_ends_when_told(real, store):
    track = next(iter(tracks().values()))
    request = track.part("embedded")[0].to_dict()
    with pytest.raises(RequestError, match="/no/such"):
        ask("start", {"request": {**request, "model": "/no/such"}}, store)
    with pytest.raises(RequestError, match="'job-0' is not in the store"):
        ask("start", {"job_id": "job-0"}, store)
    found = status(store)
    assert found["pid"] == real["pid"] and found["current"]
    # An answer is read a moment before its place is free.
    assert any(not status(store)["answering"] for _ in range(1000))
    assert stop(store) and not status(store)["running"]
    assert client.last_words(place_of(store).log) == ""
