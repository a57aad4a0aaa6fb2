"""Language models: those that tests prove and others, read by their structure, tiny and
random."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from benchmarks.families._scores import scores
from benchmarks.families._surgery import families
from benchmarks.report import Measure
from engine.surgery.heads.replay import load_cut, save_cut
from tests.tiny import DECODERS, TINY, tiny_language_model

LEAST = 20
IDS = torch.tensor([[5, 9, 7, 22, 11, 13], [8, 30, 12, 6, 3, 10]])


def measures() -> Iterator[Measure]:
    return families(
        "decoders",
        LEAST,
        TINY | DECODERS,
        tiny_language_model,
        lambda lm: lm.model(input_ids=IDS, use_cache=False).logits,
        lambda small, record, place: load_cut(save_cut(small, record, place)),
        lambda name: scores(name, tiny_language_model(name)),
    )
