"""Forecasts of running audits: what was said at a tenth of the time over what the rest took, and
whether progress ever went back. Six audits in small sizes, each in a fresh store: the first that
each track ships, one of them stopped at two fifths and resumed, and one of a language model with
random weights, whose heads turn out to have no bias to rank by.
"""

from __future__ import annotations

import contextlib
import copy
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.report import Measure
from engine.audit.fields import fields_of
from engine.audit.jobs import run_job
from engine.audit.tracks import tracks
from engine.core.errors import Cancelled
from engine.core.types import Event
from engine.store.runs import Store

BAR = 1.5
AT = 0.1
STOP = 0.4
RESUMED = ", resumed"


def measures() -> list[Measure]:
    ratios: dict[str, float] = {}
    backwards, silent = 0, 0.0
    small = _small()
    with tempfile.TemporaryDirectory() as folder:
        random = replace(small[0], model=_random_weights(Path(folder)))
        for request, more in [
            *((one, "") for one in small),
            (small[-1], RESUMED),
            (random, ", random weights"),
        ]:
            said, whole = _watched(request, more == RESUMED)
            ratios[f"{request.track.replace('_', ' ')}{more}"] = _off(said, whole)
            backwards += _backwards(said)
            silent = max(silent, _silent(said, whole))
    found = [
        Measure(f"forecast at a tenth of the time, {name}", off, "times off")
        for name, off in ratios.items()
    ]
    return [
        *found,
        Measure(
            f"forecast at a tenth of the time, worst of {len(found)} audits",
            max(ratios.values()),
            "times off",
            BAR,
        ),
        Measure("times the share that is done went back", backwards, "", 0),
        Measure("longest time without a sign of life", silent, "s"),
    ]


FEW_OF: dict[str, Any] = {
    "axes": 2,
    "methods": 2,
    "sparsities": 2,
    "tradeoff_strengths": 0,
    "tradeoff_methods": 0,
}
"""So many of each are kept; other fields as given."""
LESS: dict[str, Any] = {
    "surface": False,
    "max_images": 1500,
    "iterations": 40,
    "max_texts": 200,
    "score_texts": 60,
    "random_masks": 40,
    "max_corpus_tokens": 2000,
    "loss_share": 0,
}


def _small() -> list[Any]:
    """One audit of each track, with the form's quick settings and less of everything."""
    found = []
    for track in tracks().values():
        fields, request = fields_of(track.part("request")), track.part("embedded")[0]
        there = {one.name for one in fields} | set(type(request).__dataclass_fields__)
        given = {one.name: one.quick for one in fields if one.quick is not None}
        given |= {name: value for name, value in LESS.items() if name in there}
        given |= {
            name: tuple(given.get(name, getattr(request, name)))[:most]
            for name, most in FEW_OF.items()
            if name in there
        }
        if "keep_methods" in there:
            given["keep_methods"] = given["methods"][:1]
        found.append(replace(request, **given))
    return found


def _random_weights(folder: Path) -> str:
    """The demo's language model twice as deep, with weights that nobody trained."""
    from engine.models.load_language_model import load_language_model

    demo = load_language_model("demo-gpt2", device="cpu")
    torch.manual_seed(0)
    config = copy.deepcopy(demo.model.config)
    config.n_layer = 2 * demo.n_layers
    type(demo.model)(config).save_pretrained(folder)
    demo.tokenizer.save_pretrained(folder)
    return str(folder)


def _watched(request: Any, stopped: bool) -> tuple[list[tuple[float, Event]], float]:
    """Events with the seconds since the start, and how long it all took; stopped: of what followed
    a first try that was cancelled at STOP."""
    said: list[tuple[float, Event]] = []
    with tempfile.TemporaryDirectory() as folder:
        if stopped:
            with contextlib.suppress(Cancelled):
                run_job(Store(Path(folder)), request, _stop)
        start = time.perf_counter()
        run_job(
            Store(Path(folder)),
            request,
            lambda event: said.append((time.perf_counter() - start, event)),
        )
        return said, time.perf_counter() - start


def _stop(event: Event) -> None:
    if event.total and event.done >= STOP * event.total:
        raise Cancelled("two fifths are done")


def _off(said: list[tuple[float, Event]], whole: float) -> float:
    """How many times too long or too short the first forecast after a tenth of the time was;
    infinite without one."""
    for moment, event in said:
        if moment >= AT * whole and event.eta is not None:
            rest = max(whole - moment, 1e-9)
            return max(event.eta / rest, rest / max(event.eta, 1e-9))
    return float("inf")


def _backwards(said: list[tuple[float, Event]]) -> int:
    shares = [event.done / event.total for _, event in said if event.total]
    return sum(later < before - 1e-9 for before, later in zip(shares, shares[1:], strict=False))


def _silent(said: list[tuple[float, Event]], whole: float) -> float:
    moments = [0.0, *(moment for moment, _ in said), whole]
    return max(later - before for before, later in zip(moments, moments[1:], strict=False))
