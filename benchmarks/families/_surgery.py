"""What every family of transformers must show: masked, zeroed, cut, reloaded, and cut again from a
mask.json."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmarks.report import Measure
from engine.core.errors import RequestError
from engine.core.types import HeadMask
from engine.models.transformer import TransformerModel
from engine.surgery.apply import apply_mask
from engine.surgery.heads.mask import M, cut, masked, prove_mask_works, zeroed
from engine.surgery.record import record_of, write_mask
from tests.tiny import folder_of

BAR = 1e-4
"""Largest difference of logits allowed, as a share of the largest logit."""
Logits = Callable[[M], torch.Tensor]
Saved = Callable[[M, Any, Path], M]


def families(
    kind: str,
    least: int,
    models: Mapping[str, tuple[str, Any]],
    tiny: Callable[[str], M],
    logits: Logits[M],
    saved: Saved[M],
    more: Callable[[str], Sequence[Measure]] = lambda name: (),
) -> Iterator[Measure]:
    """Rows of every family and how many are accepted. models: type and settings by name; more: rows
    of one that is accepted."""
    types = set()
    for name, (model_type, _) in models.items():
        rows = surgery(name, partial(tiny, name), logits, saved, folder_of(name))
        yield from rows
        if len(rows) > 1:
            yield from more(name)
            if not name.endswith("_classifier"):  # a decoder with a head is no encoder
                types.add(model_type)
    yield Measure(f"families of {kind} accepted", len(types), "families", least, at_least=True)


def mask_of(model: TransformerModel) -> HeadMask:
    """Heads of several layers, one layer whole, shared keys left uneven; of one layer, two
    heads."""
    if model.n_layers == 1:
        return HeadMask(1, model.n_heads, ((0, 0), (0, 2)))
    units = [
        (0, 1),
        *((1, head) for head in range(model.n_heads)),
        (model.n_layers - 1, model.n_heads - 1),
    ]
    return HeadMask(model.n_layers, model.n_heads, tuple(units))


@torch.no_grad()
def surgery(
    name: str, load: Callable[[], M], logits: Logits[M], saved: Saved[M], folder: Path
) -> list[Measure]:
    """Rows of one family; saved: writes a cut model with its record into a folder and loads it
    again."""
    try:
        model = load()
        prove_mask_works(model)
    except RequestError as error:
        return [
            Measure(f"{name}: accepted ({error.faults[0].what})", 0.0, "of 1", 1.0, at_least=True)
        ]
    return [
        Measure(f"{name}: accepted", 1.0, "of 1", 1.0, at_least=True),
        *_equal(name, model, logits, saved, folder),
    ]


def _equal(
    name: str, model: M, logits: Logits[M], saved: Saved[M], folder: Path
) -> Iterator[Measure]:
    mask = mask_of(model)
    with masked(model, mask):
        wanted = logits(model)
    record, small = record_of(model, mask), cut(model, mask)
    say = "cut" if model.adapter.cuts else "silenced for good (no head can be cut out)"

    def row(what: str, other: M) -> Measure:
        found = logits(other)
        share = (found - wanted).abs().max() / wanted.abs().max()
        return Measure(
            f"{name}: masked against {what}, largest relative difference", share, "of 1", BAR
        )

    yield Measure(
        f"{name}: mask moves logits by",
        (logits(model) - wanted).abs().max(),
        "",
        1e-3,
        at_least=True,
    )
    yield row("zeroed", zeroed(model, mask))
    yield row(say, small)
    with TemporaryDirectory() as place:
        yield row("reloaded", saved(small, record, Path(place) / "cut"))
        applied = apply_mask(write_mask(Path(place) / "mask.json", record), folder, device="cpu")
        yield row("mask.json applied to a fresh load", applied.cut)
