"""Attacks on the running app by pages of other origins, in a real browser: nothing is reached,
nothing is sent out."""

import http.server
import threading
from urllib.parse import urlsplit

import pytest

from benchmarks import app_server
from tests.browser.test_main_path import settled

pytestmark = pytest.mark.browser

WATCHED = """
import os, sys
def seen(event, words):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        to = words[1] if event != "socket.getaddrinfo" else words[:2]
        host = str(to[0]) if isinstance(to, tuple) else str(to)
        ours = ("127.0.0.1", "localhost", "::1", "None")
        if host not in ours and not host.startswith(("/", "b'/", "@", "\\0")):
            with open(os.environ["WATCHED_LOG"], "a") as log:
                log.write(f"{event} {to}\\n")
sys.addaudithook(seen)
"""
"""Imported by Python before anything else: notes whom the app turns to."""

FOREIGN = """<!doctype html><title>foreign</title>
<iframe id=frame src="{app}/?embed=true"></iframe><script>
window.found = {{}};
frame.onload = () => found.frame = "loaded";
const socket = new WebSocket("{socket}/_stcore/stream");
socket.onopen = () => found.socket = "open";
socket.onclose = () => found.socket = found.socket || "refused";
fetch("{app}/_stcore/health").then(r => found.read = r.status, () => found.read = "refused");
fetch("{app}/_stcore/upload_file/a/b", {{method: "POST", mode: "no-cors", body: "x"}})
  .then(r => found.post = r.type, () => found.post = "refused");
</script>"""


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """The app with its sockets watched, its address, and the log of what it turned to."""
    folder = tmp_path_factory.mktemp("watched")
    (folder / "sitecustomize.py").write_text(WATCHED)
    log = folder / "sockets.log"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder))
        patch.setenv("WATCHED_LOG", str(log))
        with app_server.started(folder / "store", folder / "log.txt") as address:
            yield address, log


@pytest.fixture(scope="module")
def foreign(watched):
    """A page of another origin on this machine that tries what a page can."""
    body = FOREIGN.format(app=watched[0], socket=watched[0].replace("http", "ws")).encode()

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}"
        server.shutdown()


def test_a_foreign_page_reaches_nothing_and_the_app_turns_to_nobody(watched, foreign, page):
    address, log = watched
    page.goto(foreign)
    page.wait_for_function("() => found.socket && found.read && found.post && found.frame")
    found = page.evaluate("() => found")
    assert found["socket"] == "refused" and found["read"] == "refused"
    framed = page.frames[1]
    assert not framed.url.startswith(address) or "answers its own pages only" in framed.content(), (
        framed.url
    )
    page.goto(address)
    settled(page, "")
    assert page.locator("h1").count() == 1
    assert not log.exists(), log.read_text()


def test_a_name_that_was_bound_to_this_machine_is_refused(watched, page):
    """What a page sees that rebinds its own name to 127.0.0.1 once it is loaded: the browser still
    says that name."""
    address, log = watched
    for path in ("", "/_stcore/host-config", "/_stcore/health", "/app/static/x"):
        answer = page.goto(f"http://evil.test:{urlsplit(address).port}{path}")
        assert answer.status == 403 and "answers to" in answer.text()
    assert not log.exists(), log.read_text()
