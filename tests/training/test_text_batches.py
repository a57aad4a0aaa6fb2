"""Batches of texts: each once per epoch, in an order that seed and epoch alone decide, with the
rows they are."""

import torch

from engine.training.fit import Logits, TextBatches
from tests.tiny import tiny_text_classifier

TEXTS = [f"w{number} w{number + 1}" for number in range(7)]


def test_every_text_once_in_an_order_of_seed_and_epoch_with_its_second_one():
    clf = tiny_text_classifier()
    second = [text[::-1] for text in TEXTS]
    orders = []
    for seed, epoch in ((0, 0), (0, 0), (0, 1), (1, 0)):
        batches = TextBatches(TEXTS, second, clf.encode, 3, seed)
        assert batches.count == 7 and batches.per_epoch == 3
        orders.append([])
        for batch in batches.epoch(epoch):
            rows = batch.rows.tolist()
            orders[-1] += rows
            expected = clf.encode([TEXTS[row] for row in rows], [second[row] for row in rows])
            assert torch.equal(batch.inputs["input_ids"], expected["input_ids"])
            with torch.no_grad():
                assert torch.equal(Logits(clf.model)(batch.inputs), clf.model(**expected).logits)
    assert all(sorted(order) == list(range(7)) for order in orders)
    assert orders[0] == orders[1] and len({tuple(order) for order in orders}) == 3
