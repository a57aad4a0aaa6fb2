"""Pages of other origins knock at the running app, in Chromium and by hand, while its sockets are
watched."""

from __future__ import annotations

import http.server
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from websockets.exceptions import WebSocketException
from websockets.sync.client import connect
from websockets.typing import Origin, Subprotocol

from benchmarks import app_server
from benchmarks.hardening._audits import tell
from benchmarks.report import Measure
from tests.browser.test_gate import FOREIGN, WATCHED

FOREIGN_ORIGINS = (
    "http://evil.test",
    "null",
    "https://127.0.0.1",
    "http://127.0.0.1.evil.test",
    "http://localhost:1",
)
REBOUND = ("evil.test", "127.0.0.1.evil.test", "169.254.169.254", "")
PATHS = (
    "/",
    "/_stcore/host-config",
    "/_stcore/health",
    "/_stcore/stream",
    "/app/static/x",
    "/_stcore/upload_file/a/b",
)
SETTLE_MS = 3000
"""How long a page that was let in is watched for what it sends."""


def measures() -> list[Measure]:
    """Attacks that reached anything, and what the server sent out to others while they were
    tried."""
    with tempfile.TemporaryDirectory() as name, _watched(Path(name)) as (address, log):
        reached = [*_by_hand(address), *_in_a_browser(address)]
        sent = log.read_text().splitlines() if log.exists() else []
    tell("gate", reached + sent)
    tried = len(FOREIGN_ORIGINS) * (len(PATHS) + 1) + len(REBOUND) * len(PATHS) + len(PATHS) + 4
    name = f"{tried} knocks (foreign origin, rebound host, framing, socket): anything reached"
    return [
        Measure(name, len(reached), "knocks", 0),
        Measure("… anything sent out", len(sent), "connections", 0),
    ]


@contextmanager
def _watched(folder: Path) -> Iterator[tuple[str, Path]]:
    """The app, noting whom it turns to: its address and the log."""
    (folder / "sitecustomize.py").write_text(WATCHED)
    more = {"PYTHONPATH": str(folder), "WATCHED_LOG": str(folder / "sockets.log")}
    with (
        patch.dict(os.environ, more),
        app_server.started(folder / "store", folder / "log.txt") as address,
    ):
        yield address, folder / "sockets.log"


def _by_hand(address: str) -> list[str]:
    """Requests and sockets with words that a browser would say of a foreign page; those that were
    answered."""
    own = urlsplit(address).netloc
    if not (_open(own, address) and _answered(f"{address}/", {"Host": own})):
        raise RuntimeError(
            "its own page is not answered either: nothing can be learned from refusals"
        )
    said = [{"Origin": origin, "Host": own} for origin in FOREIGN_ORIGINS]
    said += [{"Host": f"{host}:{urlsplit(address).port}" if host else ""} for host in REBOUND]
    found = [
        f"{path} with {headers}"
        for headers in said
        for path in PATHS
        if _answered(address + path, headers)
    ]
    return found + [f"socket from {origin}" for origin in FOREIGN_ORIGINS if _open(own, origin)]


def _answered(address: str, headers: dict[str, str]) -> bool:
    try:
        with urlopen(Request(address, headers=headers), timeout=10) as answer:
            return answer.status < 400
    except HTTPError:
        return False


def _open(own: str, origin: str) -> bool:
    try:
        with connect(
            f"ws://{own}/_stcore/stream",
            origin=Origin(origin),
            subprotocols=[Subprotocol("streamlit")],
        ):
            return True
    except (WebSocketException, OSError, TimeoutError):
        return False


def _in_a_browser(address: str) -> list[str]:
    """What a foreign page and a rebound name reached in Chromium."""
    path = app_server.find_chromium()
    if path is None:
        raise RuntimeError("no Chromium was found: install the package `chromium`")
    rules = ["--host-resolver-rules=MAP evil.test 127.0.0.1"]
    with app_server.browser(path, rules) as chromium, _foreign(address) as foreign:
        page = chromium.new_page()
        page.goto(foreign)
        page.wait_for_function("() => found.socket && found.read && found.post && found.frame")
        page.wait_for_timeout(SETTLE_MS)
        found = page.evaluate("() => found")
        reached = [
            f"{what}: {found[what]}" for what in ("socket", "read") if found[what] != "refused"
        ]
        framed = page.frames[1]
        if framed.url.startswith(address) and "answers its own pages only" not in framed.content():
            reached.append("the app was framed")
        return reached + [f"rebound {at}" for at in PATHS if _rebound(page, address, at)]


def _rebound(page: Any, address: str, path: str) -> bool:
    return page.goto(f"http://evil.test:{urlsplit(address).port}{path}").status < 400


@contextmanager
def _foreign(address: str) -> Iterator[str]:
    """A page of another origin on this machine that tries what a page can."""
    body = FOREIGN.format(app=address, socket=address.replace("http", "ws")).encode()

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}"
        server.shutdown()
