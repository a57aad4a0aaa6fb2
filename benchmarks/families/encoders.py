"""Text classifiers: encoders, and decoders with a classification head, tiny and random."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.families._surgery import surgery
from benchmarks.report import Measure
from engine.surgery.heads.replay import load_cut_classifier, save_cut_classifier
from tests.tiny import CLASSIFIERS, ENCODERS, folder_of, text, tiny_text_classifier

LEAST = 9
TEXTS = [text(3, 4, 5), text(7, 8, 9, 11, 2)]


def measures() -> Iterator[Measure]:
    types: set[str] = set()
    for name, (model_type, _) in (ENCODERS | CLASSIFIERS).items():
        rows = surgery(
            name,
            partial(tiny_text_classifier, name),
            lambda clf: clf.logits(clf.encode(TEXTS)),
            lambda small, record, place: load_cut_classifier(
                save_cut_classifier(small, record, place)
            ),
            folder_of(name),
        )
        yield from rows
        types |= {model_type} if len(rows) > 1 and not name.endswith("_classifier") else set()
    yield Measure("families of encoders accepted", len(types), "families", LEAST, at_least=True)
