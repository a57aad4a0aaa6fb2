"""Engines of fake questions: in a thread, or in a process that ends with the test."""

import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from engine.core.files import taken
from engine.resident import client
from engine.resident.server import Server
from engine.resident.warm import Warm
from engine.resident.wire import opened_log, place_of
from engine.store.runs import Store
from tests.places import ROOT
from tests.resident.fakes import known


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


@pytest.fixture
def engines(monkeypatch):
    """Engines are asked, and found in a folder of this test: paths of sockets have to be short."""
    folder = Path(tempfile.mkdtemp(prefix="pa-"))
    monkeypatch.setenv("PRUNEAUDIT_ENGINE", "on")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    yield folder
    shutil.rmtree(folder)


class Running:
    """An engine in a thread of the test."""

    def __init__(self, store, **parts):
        self.place, self.asks = place_of(store), known()
        options = {
            "known": lambda: self.asks,
            "device_of": lambda name: name,
            "warm": Warm(1 << 20),
        }
        self.server = Server(store, self.place, **{**options, **parts})
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()
        while not self.place.socket.exists() and self.thread.is_alive():
            pass

    def _serve(self):
        with taken(self.place.lock):
            self.server.serve()

    def ended(self):
        self.thread.join(30)
        return not self.thread.is_alive()

    def poll(self):
        """Stands in for its process in the client: it runs."""


@pytest.fixture
def engine(engines, store):
    """An engine that runs; the next one, if it is asked for, runs in a thread too."""
    one = Running(store)
    yield one
    one.server.stop()
    assert one.ended()


@pytest.fixture
def processes(engines, monkeypatch):
    """Engines in processes of their own, of fake questions; those that clients started."""
    found = []

    def started(store, place):
        command = [sys.executable, "-m", "tests.resident.fakes", str(store.root)]
        with opened_log(place.log) as log:
            found.append(subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log))
        return found[-1]

    monkeypatch.setattr(client, "_started", started)
    yield found
    for process in found:
        process.kill()
        process.wait()
