"""Sets of units as people name them: words or a `mask.json`, for the model of a run. No torch."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from engine.core.errors import Fault, RequestError, refusal
from engine.core.types import FilterMask, HeadMask, Values
from engine.store.runs import Run
from engine.surgery.record import check_filter_mask_fits, read_filter_mask, read_mask


def heads_of(words: Sequence[Any], n_layers: int, n_heads: int) -> HeadMask:
    """A mask from heads by layer and head ("2.3") or as units (19, "19"). RequestError for what is
    none."""
    found, faults = [], []
    for word in words:
        match = re.fullmatch(r"\s*(?:(\d{1,9})\.)?(\d{1,9})\s*", str(word))
        if match is None or isinstance(word, bool):
            fix = (
                "Write layer.head, as in 2.3, both from 0, or the head's number in the whole model."
            )
            faults.append(Fault("heads", f"{str(word)[:40]!r} is no head.", fix))
        else:
            found.append(
                (int(match[1]), int(match[2])) if match[1] else divmod(int(match[2]), n_heads)
            )
    if faults:
        raise RequestError(faults[:10])
    return _mask("heads", n_layers, n_heads, found)


def _mask(where: str, n_layers: int, n_heads: int, cut: Sequence[tuple[int, int]]) -> HeadMask:
    """RequestError for heads that a model does not have."""
    try:
        return HeadMask(n_layers, n_heads, tuple(cut))
    except ValueError as error:
        fix = "Name heads of this model once each."
        raise refusal(where, f"{error}.", fix) from error


def units_of(run: Run, said: str | Path) -> tuple[int, ...]:
    """Flat units of a mask.json (a path), or of words: "0.1,2.3" is head 1 of layer 0 and head 3 of
    layer 2."""
    if isinstance(said, Path):
        return units_of_mask(run, said)
    model = run.model
    return heads_of(
        re.split(r"[\s,;]+", said.strip(" ,;")) if said else (), model["n_layers"], model["n_heads"]
    ).units


def units_of_mask(run: Run, path: str | Path) -> tuple[int, ...]:
    """Flat units of a mask.json. RequestError unless it was made for the very model of the run,
    silenced alike."""
    record, model = read_mask(path), run.model
    shape, known = (record.n_layers, record.n_heads), (model["n_layers"], model["n_heads"])
    if shape != known or record.weight_hash != model["weight_hash"]:
        what = (
            f"is for {record.model} with other weights or another shape than {model['name']} of"
            " this run."
        )
        raise refusal("mask", what, "Give a mask of the model that was audited.")
    if bool(record.means) != (run.request.get("ablation", "zero") == "mean"):
        what = "sets silenced heads to something else than this run does (zero, or their mean)."
        raise refusal("mask", what, "Give a mask from an audit with the same --ablation.")
    return record.mask.units


def mask_of(run: Run, cut: Sequence[tuple[int, int]]) -> HeadMask:
    """Heads of the run's model, (layer, head) from 0. RequestError for others."""
    return _mask("cut", run.model["n_layers"], run.model["n_heads"], cut)


def mask_of_units(run: Run, units: Sequence[int]) -> HeadMask:
    """The same of flat units."""
    return mask_of(run, [divmod(unit, int(run.model["n_heads"])) for unit in units])


def written_heads(run: Run, units: Sequence[int]) -> str:
    """Heads as `units_of` reads them."""
    n_heads = int(run.model["n_heads"])
    return ",".join(f"{unit // n_heads}.{unit % n_heads}" for unit in units)


# The same of filters.


WORD = re.compile(r"(?:(.+)\.)?(\d{1,9}(?:-\d{1,9})?(?:_\d{1,9}(?:-\d{1,9})?)*)")


def widths_of(run: Run) -> tuple[tuple[str, int], ...]:
    """(layer, filters) of the run's model, in the order of the network."""
    return tuple((str(name), int(width)) for name, width in run.model["layers"])


def _one(run: Run) -> str:
    """What a unit of the run's model is called: "filter", or "head" of a vision transformer."""
    return str(run.model.get("units", "filters")).removesuffix("s")


def starts_of(run: Run) -> dict[str, int]:
    """The first flat unit of every layer."""
    widths = widths_of(run)
    firsts = np.cumsum([0, *(width for _, width in widths)])
    return {name: int(first) for (name, _), first in zip(widths, firsts, strict=False)}


def filter_units(run: Run, said: str | Path) -> tuple[int, ...]:
    """Flat units of a mask.json (a path), or of words. "conv1.0-3, layer2.0.conv1.7" is the first
    four filters of one layer and the eighth of another, "conv1.0-3_7" the first four and the eighth
    of one. A number without a layer counts through all layers.
    """
    if isinstance(said, Path):
        record, model = read_filter_mask(said), run.model
        check_filter_mask_fits(record, model["architecture"], model["weight_hash"], model["name"])
        if record.mask.widths != widths_of(run):
            what = f"is for layers of other widths than {model['name']} of this run has."
            raise refusal("mask", what, "Give a mask of the model that was audited.")
        return checked_filters(run, units_of_cut(run, dict(record.mask.cut)))
    words = re.split(r"[\s,;]+", said.strip(" ,;")) if said.strip(" ,;") else []
    found, faults = list[int](), list[Fault]()
    for word in words:
        try:
            found += _named(run, word)
        except RequestError as error:
            faults += error.faults
    if faults:
        raise RequestError(faults[:10])
    return checked_filters(run, found)


def checked_filters(run: Run, units: Sequence[int]) -> tuple[int, ...]:
    """Units ascending. RequestError where one is named twice, or none of a layer stays: a layer
    cannot be empty."""
    if len(set(units)) < len(units):
        raise refusal("filters", f"a {_one(run)} is named twice.", "Name each once.")
    mask = filter_mask(run, units)
    widths = dict(mask.widths)
    if empty := [group for group, indices in mask.cut if len(indices) == widths[group]]:
        what = (
            f"every {_one(run)} of {', '.join(empty)} is off, and a network without a layer answers"
            " nothing."
        )
        raise refusal("filters", what, "Leave one on in every layer.")
    return tuple(sorted(units))


def filter_mask(run: Run, units: Sequence[int]) -> FilterMask:
    """The mask of flat units of the run's model."""
    widths = widths_of(run)
    keep = np.ones(sum(width for _, width in widths), dtype=bool)
    keep[list(units)] = False
    return FilterMask.from_keep(widths, keep)


def written_filters(run: Run, units: Sequence[int]) -> str:
    """Filters as `filter_units` reads them: a word per layer, neighbours as a range."""
    widths, starts = widths_of(run), starts_of(run)
    parts = []
    for name, width in widths:
        mine = sorted(
            unit - starts[name] for unit in units if starts[name] <= unit < starts[name] + width
        )
        spans = []
        for _, neighbours in groupby(enumerate(mine), lambda pair: pair[1] - pair[0]):
            row = [unit for _, unit in neighbours]
            spans.append(f"{row[0]}-{row[-1]}" if len(row) > 1 else str(row[0]))
        parts += [f"{name}.{'_'.join(spans)}"] if spans else []
    return ",".join(parts)


def units_of_cut(run: Run, cut: Mapping[str, Sequence[int]]) -> tuple[int, ...]:
    """Flat units of filters by layer, as tables and masks have them."""
    starts = starts_of(run)
    return tuple(
        sorted(starts[group] + int(index) for group, indices in cut.items() for index in indices)
    )


def filter_name(run: Run, unit: int) -> str:
    """A filter in words that `filter_units` reads."""
    return written_filters(run, [unit])


def _named(run: Run, word: str) -> Iterator[int]:
    """Flat units of one word. RequestError for what is none."""
    match, widths, starts = WORD.fullmatch(word), dict(widths_of(run)), starts_of(run)
    layer = match[1] if match else None
    start, width = (
        (starts.get(layer, 0), widths.get(layer, 0)) if layer else (0, sum(widths.values()))
    )
    for span in match[2].split("_") if match else ["1-0"]:
        first, _, last = span.partition("-")
        if not int(first) <= int(last or first) < width:
            fix = (
                f"Write layer.{_one(run)} from 0, as in {next(iter(widths))}.0-3. Layers:"
                f" {', '.join(widths)}."
            )
            raise refusal("filters", f"{word[:60]!r} is no {_one(run)} of this model.", fix)
        yield from range(start + int(first), start + int(last or first) + 1)


def cut_of(run: Run, variant: Values) -> tuple[int, ...] | None:
    """Flat units of a row of the variants table; None for one that stands for several trials."""
    return units_of_cut(run, json.loads(variant["cut"])) if variant["cut"] else None
