"""What is computed at once fits the memory that there is, and a model that does not is refused by
what it needs."""

from __future__ import annotations

import pytest
import torch

from engine.core import memory
from engine.core.errors import RequestError
from engine.models import room
from engine.models.load_language_model import load_language_model


@pytest.fixture(scope="module")
def demo():
    return load_language_model("demo-gpt2", device="cpu")


@pytest.fixture
def allowed(monkeypatch):
    return lambda size: monkeypatch.setenv(memory.STATED, str(int(size)))


def test_a_stated_amount_is_the_budget_and_a_share_of_what_is_free_without(allowed, monkeypatch):
    allowed(2 << 30)
    assert memory.budget() == 2 << 30
    monkeypatch.delenv(memory.STATED)
    monkeypatch.setattr(memory, "free", lambda: 40 << 30)
    monkeypatch.setattr(memory, "taken", lambda: 0)
    assert memory.budget() == memory.SHARE * (40 << 30)
    assert memory.in_words(1.4 * (1 << 30)) == "1.4 GB" and memory.peak() > memory.LEAST // 100


def test_a_budget_smaller_than_the_model_says_what_is_needed(allowed):
    allowed(room.OVERHEAD + 1000)
    with pytest.raises(
        RequestError, match=r"demo-gpt2 needs 1.9 MB .* leaves 1.0 kB.*502 MB"
    ) as refused:
        load_language_model("demo-gpt2", device="cpu")
    assert refused.value.faults[0].where == "memory"


def test_a_device_smaller_than_one_layer_is_refused(monkeypatch):
    device = torch.device("cuda", 0)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda where: (100 << 20, 100 << 20))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda where: 0)
    with pytest.raises(
        RequestError, match=r"cuda:0 has 100 MB, less than one of its 32 layers takes \(417 MB\)"
    ):
        room.refuse_too_large("large", 7 * 10**9, device, torch.bfloat16, 32)
    with pytest.raises(RequestError, match=r"cuda:0 has 100 MB\."):
        room.refuse_too_large("medium", 10**8, device, torch.bfloat16, 32)
    room.refuse_too_large("small", 10**6, device, torch.bfloat16, 32)


def test_batches_shrink_with_the_room(demo, allowed):
    assert room.texts_at_once(demo, 128, 60) == 128 and room.tokens_at_once(demo, 4096) == 4096
    allowed(room.OVERHEAD + demo.n_parameters * 4 + (4 << 20))
    assert room.rows_at_once(demo, 256, 22) < 60 and room.texts_at_once(demo, 128, 60) < 128
    assert 1 <= room.tokens_at_once(demo, 4096) < 4096


def test_logits_held_at_once_do_not_grow_with_the_number_of_texts(demo):
    assert room.rows_at_once(demo, 10**9, 22) * 22 * demo.vocab_size <= room.CPU_NUMBERS
