"""Who may talk to the app: browsers of this machine, at addresses this machine calls itself, and no
page but ours.

A page of the internet can make a browser ask 127.0.0.1 (a form, a socket, a frame), or call itself
127.0.0.1 by a name that it rebinds. Both are told apart by what a browser always says and a page
cannot change: Host and Origin. It stands before everything Streamlit answers, so that no foreign
word reaches code that would look it up.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

LOOPBACK = ("127.0.0.1", "localhost", "::1")
COOKIE, TOKEN = "pruneaudit", "token"
HEADERS = {
    "content-security-policy": "frame-ancestors 'self'",
    "x-frame-options": "SAMEORIGIN",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
ROOT = b"<script>window.__streamlit = {BACKEND_BASE_URL: location.origin + '/'}</script>"
_NOT_ASKED = (b"accept-encoding", b"if-none-match", b"if-modified-since", b"range")
"""Headers by which a browser would get a page packed, in part or not at all."""


class Gate:
    """An ASGI app around another. `hosts`: names besides the loopback ones; `token`: what the first
    address must hold, "" for none: then everybody who can log in to this machine can open the app.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str] = (), token: str = "") -> None:
        self.app, self.token = app, token
        self.hosts = {host.strip().lower() for host in (*LOOPBACK, *hosts) if host.strip()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
        elif why := self._refused(scope):
            await _refusal(scope, why)(scope, receive, send)
        elif self.token and not self._knows(scope):
            await self._let_in(scope)(scope, receive, send)
        else:
            await self.app(scope, receive, _with_headers(send))

    def _refused(self, scope: Scope) -> str:
        """Why a request is not answered, "" for one that is."""
        headers = _headers(scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if name_of(f"//{host}") not in self.hosts:
            return (
                f"This app answers to {', '.join(sorted(self.hosts))} only. Others are named by"
                " --hosts."
            )
        if origin is not None and not _is_of(origin, host):
            return "This app answers its own pages only."
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not _is_link(
            scope, headers
        ):
            return "This app answers its own pages only."
        return ""

    def _knows(self, scope: Scope) -> bool:
        """Whether the browser was let in before."""
        try:
            cookie = SimpleCookie(_headers(scope).get("cookie", "")).get(f"{COOKIE}-{_port(scope)}")
        except CookieError:
            return False
        return cookie is not None and hmac.compare_digest(
            cookie.value.encode(), self.token.encode()
        )

    def _let_in(self, scope: Scope) -> ASGIApp:
        """An address with the right token is turned into a cookie and leads to itself without the
        token."""
        query = parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
        given = dict(query).get(TOKEN, "")
        if scope["type"] == "websocket" or not hmac.compare_digest(
            given.encode(), self.token.encode()
        ):
            return _refusal(
                scope,
                "This app asks for the address it printed when it was started: with its token.",
            )
        rest = urlencode([(name, value) for name, value in query if name != TOKEN])
        to = quote(scope["path"].lstrip("/")) + (
            f"?{rest}" if rest else ""
        )  # quoted: browsers take \\ for /
        cookie = f"{COOKIE}-{_port(scope)}={self.token}; HttpOnly; SameSite=Strict; Path=/"
        return RedirectResponse(f"/{to}", 303, {**HEADERS, "set-cookie": cookie})


def name_of(address: str) -> str:
    """The host of an address without port, in lower case; "" for what is none."""
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return ""
    return "" if parts.username or parts.path or parts.query else (parts.hostname or "")


def _is_of(origin: str, host: str) -> bool:
    """Whether a page says to be of this host; what is no address is of none."""
    try:
        return origin != "null" and urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False


def _is_link(scope: Scope, headers: Mapping[str, str]) -> bool:
    """Whether somebody followed a link to the app: it is opened, and nothing is sent along but its
    address."""
    is_navigation = (
        headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    )
    return scope["type"] == "http" and scope["method"] == "GET" and is_navigation


def _is_page(scope: Scope) -> bool:
    """Whether a browser opens one of our pages, and no file that is kept or downloaded."""
    is_opened = _headers(scope).get("sec-fetch-dest") == "document" and scope["method"] == "GET"
    return is_opened and not scope["path"].startswith(("/media/", "/static/", "/_stcore/"))


def _headers(scope: Scope) -> dict[str, str]:
    """Headers by name; one that is given twice is that of both, which is none that is allowed."""
    found: dict[str, str] = {}
    for name, value in scope.get("headers", ()):
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def _port(scope: Scope) -> int:
    """Cookies know no ports: two apps on one machine keep theirs apart by name."""
    return (scope.get("server") or ("", 0))[1] or 0


def _with_headers(send: Send) -> Send:
    ours = {name.encode(): value.encode() for name, value in HEADERS.items()}

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [one for one in message.get("headers", ()) if one[0].lower() not in ours]
            message = {**message, "headers": [*kept, *ours.items()]}
        await send(message)

    return sent


class Rooted:
    """An ASGI app around another: tells every page that its server answers at "/". Else Streamlit
    looks for it below the page's own address first, in vain."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _is_page(scope):
            await self.app(scope, receive, send)
            return
        kept = [one for one in scope["headers"] if one[0].lower() not in _NOT_ASKED]
        said: list[Message] = []

        async def hear(message: Message) -> None:
            said.append(message)

        await self.app({**scope, "headers": kept}, receive, hear)
        begun, content = said[0], b"".join(one.get("body", b"") for one in said)
        whole = content.replace(b"<head>", b"<head>" + ROOT, 1)
        headers = [one for one in begun["headers"] if one[0].lower() != b"content-length"]
        size = (b"content-length", str(len(whole)).encode())
        await send({**begun, "headers": [*headers, size]})
        await send({"type": "http.response.body", "body": whole})


def _refusal(scope: Scope, why: str) -> ASGIApp:
    if scope["type"] == "websocket":
        return WebSocketClose(1008, why[:120])
    return PlainTextResponse(why, 403, HEADERS)
