"""Addresses of earlier versions lead on before a page is drawn, so that they leave no step in the browser's history."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlencode

from pages.shared.gate import App, Receive, Scope, Send
from pages.shared.sections import FIRST, FORMER


class Former:
    """An ASGI app around another: a former address, or the name of the first page, is answered with today's."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        to = address_of(scope) if scope["type"] == "http" else None
        if to is None:
            await self.app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 307, "headers": [(b"location", to.encode("ascii"))]})
        await send({"type": "http.response.body", "body": b""})


def address_of(scope: dict[str, Any] | Scope) -> str | None:
    """Where a request is led on to, with its parameters; None for an address of today."""
    name = scope["path"].strip("/")
    page, added = (FIRST, {}) if name == FIRST else FORMER.get(name, ("", {}))
    if not page:
        return None
    query = [*parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True), *added.items()]
    return f"/{'' if page == FIRST else page}{f'?{urlencode(query)}' if query else ''}"
