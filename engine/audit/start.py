"""Audits and measurements for whoever has Python and no screen: a notebook, a script. No torch
until they run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.audit.jobs import run_job
from engine.audit.tracks import request_from, track_of_run, tracks
from engine.core.errors import Fault, RequestError
from engine.store.runs import Run, Store, default_root

if TYPE_CHECKING:
    import pandas as pd

    from engine.audit.request import Request


def audit(request: Request | Mapping[str, Any], store: Store | str | Path | None = None) -> Run:
    """The finished run of a request, computed in this process or found; a job of every page's list
    meanwhile.

    request: of any track, or its JSON form with the name of the track under "track"; what is left
    out is as usual.
    store: where it is kept, the user's own by default. RequestError with every fault, before
    anything loads.
    """
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
    measured = track_of_run(run)
    if not measured.measure:
        can = ", ".join(name for name, entry in tracks().items() if entry.measure)
        raise RequestError(
            Fault(
                "run",
                f"{run.id} is of {measured.name}.",
                f"Units can be chosen by hand for: {can}.",
            )
        )
    return measured.part("measure")(run, tuple(cut), _store(store))


def _store(given: Store | str | Path | None) -> Store:
    return given if isinstance(given, Store) else Store(given or default_root())
