"""An audit under way, whatever its track: request, session, measurements, executors, jobs,
verification.

What whoever has Python and no screen asks for, a notebook or a script, stands here. Nothing heavy
loads until it is asked.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from engine.audit.request import Request
    from engine.core.types import Values
    from engine.store.runs import Run, Store


class _Audit(ModuleType):
    """This folder, which can also be called: `engine.audit(request)` is what a notebook says, and
    once anything in here is imported that name is the folder's."""

    def __call__(self, request: Request | Values, store: Store | str | Path | None = None) -> Run:
        """The finished run of a request, computed in this process or found; a job of every page's
        list meanwhile.

        request: of any track, or its JSON form with the name of the track under "track"; what is
        left out is as usual.
        store: where it is kept, the user's own by default. RequestError with every fault, before
        anything loads.
        """
        from engine.audit.jobs import run_job
        from engine.audit.tracks import request_from

        return run_job(
            _store(store), request_from(request) if isinstance(request, Mapping) else request
        )


def measure(
    run: Run, cut: Iterable[tuple[int, int]], store: Store | str | Path | None = None
) -> pd.DataFrame:
    """What the run's model would give without these heads, measured as the run measures its own
    variants.

    cut: (layer, head), both from 0. Columns are those of the table `results`; rows are of the
    variants "dense" and "by hand". What was measured before is found in `store`, the user's own by
    default. RequestError where the run is of a track that cannot, or rests on other data, weights
    or code than are here now.
    """
    from engine.audit.tracks import track_of_run

    return track_of_run(run).part("measure")(run, tuple(cut), _store(store))


def _store(given: Store | str | Path | None) -> Store:
    from engine.store.runs import Store, default_root

    return given if isinstance(given, Store) else Store(given or default_root())


sys.modules[__name__].__class__ = _Audit
