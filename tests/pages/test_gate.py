"""The gate before the app: this machine's own browser passes, every other word is refused before
anybody reads it."""

import pytest

from pages.shared import roots, serve
from pages.shared.gate import ROOT, Gate, Rooted

HOST = "127.0.0.1:8501"


def asked(gate, path="/", query="", kind="http", method="GET", **headers):
    """What the gate sends back for one request, and whether the app behind it was reached."""
    sent, reached = [], []

    async def app(scope, receive, send):
        reached.append(scope)
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [(b"X-Frame-Options", b"ALLOWALL")],
            }
        )

    async def send(message):
        sent.append(message)

    named = {"host": HOST, **{name.replace("_", "-"): value for name, value in headers.items()}}
    scope = {
        "type": kind,
        "path": path,
        "query_string": query.encode(),
        "method": method,
        "server": ("127.0.0.1", 8501),
        "headers": [
            (name.encode(), value.encode()) for name, value in named.items() if value is not None
        ],
    }
    gate.app = app
    with pytest.raises(
        StopIteration
    ):  # nothing in it waits, so one step is all; a loop may run in this process
        gate(scope, None, send).send(None)
    return sent, bool(reached)


@pytest.mark.parametrize("host", ["127.0.0.1:8501", "localhost:8501", "LOCALHOST", "[::1]:8501"])
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_this_machines_names_pass(host, kind):
    assert asked(Gate(None), host=host, kind=kind)[1]
    assert asked(
        Gate(None), host=host, origin=f"http://{host}", kind=kind, sec_fetch_site="same-origin"
    )[1]


@pytest.mark.parametrize(
    "host",
    [
        "evil.test:8501",
        "127.0.0.1.evil.test",
        "evil.test@127.0.0.1",
        "127.0.0.1/x",
        "127.0.0.1:x",
        "",
        None,
        "[::1",
        "127.0.0.1, evil.test",
        "192.168.1.7:8501",
    ],
)
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_other_names_do_not(host, kind):
    """A name that was bound to 127.0.0.1 after its page was loaded is still the name the browser
    says."""
    sent, reached = asked(Gate(None), host=host, kind=kind)
    assert not reached and (sent[0].get("status") == 403 or sent[0]["type"] == "websocket.close")


@pytest.mark.parametrize(
    "origin",
    ["http://evil.test", "null", "http://127.0.0.1:9000", "https://localhost:8501", "", "http://["],
)
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_pages_of_other_origins_do_not(origin, kind):
    assert not asked(Gate(None), origin=origin, kind=kind)[1]


def test_a_link_from_elsewhere_opens_the_app_and_nothing_else_does():
    link = {
        "sec_fetch_site": "cross-site",
        "sec_fetch_mode": "navigate",
        "sec_fetch_dest": "document",
    }
    assert asked(Gate(None), **link)[1]
    assert not asked(Gate(None), **{**link, "sec_fetch_dest": "iframe"})[1]
    assert not asked(Gate(None), **{**link, "sec_fetch_mode": "no-cors"})[1]
    assert not asked(Gate(None), method="POST", **link)[1]
    assert not asked(Gate(None), sec_fetch_site="cross-site", kind="websocket")[1]


@pytest.mark.parametrize(
    ("path", "dest", "told"),
    [
        ("/heads", "document", ROOT),
        ("/media/report.html", "document", b""),
        ("/heads", "empty", b""),
    ],
)
def test_a_page_is_told_where_its_server_is_and_a_download_stays_as_it_is(path, dest, told):
    sent, asked_for = [], []

    async def app(scope, receive, send):
        asked_for.extend(name for name, _ in scope["headers"])
        head = [(b"content-type", b"text/html"), (b"content-length", b"15")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": b"<html><he", "more_body": True})
        await send({"type": "http.response.body", "body": b"ad>...", "more_body": False})

    async def send(message):
        sent.append(message)

    headers = [(b"sec-fetch-dest", dest.encode()), (b"accept-encoding", b"gzip")]
    scope = {"type": "http", "method": "GET", "path": path, "headers": headers}
    with pytest.raises(StopIteration):
        Rooted(app)(scope, None, send).send(None)
    body = b"".join(one.get("body", b"") for one in sent)
    assert body == b"<html><head>" + told + b"..."
    assert int(dict(sent[0]["headers"])[b"content-length"]) == len(b"<html><head>...") + len(told)
    assert (b"accept-encoding" in asked_for) == (not told)


def test_a_name_can_be_added_and_only_that():
    gate = Gate(None, hosts=["audit.lab", ""])
    assert asked(gate, host="audit.lab:8501")[1] and not asked(gate, host="x.audit.lab")[1]


def test_answers_say_that_nobody_may_frame_them():
    headers = dict(asked(Gate(None))[0][0]["headers"])
    assert headers[b"x-frame-options"] == b"SAMEORIGIN" and b"X-Frame-Options" not in headers
    assert headers[b"content-security-policy"] == b"frame-ancestors 'self'"


def test_with_a_token_only_the_printed_address_opens():
    gate = Gate(None, token="secret")
    for query in ("", "token=", "token=wrong", "token=secre", "TOKEN=secret"):
        assert not asked(gate, query=query)[1] and asked(gate, query=query)[0][0]["status"] == 403
    assert not asked(gate, query="token=secret", kind="websocket")[1]
    sent, reached = asked(gate, path="//evil.test/summary", query="run=a%26b&token=secret")
    told = dict(sent[0]["headers"])
    assert (
        not reached
        and sent[0]["status"] == 303
        and told[b"location"] == b"/evil.test/summary?run=a%26b"
    )
    turned = dict(asked(gate, path="/\\evil.test", query="token=secret")[0][0]["headers"])[
        b"location"
    ]
    assert turned == b"/%5Cevil.test"  # browsers take a backslash for a slash
    cookie = told[b"set-cookie"].decode()
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert asked(gate, cookie=cookie.split(";")[0])[1]
    assert asked(gate, cookie=cookie.split(";")[0], kind="websocket")[1]
    for wrong in ("pruneaudit-8501=secre", "pruneaudit-8502=secret", "x", "a=b; ; =", ""):
        assert not asked(gate, cookie=wrong)[1], wrong


def test_our_options_are_taken_and_streamlits_stay(monkeypatch):
    monkeypatch.setenv(serve.HOSTS, "")
    monkeypatch.setenv(serve.TOKEN, "")
    rest = serve.ours_taken(
        ["--server.port", "1", "--token", "--hosts=a,b", "--server.headless", "true"]
    )
    assert rest == ["--server.port", "1", "--server.headless", "true"]
    for variable in serve.VALUED.values():
        monkeypatch.setenv(variable, "")
    assert serve.ours_taken(["--roots", "/a:/b", "--export-root=/c=d", "--browser.x"]) == [
        "--browser.x"
    ]
    assert [serve.os.environ[name] for name in (roots.READ, roots.WRITE)] == ["/a:/b", "/c=d"]
    serve.ours_taken(["--token", "--hosts=a,b"])
    assert serve.os.environ[serve.HOSTS] == "a,b" and len(serve.os.environ[serve.TOKEN]) >= 32
