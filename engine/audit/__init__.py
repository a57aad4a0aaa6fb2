"""An audit under way, whatever its track: request, session, measurements, executors, jobs,
verification."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from engine.audit.request import Request
    from engine.store.runs import Run, Store


class _Audit(ModuleType):
    """This folder, which can also be called: `engine.audit(request)` is what a notebook says, and
    once anything in here is imported that name is the folder's."""

    def __call__(
        self, request: Request | Mapping[str, Any], store: Store | str | Path | None = None
    ) -> Run:
        """The finished run of a request, or of its JSON form; see `engine.audit.start.audit`."""
        from engine.audit.start import audit

        return audit(request, store)


sys.modules[__name__].__class__ = _Audit
