"""Text classifiers: encoders, and decoders with a classification head, tiny and random."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.families._surgery import families
from benchmarks.report import Measure
from engine.surgery.heads.replay import load_cut_classifier, save_cut_classifier
from tests.tiny import CLASSIFIERS, ENCODERS, text, tiny_text_classifier

LEAST = 9
TEXTS = [text(3, 4, 5), text(7, 8, 9, 11, 2)]


def measures() -> Iterator[Measure]:
    return families(
        "encoders",
        LEAST,
        ENCODERS | CLASSIFIERS,
        tiny_text_classifier,
        lambda clf: clf.logits(clf.encode(TEXTS)),
        lambda small, record, place: load_cut_classifier(save_cut_classifier(small, record, place)),
    )
