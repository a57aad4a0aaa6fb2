"""The embedded audit's kept tables and parts with TIMES as many prompts, made up: what tables and
pages take of memory.

Nothing is drawn: texts and verdicts of the embedded audit stand under ids of their own. Each case
is a process that says by how much its peak rose while it did one thing.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.report import memory
from benchmarks.scale.statistics import RUN, _made_up, variants_of
from engine.audit.session import Progress
from engine.core.types import rng
from engine.store.runs import EMBEDDED, Run, Store, write_tables
from engine.tracks.language_models.context import PromptContext, Shard
from engine.tracks.language_models.opening import context_of
from engine.tracks.language_models.request import AuditRequest, validate
from engine.tracks.language_models.tables import Measured, wanted_shards

PEAK = Path("/proc/self/clear_refs")


def tables(times: int, count: int) -> None:
    """Statistics of `count` variants on two axes, and writing their tables."""
    run = Store(EMBEDDED).open(RUN)
    request = AuditRequest.from_dict(run.request)
    context = _context(request, times)
    request = replace(request, axes=request.axes[:2], gamma=0.3)
    variants = [
        one for one in variants_of(run) if one.chosen and one.target_axis in ("", *request.axes)
    ][:count]
    with tempfile.TemporaryDirectory() as folder:
        context = replace(context, keeper=Store(Path(folder)).shards)
        _apart(lambda: _keep(context, run, wanted_shards(request, variants), times))
        measured = Measured(context, request, Progress(lambda event: None))
        _told(lambda: write_tables(Path(folder), measured.tables(variants)))


def pages(times: int) -> None:
    """Reading what the page Examples shows of a variant, and checking every number of the run."""
    from engine.tracks.language_models.examples import pairs
    from engine.tracks.language_models.summary import recomputed

    with tempfile.TemporaryDirectory() as folder:
        _apart(lambda: _write(Store(Path(folder)), times))
        run = Store(Path(folder)).open("many")
        last = run.table("variants")["variant"].iat[-1]
        _told(lambda: [pairs(run, last, run.request["axes"][0]), recomputed(run)])


def _apart(do: Callable[[], object]) -> None:
    """Do it in a child: memory that this process had and let go of would hide what it takes
    later."""
    child = os.fork()
    if not child:
        failed = True
        try:
            do()
            failed = False
        finally:
            os._exit(failed)
    if os.waitpid(child, 0)[1]:
        raise RuntimeError("the parts could not be made up")


def _told(do: Callable[[], object]) -> None:
    """Do it, and print by how many bytes the peak of this process rose over what it took before."""
    PEAK.write_text("5", encoding="ascii")  # the peak is what it takes now
    before = memory("VmHWM")
    do()
    print(memory("VmHWM") - before)


def _context(request: AuditRequest, times: int) -> PromptContext:
    context = context_of(validate(request))
    table = context.prompts.table
    parts = [table.assign(prompt_id=table["prompt_id"] + f"-{at}") for at in range(times)]
    return replace(
        context, prompts=replace(context.prompts, table=pd.concat(parts, ignore_index=True))
    )


def _keep(context: PromptContext, run: Run, shards: list[Shard], times: int) -> None:
    """Finished parts in the context's store. Of texts there are as many times as many as of
    prompts."""
    words, cost = (
        run.table("texts")["text"].tolist(),
        run.table("costs").head(1).drop(columns="variant"),
    )
    for shard in [
        *shards,
        *(replace(one, kind="texts") for one in shards if one.kind == "verdicts"),
    ]:
        if shard.kind == "texts":
            ids = context.rows(shard.axis, shard.split)["prompt_id"].to_numpy()
            which = rng("texts", shard).integers(0, len(words) * times, len(ids))
            texts = [f"{words[at % len(words)]} {at // len(words)}" for at in which]
            table = pd.DataFrame({"prompt_id": ids, "text": texts, "ids": [[1, 2, 3]] * len(ids)})
        else:
            table = cost if shard.kind == "cost" else _made_up(context, shard)
        context.keeper.put(context.key(shard), table)


def _write(store: Store, times: int) -> None:
    """The embedded run with so many times as many prompts, texts and verdicts."""
    run = Store(EMBEDDED).open(RUN)
    found = {name: run.table(name) for name in run.names}
    for name in ("prompts", "texts", "generations"):
        found[name] = pd.concat(
            [_again(found[name], at, run) for at in range(times)], ignore_index=True
        )
    meta = {
        name: value
        for name, value in run.meta.items()
        if name not in ("tables", "rests_on", "id", "schema")
    }
    store.write("many", meta, found)


def _again(table: pd.DataFrame, at: int, run: Run) -> pd.DataFrame:
    more = {
        "prompt_id": lambda one: one + f"-{at}",
        "text_id": lambda one: one + np.int32(at * run.rows("texts")),
    }
    return table.assign(**{name: make(table[name]) for name, make in more.items() if name in table})
