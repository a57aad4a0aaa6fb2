"""Batches of texts: each once per epoch, in an order that seed and epoch alone decide, with the
rows they are."""

from __future__ import annotations

import torch

from engine.training.fit import Logits, TextBatches
from tests.tiny import tiny_text_classifier

TEXTS = [f"w{number} w{number + 1}" for number in range(7)]


def rows(seed: int, epoch: int) -> list[int]:
    clf = tiny_text_classifier()
    batches = TextBatches(TEXTS, None, clf.encode, 3, seed)
    assert batches.count == 7 and batches.per_epoch == 3
    return [int(row) for batch in batches.epoch(epoch) for row in batch.rows]


def test_every_text_once_in_an_order_of_seed_and_epoch():
    assert sorted(rows(0, 0)) == list(range(7))
    assert rows(0, 0) == rows(0, 0) != rows(0, 1) and rows(0, 0) != rows(1, 0)


def test_inputs_belong_to_their_rows_and_second_texts_come_along():
    clf = tiny_text_classifier()
    second = [text[::-1] for text in TEXTS]
    for batch in TextBatches(TEXTS, second, clf.encode, 2, 0).epoch(0):
        expected = clf.encode(
            [TEXTS[row] for row in batch.rows], [second[row] for row in batch.rows]
        )
        assert torch.equal(batch.inputs["input_ids"], expected["input_ids"])
        with torch.no_grad():
            assert torch.equal(Logits(clf.model)(batch.inputs), clf.model(**expected).logits)
