"""A run is computed once: found where it is finished, waited for where another process is at it, else computed here."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from engine.audit.executors import Executor, Local
from engine.store.runs import Run, Store
from engine.types import Hooks


def found_or_computed(
    store: Store, run_id: str, hooks: Hooks, executor: Executor | None, compute: Callable[[Executor], Run]
) -> Run:
    """The finished run. `compute` writes it, alone; the executor (this process where none is given) is closed after."""
    if store.has(run_id):
        return store.open(run_id)
    store.prove_writable()
    with store.alone(run_id, hooks.check), closing(executor or Local()) as chosen:
        if store.has(run_id):  # another process, asked in other words, was faster
            return store.open(run_id)
        return compute(chosen)
