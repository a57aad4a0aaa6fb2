"""A hub on this machine, as much of it as sending a checkpoint needs: repositories, one commit each, a token."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = "hf_of_the_test"


class Hub:
    """`repositories`: name -> {path: bytes}; `private`: name -> bool; only TOKEN may write, and only below `owner`;
    `full`: it takes no commit."""

    def __init__(self, owner: str = "reader") -> None:
        self.owner = owner
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}
        self.asked: list[str] = []
        self.address = ""
        self.full = False


class _Answer(BaseHTTPRequestHandler):
    hub: Hub

    def do_GET(self) -> None:
        name = self.path.removeprefix("/api/models/").split("?")[0].split("/revision/")[0]
        self.hub.asked.append(f"GET {self.path}")
        if name not in self.hub.repositories:
            return self._say(404, {"error": "Repository not found"}, "RepoNotFound")
        files = [{"rfilename": path} for path in [".gitattributes", *self.hub.repositories[name]]]
        self._say(200, {"id": name, "sha": "0" * 40, "private": self.hub.private[name], "siblings": files})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.hub.asked.append(f"POST {self.path}")
        if self.headers.get("authorization") != f"Bearer {TOKEN}":
            return self._say(401, {"error": "Invalid token"})
        if self.path == "/api/repos/create":
            return self._create(json.loads(body))
        if self.path == "/api/validate-yaml":
            return self._say(200, {"errors": [], "warnings": []})
        name = "/".join(self.path.split("/")[3:5])
        if "/preupload/" in self.path:
            wanted = json.loads(body)["files"]
            plain = [{"path": one["path"], "uploadMode": "regular", "shouldIgnore": False} for one in wanted]
            return self._say(200, {"files": plain})
        if "/commit/" in self.path and self.hub.full:
            return self._say(507, {"error": "no room"})  # a client tries again for 40 s after 500
        if "/commit/" in self.path:
            lines = [json.loads(line) for line in body.splitlines() if line]
            files = [one["value"] for one in lines if one["key"] == "file"]
            self.hub.repositories[name] |= {one["path"]: base64.b64decode(one["content"]) for one in files}
            return self._say(200, {"commitUrl": f"{self.hub.address}/{name}/commit/1", "commitOid": "1" * 40})
        return self._say(404, {"error": self.path})

    def _create(self, given: dict) -> None:
        owner, name = given.get("organization") or self.hub.owner, given["name"]
        full = f"{owner}/{name}"
        if owner != self.hub.owner:
            return self._say(403, {"error": "You don't have the rights to create a model under this namespace"})
        if full in self.hub.repositories:
            return self._say(409, {"error": "You already created this model repo", "url": f"{self.hub.address}/{full}"})
        self.hub.repositories[full] = {}
        self.hub.private[full] = given.get("visibility") == "private" or bool(given.get("private"))
        return self._say(200, {"url": f"{self.hub.address}/{full}"})

    def _say(self, status: int, value: dict, error: str = "") -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        if error:
            self.send_header("x-error-code", error)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing on the terminal."""


@contextmanager
def a_hub() -> Iterator[Hub]:
    """A hub at `address` for as long as the block lasts."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Answer", (_Answer,), {"hub": hub}))
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
