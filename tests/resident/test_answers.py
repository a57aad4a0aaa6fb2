"""What an asker gets from the engine: the same as from its own process, in turn, and nothing is
left behind."""

import os
import re
import signal
import socket
import struct
import threading

import pytest

from engine.audit.tracks import tracks
from engine.core.errors import Cancelled, PruneAuditError, RequestError, StoreError
from engine.core.files import PROJECT
from engine.core.types import Hooks
from engine.resident import client
from engine.resident.asks import asks
from engine.resident.client import ask, start, start_takes, status, stop
from engine.resident.wire import ASKED, place_of
from tests.resident.conftest import Running


def answers(store):
    """Whether the engine is there for the next one."""
    return ask("echo", {}, store)["given"] == {}


def test_answer_events_and_rows_reach_the_asker(engine, store):
    heard, rows = [], []
    found = ask(
        "echo", {"text": "grüße \ud800 \x00"}, store, Hooks(heard.append, point=rows.append)
    )
    assert found["given"] == {"text": "grüße \ud800 \x00"} and found["store"] == str(store.root)
    assert [
        (one.phase, one.done, one.total, one.eta, one.note)
        for one in heard
        if one.phase != "queued"
    ] == [("echo", 1, 2, 0.5, "hear")]
    assert rows == [{"step": 1, "loss": None}]


@pytest.mark.parametrize(
    ("how", "kind", "said"),
    [
        ("faults", RequestError, "one: is wrong. Do this.\ntwo: is wrong. Do that."),
        ("store", StoreError, "the store is full"),
        ("exit", PruneAuditError, "An error in the program: SystemExit"),
        ("memory", PruneAuditError, "not enough memory"),
        ("no json", PruneAuditError, "An error in the program: TypeError"),
        ("zero", PruneAuditError, "An error in the program: ZeroDivisionError"),
    ],
)
def test_errors_are_those_of_the_answer_and_end_no_engine(engine, store, how, kind, said):
    with pytest.raises(kind, match=said.replace(".", r"\.")) as error:
        ask("wrong", {"how": how}, store)
    assert type(error.value) is kind
    assert answers(store)


def test_an_unknown_question_names_the_known_ones(engine, store):
    with pytest.raises(RequestError, match="'no' is not known.*echo, long"):
        ask("no", {}, store)


def test_every_question_that_a_page_names_is_known():
    """ "How long will it take?" asked one that only its own class knew of."""
    pages = "".join(path.read_text() for path in (PROJECT / "pages").rglob("*.py"))
    named = set(re.findall(r'(?:\bask\(|\bASK = )"([^"]*)"', pages))
    assert named >= {"forecast", "inspect", "measure", "prompt", "start"}
    assert named <= set(asks())


def asked(store, *, begun=None, check=lambda: None, told=lambda event: None, **given):
    """Ask "long" in a thread; its result or error lands in the list that comes back."""
    found = []

    def work():
        try:
            hooks = Hooks(told, check, point=lambda row: begun and begun.set())
            found.append(ask("long", given, store, hooks))
        except PruneAuditError as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    return thread, found


def test_one_is_answered_at_a_time_in_the_order_of_asking(engine, store):
    begun, first_place, second_place = threading.Event(), threading.Event(), threading.Event()
    threads = [asked(store, begun=begun, who="first")[0]]
    assert begun.wait(30)
    threads.append(asked(store, told=lambda event: first_place.set(), who="second")[0])
    assert first_place.wait(30)
    assert [one["question"] for one in status(store)["answering"]] == ["long"]
    threads.append(asked(store, told=lambda event: second_place.set(), who="third")[0])
    assert second_place.wait(30) and len(status(store)["waiting"]) == 2
    other = threading.Event()
    threads.append(asked(store, begun=other, who="elsewhere", device="cuda:0")[0])
    assert other.wait(30), "another device has a line of its own"
    engine.asks["long"].let_go.set()
    for thread in threads:
        thread.join()
    order = [who for who in engine.asks["long"].answered if who != "elsewhere"]
    assert order == ["first", "second", "third"]


def test_cancelling_stops_the_answer(engine, store):
    begun, pressed = threading.Event(), threading.Event()

    def check():
        if pressed.is_set():
            raise Cancelled

    thread, found = asked(store, begun=begun, check=check)
    assert begun.wait(30)
    pressed.set()
    thread.join()
    assert isinstance(found[0], Cancelled) and engine.asks["long"].stopped.wait(2.0)
    assert answers(store)


def test_an_asker_that_vanishes_stops_the_answer(engine, store):
    wire = engine.place.dialled()
    wire.send({"kind": "ask", "name": "long", "given": {}})
    while wire.receive()["kind"] != "point":
        pass
    wire.close()
    assert engine.asks["long"].stopped.wait(2.0)


def test_a_question_in_line_is_cancelled_without_being_answered(engine, store):
    begun, waits = threading.Event(), threading.Event()
    first, _ = asked(store, begun=begun, who="first")
    assert begun.wait(30)
    wire = engine.place.dialled()
    wire.send({"kind": "ask", "name": "long", "given": {"who": "second"}})
    while (heard := wire.receive()["kind"]) != "cancelled":
        if heard == "queued":
            waits.set()
            wire.send({"kind": "cancel"})
    wire.close()
    engine.asks["long"].let_go.set()
    first.join()
    assert waits.is_set() and engine.asks["long"].answered == ["first"]


@pytest.mark.parametrize(
    "bytes_",
    [
        b"GET / HTTP/1.1\r\n\r\n" * 9,
        struct.pack(">I", 2**31) + b"x",
        struct.pack(">I", 3) + b"[1]",
        struct.pack(">I", 4) + b"\x80\x04K\x01",
        struct.pack(">I", 200000) + b"[" * 200000,
        struct.pack(">I", 16) + b'{"kind": "what"}',
        struct.pack(">I", 14) + b'{"kind":"ask"}',
    ],
    ids=["http", "too long", "no object", "pickle", "deep", "unknown kind", "nothing asked"],
)
def test_what_is_no_question_is_told_and_ends_no_engine(engine, store, bytes_):
    wire = engine.place.dialled()
    assert wire.receive()["kind"] == "hello"
    wire.connection.sendall(bytes_)
    heard = wire.receive()
    assert heard["kind"] == "faults" and heard["faults"][0]["what"]
    wire.close()
    assert answers(store)


def test_half_a_message_and_silence_hold_nobody_up(engine, store):
    wires = [engine.place.dialled() for _ in range(5)]
    for wire in wires:
        wire.connection.sendall(b"\x00\x00\x01\x00{")
    assert answers(store)
    for wire in wires:
        wire.close()


def test_a_large_prompt_arrives_and_a_huge_one_is_refused(engine, store):
    assert len(ask("echo", {"prompt": "ä" * 2**20}, store)["given"]["prompt"]) == 2**20
    with pytest.raises(RequestError, match="4.0 MB.*At most 4 MB"):
        ask("echo", {"prompt": "x" * ASKED}, store)


def test_many_connections_hold_no_engine_up_for_ever(engine, store):
    silent = [engine.place.dialled() for _ in range(70)]
    for one in silent:
        one.close()
    assert answers(store)


def test_status_says_what_is_loaded_and_stop_ends_it(engine, store):
    assert status(store)["loaded"] == []
    ask("echo", {}, store)
    found = status(store)
    assert found["loaded"] == ["model"] and found["memory"]["used"] == 1000 and found["current"]
    assert stop(store) and engine.ended() and not engine.place.socket.exists()
    assert status(store) == {"running": False, "store": str(store.root)} and not stop(store)


def test_stopping_tells_those_who_are_answered_or_wait(engine, store):
    begun, waits = threading.Event(), threading.Event()
    first, one = asked(store, begun=begun)
    assert begun.wait(30)
    second, other = asked(store, told=lambda event: waits.set())
    assert waits.wait(30) and stop(store)
    first.join(), second.join()
    assert isinstance(one[0], Cancelled) and "stopped" in str(other[0])


def test_an_engine_of_other_code_is_replaced_once_its_answer_is_done(engine, store, monkeypatch):
    engine.server.code = "older"
    later = []

    def started(store, place):
        assert engine.ended(), "two engines of one store never meet"
        later.append(Running(store))
        return later[-1]

    monkeypatch.setattr(client, "_started", started)
    assert not status(store)["current"]
    assert answers(store)
    later[0].server.stop()
    assert later[0].ended() and len(later) == 1


@pytest.mark.parametrize("why", ["idle", "store", "another store", "socket", "code"])
def test_it_ends_by_itself(engines, store, monkeypatch, why):
    monkeypatch.setattr("engine.resident.server.LOOK", 0.0)
    store.root.mkdir()
    one = Running(store, idle=0.0 if why == "idle" else 1e9)
    if why == "store":
        store.root.rename(store.root.with_name("moved"))
    if (
        why == "another store"
    ):  # as its own marker of an answer makes it anew, maybe between these two lines
        store.root.rename(store.root.with_name("moved"))
        store.root.mkdir(exist_ok=True)
    if why == "socket":
        one.place.socket.unlink()
    if why == "code":
        one.server.code = "older"
    assert one.ended()


def test_a_store_that_cannot_be_written_is_answered_all_the_same(engines, tmp_path):
    from engine.store.runs import Store

    (tmp_path / "file").touch()
    store = Store(tmp_path / "file" / "store")
    one = Running(store)
    assert one.place.log.parent == engines / "pruneaudit"
    assert answers(store)
    one.server.stop()
    assert one.ended()


def test_another_user_s_connection_is_closed_unheard(engine, monkeypatch):
    monkeypatch.setattr("engine.resident.wire.Wire.is_of_this_user", lambda wire: False)
    plain = socket.socket(socket.AF_UNIX)
    plain.connect(str(engine.place.socket))
    assert plain.recv(10) == b""
    plain.close()
    with pytest.raises(PruneAuditError, match="served by another user"):
        engine.place.dialled()


# What may happen to the engine's process: killed, started twice, broken; the asker hardly
# notices.


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
