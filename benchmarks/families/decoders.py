"""Language models: those with a file of their own and those read by their structure, tiny and
random."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from benchmarks.families._scores import scores
from benchmarks.families._surgery import surgery
from benchmarks.report import Measure
from engine.surgery.heads.replay import load_cut, save_cut
from tests.tiny import DECODERS, TINY, folder_of, tiny_language_model

LEAST = 20
IDS = torch.tensor([[5, 9, 7, 22, 11, 13], [8, 30, 12, 6, 3, 10]])


def measures() -> Iterator[Measure]:
    types: set[str] = set()
    for name, (model_type, _) in (TINY | DECODERS).items():
        rows = surgery(
            name,
            partial(tiny_language_model, name),
            lambda lm: lm.model(input_ids=IDS, use_cache=False).logits,
            lambda small, record, place: load_cut(save_cut(small, record, place)),
            folder_of(name),
        )
        yield from rows
        if len(rows) > 1:
            yield from scores(name, tiny_language_model(name))
            types.add(model_type)
    yield Measure("families of decoders accepted", len(types), "families", LEAST, at_least=True)
