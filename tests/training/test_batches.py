"""Batches: every image once per epoch, in an order that seed and epoch alone decide."""

import threading
from dataclasses import replace

import numpy as np
import pytest
import torch

from engine.training.fit import AHEAD, Batch, Batches, ahead


def batches(n, size, seed=0, mirror=False, read=None):
    """Image i is filled with i; its left half is brighter by one."""

    def plain(rows):
        pixels = (
            np.zeros((len(rows), 2, 4, 3), dtype=np.uint8)
            + np.asarray(rows, dtype=np.uint8)[:, None, None, None]
        )
        pixels[:, :, :2] += 1
        return pixels

    def prepared(pixels):
        return torch.as_tensor(pixels).permute(0, 3, 1, 2).float()

    return Batches(np.arange(n) * 2, read or plain, prepared, size, seed, mirror)


def order_of(epoch):
    return [row for batch in epoch for row in batch.rows.tolist()]


def test_every_image_comes_once_and_with_its_own_pixels():
    found = list(batches(10, 4).epoch(0))
    assert [len(batch.rows) for batch in found] == [4, 4, 2]
    assert sorted(order_of(found)) == list(range(10))
    for batch in found:
        assert torch.equal(
            batch.inputs[:, 0, 0, 3], 2.0 * batch.rows
        )  # positions are twice the rows


def test_the_order_depends_on_seed_and_epoch_only():
    def order(seed=3, epoch=2, size=8, mirror=False):
        return order_of(batches(50, size, seed, mirror).epoch(epoch))

    first = order()
    assert order() == first == order(size=13) == order(mirror=True)
    assert order(epoch=1) != first != order(seed=4)
    torch.manual_seed(9)
    np.random.seed(9)
    assert order() == first


def test_a_last_single_image_is_left_out():
    some = batches(9, 4)
    assert some.per_epoch == 2 and [len(batch.rows) for batch in some.epoch(0)] == [4, 4]
    assert batches(8, 4).per_epoch == 2 and batches(10, 4).per_epoch == 3
    left_out = {
        frozenset(set(range(9)) - set(order_of(some.epoch(number)))) for number in range(12)
    }
    assert len(left_out) > 1  # not always the same one


def test_forever_goes_on_with_the_next_epoch():
    some, found = batches(6, 3), []
    for batch in some.forever():
        found.append(batch.rows.tolist())
        if len(found) == 5:
            break
    expected = [batch.rows.tolist() for number in range(3) for batch in some.epoch(number)]
    assert found == expected[:5]


def test_mirroring_turns_about_half_of_the_images_left_to_right():
    rows, turned = [], []
    for number in range(20):
        for batch in batches(30, 7, mirror=True).epoch(number):
            left, right = batch.inputs[:, 0, 0, 0], batch.inputs[:, 0, 0, 3]
            assert torch.equal((left - right).abs(), torch.ones(len(left)))
            assert torch.equal(torch.minimum(left, right), 2.0 * batch.rows)
            rows += batch.rows.tolist()
            turned += (right > left).tolist()
    assert 0.4 < np.mean(turned) < 0.6
    both = {(row, is_turned) for row, is_turned in zip(rows, turned, strict=True)}
    assert len(both) == 60  # an image is turned in some epochs only
    plain = [batch for number in range(3) for batch in batches(30, 7).epoch(number)]
    assert all(bool((batch.inputs[:, 0, 0, 0] > batch.inputs[:, 0, 0, 3]).all()) for batch in plain)


def test_reading_ahead_stops_when_the_consumer_stops():
    made = []

    def make(part):
        made.append(part)
        return Batch(torch.tensor([part]), torch.zeros(1))

    stream = ahead(make, list(range(100)))
    assert next(stream).rows.tolist() == [0]
    stream.close()  # waits for what was begun
    assert len(made) <= 1 + AHEAD and made == sorted(made)
    assert not [
        one for one in threading.enumerate() if "ThreadPoolExecutor" in one.name and one.is_alive()
    ]


def test_what_goes_wrong_while_reading_ahead_reaches_the_consumer():
    def read(rows):
        raise ValueError("damaged file")

    with pytest.raises(ValueError, match="damaged file"):
        list(batches(10, 4, read=read).epoch(0))


def test_mirrored_views_have_places_of_their_own():
    """Apart: the same images in the same order, those that were flipped counted behind all that
    were not."""
    pixels = np.random.default_rng(0).integers(0, 255, (10, 4, 4, 3), dtype=np.uint8)
    plain = Batches(
        np.arange(10), lambda rows: pixels[rows], lambda images: torch.as_tensor(images), 4, 0, True
    )
    for one, other in zip(plain.epoch(0), replace(plain, apart=True).epoch(0), strict=True):
        assert torch.equal(one.inputs, other.inputs) and torch.equal(one.rows, other.rows % 10)
        for place, image in zip(other.rows.tolist(), other.inputs.numpy(), strict=True):
            shown = pixels[place % 10][:, ::-1] if place >= 10 else pixels[place]
            assert np.array_equal(image, shown)
    assert any((batch.rows >= 10).any() for batch in replace(plain, apart=True).epoch(0))
