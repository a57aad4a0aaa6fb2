"""Workers of a cluster that die in the middle of their work, once for every kind of part, wherever
that is made; and machines that die with all their workers."""

from __future__ import annotations

import importlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from engine.audit.measurements import MeasurementContext
from engine.audit.ray_executor import OnRay
from engine.core.types import Hooks

LOOK = 2
"""The look for a cancel at which a worker dies: something is computed between the first and it."""

DOOMED = "doomed node "
"""Begins the name of a file: the machine whose id follows dies in the middle of the first part it
is given."""
Given = tuple[tuple[str, Any], str]


def on_dying_workers(folder: Path) -> type[OnRay]:
    """An executor whose workers die as said above. `folder` gets a file for each death, named by
    the kind of part."""
    folder.mkdir()

    class OnDyingWorkers(OnRay):
        asked: ClassVar[set[str]] = set()
        """Kinds of parts that were handed out."""

        def run(self, context: Any, *others: Any) -> None:
            if "recipe" not in vars(context):
                recipe = context.recipe()
                context.recipe = lambda: (f"{__name__}:context_of", (recipe, str(folder)))
            super().run(context, *others)

        def close(self) -> None:
            self.asked.update(bundle[0].kind for bundle in self.attempts)
            super().close()

    return OnDyingWorkers


def context_of(given: Given) -> MeasurementContext:
    """The context of a recipe, as a worker makes it, which dies the first time that a kind of part
    is computed."""
    (maker, inner), folder = given
    module, _, name = maker.partition(":")
    context = getattr(importlib.import_module(module), name)(inner)
    computed = context._computed

    def once_not(group: list[Any]) -> Any:
        end = how_to_end(Path(folder), group[0].kind)
        if end is None:
            return computed(group)
        context.hooks = Hooks(check=_at(LOOK, end))
        computed(group)
        return end()  # it never looked a second time

    context._computed = once_not
    return context


def how_to_end(folder: Path, kind: str) -> Callable[[], None] | None:
    """What kills this worker in the middle of a part of this kind; None: nothing does."""
    import ray

    doomed = folder / f"{DOOMED}{ray.get_runtime_context().get_node_id()}"
    if doomed.exists():
        return lambda: die_with_the_machine(doomed)
    return die if first(folder / kind) else None


def first(mark: Path) -> bool:
    """Whether nobody made this file before."""
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def die() -> None:
    """As the system kills a process: nothing is said, nothing tidied."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_with_the_machine(mark: Path) -> None:
    """The node's own process, which is this one's parent, goes first; `mark` then says that it is
    done."""
    mark.rename(mark.with_name("node"))
    os.kill(os.getppid(), signal.SIGKILL)
    die()


def _at(look: int, end: Callable[[], None]) -> Callable[[], None]:
    """A look for a cancel that ends the process when it is taken for the `look`-th time."""
    looks = iter(range(1, look))
    return lambda: None if next(looks, None) else end()
