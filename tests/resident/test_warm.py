"""What stays loaded: within the budget whatever was asked, and nothing that is in use is
dropped."""

import gc
import weakref

import pytest

from engine.core import memory
from engine.resident.warm import Warm, allowed

SIZE = 1000


class Model:
    """Of SIZE bytes; it and its part hold each other, as modules do."""

    alive: weakref.WeakSet = weakref.WeakSet()

    def __init__(self):
        self.weights, self.whole = bytearray(SIZE), self
        self.alive.add(self)


def size(model):
    return len(model.weights)


@pytest.fixture(autouse=True)
def none_alive():
    """No model of another test; what was imported is not looked through, which takes long."""
    Model.alive.clear()
    gc.freeze()
    yield
    gc.unfreeze()


def test_after_fifty_models_no_more_is_alive_than_the_budget_holds():
    warm = Warm(3 * SIZE)
    for number in range(50):
        with warm.answering():
            warm.get(f"model {number}", Model, size)
        assert warm.used <= warm.budget and len(Model.alive) <= 3
    assert warm.names() == ["model 47", "model 48", "model 49"]


def test_a_second_question_finds_it_loaded_and_the_least_used_goes_first():
    warm = Warm(2 * SIZE)
    one = warm.get("one", Model, size)
    warm.get("two", Model, size)
    assert warm.get("one", Model, size) is one
    assert [(kept["name"], kept["bytes"], kept["hits"]) for kept in warm.listed()] == [
        ("one", SIZE, 1),
        ("two", SIZE, 0),
    ]
    warm.get("three", Model, size)
    assert warm.names() == ["one", "three"]


def test_what_an_answer_uses_stays_until_its_end_and_counts_once():
    warm = Warm(2 * SIZE)
    warm.get("old", Model, size)
    with warm.answering():
        used = [warm.get(f"part {number}", Model, size) for number in range(3)]
        assert warm.get("part 0", Model, size) is used[0] and warm.used == 3 * SIZE
        warm.clear()
        assert len(warm.names()) == 3
    assert warm.names() == ["part 2", "part 0"]


def test_one_larger_than_the_budget_is_handed_out_and_not_kept():
    warm = Warm(SIZE // 2)
    with warm.answering():
        assert warm.get("large", Model, size) is warm.get("large", Model, size)
    assert warm.names() == [] and warm.get("large", Model, size) and not warm.names()


def test_what_cannot_be_made_is_not_kept():
    warm = Warm(SIZE)
    with pytest.raises(ZeroDivisionError), warm.answering():
        warm.get("broken", lambda: 1 / 0, size)
    assert warm.names() == [] and warm.get("broken", Model, size)


def test_where_memory_runs_out_the_rest_is_dropped_and_it_is_made_again():
    warm = Warm(9 * SIZE)
    warm.get("other", Model, size)

    def make():
        if warm.names():
            raise MemoryError
        return Model()

    assert warm.get("large", make, size) and warm.names() == ["large"]
    with pytest.raises(MemoryError):
        warm.get("larger", _never, size)
    assert warm.names() == []


def _never():
    raise MemoryError


def test_without_a_word_it_is_a_quarter_of_what_is_free(monkeypatch):
    monkeypatch.delenv("PRUNEAUDIT_MEMORY", raising=False)
    monkeypatch.setattr(memory, "free", lambda: 40 << 30)
    assert allowed() == 10 << 30
    monkeypatch.setattr(memory, "free", lambda: 0)
    assert allowed() == 1 << 30
    monkeypatch.setenv("PRUNEAUDIT_MEMORY", "1.5 GiB")
    assert Warm().budget == 3 << 29
