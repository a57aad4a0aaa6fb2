"""The app as a user starts it, on a free port of this machine, and a Chromium to look at it."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from engine.core.files import PROJECT

CHROMIUM = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_chromium() -> str | None:
    """Path of a Chromium or Chrome, None where there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def started(store: Path, log: Path) -> Iterator[str]:
    """The app's address once it answers; stopped at the end. `store` holds the user's own runs and
    may be missing."""
    with _served(store, log) as (address, _):
        yield address


@contextlib.contextmanager
def fresh() -> Iterator[tuple[str, int]]:
    """The app's address and its process, with a store of its own that goes with it."""
    with (
        tempfile.TemporaryDirectory() as folder,
        _served(Path(folder) / "store", Path(folder) / "log.txt") as found,
    ):
        yield found


@contextlib.contextmanager
def _served(store: Path, log: Path) -> Iterator[tuple[str, int]]:
    port = free_port()
    command = [sys.executable, "-m", "pages.shared.serve", "--server.port", str(port)]
    command += ["--server.headless", "true"]
    environment = {**os.environ, "PRUNEAUDIT_STORE": str(store)}
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=out, stderr=out)
        try:
            _wait(f"http://127.0.0.1:{port}/_stcore/health", process, log)
            yield f"http://127.0.0.1:{port}", process.pid
        finally:
            process.terminate()
            process.wait(20)


def _wait(address: str, process: subprocess.Popen[bytes], log: Path, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=2) as answer:
            if answer.status == 200:
                return
        time.sleep(0.05)
    raise RuntimeError(f"the app did not answer: {log.read_text(errors='replace')[-2000:]}")


@contextlib.contextmanager
def browser(path: str, more: Sequence[str] = ()) -> Iterator[Any]:
    """A Playwright browser on the installed Chromium, started with `more` options."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=[*CHROMIUM, *more])
        try:
            yield found
        finally:
            found.close()
