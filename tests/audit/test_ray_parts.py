"""Parts handed to the workers of a cluster: one for each at least, where that changes no number."""

from __future__ import annotations

import types

import pytest

from engine.audit.ray_executor import _for_each


@pytest.mark.parametrize(
    "workers, sizes",
    [(1, [8, 3]), (2, [8, 3]), (3, [4, 4, 3]), (5, [2, 2, 2, 2, 3]), (20, [1] * 11)],
)
def test_the_longest_parts_are_halved_until_there_is_one_for_every_worker(workers, sizes):
    context = types.SimpleNamespace(kind=lambda name: types.SimpleNamespace(whole=False))
    shards = [types.SimpleNamespace(kind="texts", at=at) for at in range(11)]
    parts = _for_each(workers, context, [shards[:8], shards[8:]])
    assert [len(part) for part in parts] == sizes and [
        one.at for part in parts for one in part
    ] == list(range(11))


def test_what_must_be_computed_together_stays_together_and_nothing_stays_nothing():
    context = types.SimpleNamespace(
        kind=lambda name: types.SimpleNamespace(whole=name == "windows")
    )
    whole, free = [types.SimpleNamespace(kind=kind) for kind in ("windows", "texts")]
    assert [len(part) for part in _for_each(9, context, [[whole] * 6, [free] * 2])] == [6, 1, 1]
    assert _for_each(4, context, []) == []
