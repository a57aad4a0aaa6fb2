"""A wall that stops tracebacks: what went wrong is said in words, its details go to the log."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

import streamlit as st

from engine.core.errors import PruneAuditError, RequestError
from pages.shared.safe import plain

_log = logging.getLogger("pruneaudit")


@contextlib.contextmanager
def boundary() -> Iterator[None]:
    """Turns every exception into words. Tracebacks go to the log, never to the screen."""
    try:
        yield
    except RequestError as error:
        for fault in error.faults:
            st.error(plain(str(fault)), icon=":material/error:")
    except PruneAuditError as error:
        st.error(plain(str(error)), icon=":material/error:")
    except Exception:
        _log.exception("a page failed")
        st.error(
            "This part could not be drawn. Nothing was changed. The details are in the terminal"
            " where the app runs.",
            icon=":material/error:",
        )
