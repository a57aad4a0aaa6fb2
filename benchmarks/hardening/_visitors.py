"""Sessions of the running app without a browser: they speak its socket's protocol, as the page in a
browser does."""

from __future__ import annotations

import time
from urllib.parse import urlencode, urlsplit

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.Slider_pb2 import Slider
from websockets.sync.client import connect
from websockets.typing import Origin, Subprotocol

LONGEST = 120.0
"""Seconds after which a rerun that does not end is an error."""


class Visitor:
    """One session, open on a page of a run. Not thread-safe: one thread each."""

    def __init__(self, address: str, run: str) -> None:
        self.run, self.page = run, ""
        self.slider: Slider | None = None
        self.socket = connect(
            f"ws://{urlsplit(address).netloc}/_stcore/stream",
            origin=Origin(address),
            max_size=None,
            subprotocols=[Subprotocol("streamlit")],
            ping_interval=None,
            compression=None,
        )

    def close(self) -> None:
        self.socket.close()

    def go(self, page: str) -> float:
        """Another page; seconds until it is drawn."""
        self.page, self.slider = page, None
        return self._rerun(BackMsg())

    def slide(self) -> float:
        """The slider of the page one step on, from its end to its beginning; seconds until the page
        is drawn."""
        if self.slider is None:
            raise RuntimeError(f"the page {self.page} has no slider")
        options = list(self.slider.options)
        now = self.slider.raw_value[0] if self.slider.set_value else options[self._at(options)]
        self._place = (options.index(now) + 1) % len(options)
        message = BackMsg()
        state = message.rerun_script.widget_states.widgets.add()
        state.id = self.slider.id
        state.string_array_value.data.append(options[self._place])
        return self._rerun(message)

    def _at(self, options: list[str]) -> int:
        """Where the slider stands: where it was left, else at its default."""
        assert self.slider is not None
        return getattr(self, "_place", int(self.slider.default[0])) % len(options)

    def _rerun(self, message: BackMsg) -> float:
        asked = message.rerun_script
        asked.page_name, asked.query_string = self.page, urlencode({"run": self.run, "tour": "no"})
        start = time.monotonic()
        self.socket.send(message.SerializeToString())
        while True:
            told = ForwardMsg()
            told.ParseFromString(self.socket.recv(timeout=LONGEST))
            kind = told.WhichOneof("type")
            if kind == "delta" and told.delta.new_element.WhichOneof("type") == "slider":
                found = told.delta.new_element.slider
                self.slider = found if found.type == Slider.SELECT_SLIDER else self.slider
            if (
                kind == "script_finished"
                and told.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN
            ):
                return time.monotonic() - start
