"""Device, dtype, back-off, and the torchvision guard."""

import pytest
import torch

from engine.core import memory
from engine.core.errors import RequestError
from engine.models import runtime
from engine.models.load_language_model import load_language_model


@pytest.mark.parametrize("name", ["tpu", "cuda:x", "", "cpu:", "CUDA"])
def test_unknown_devices_are_named(name):
    if name == "cpu:":
        assert runtime.pick_device(name) == torch.device("cpu")
        return
    with pytest.raises(RequestError, match="auto, cpu, cuda"):
        runtime.pick_device(name)


@pytest.mark.parametrize("name", ["cuda:99", "cpu:1"])
def test_absent_devices_are_refused(name):
    with pytest.raises(RequestError, match="not on this machine"):
        runtime.pick_device(name)


def test_dtype_small_models_and_the_cpu_compute_in_float32():
    assert runtime.pick_dtype(7_000_000_000, "cpu") == torch.float32
    assert runtime.pick_dtype(124_000_000, "cuda") == torch.float32
    assert runtime.pick_dtype(10, "cpu", "bfloat16") == torch.bfloat16
    with pytest.raises(RequestError, match="float32"):
        runtime.pick_dtype(10, "cpu", "int8")


def test_large_models_on_an_accelerator_compute_in_16_bits(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    assert runtime.pick_dtype(runtime.LARGE, "cuda") == torch.bfloat16
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    assert runtime.pick_dtype(runtime.LARGE, "cuda") == torch.float16


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory."),
        RuntimeError(
            "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9"
            " bytes"
        ),
    ],
)
def test_backoff_halves_until_it_fits(error):
    tried = []

    def run(batch):
        tried.append(batch)
        if batch > 5:
            raise error
        return batch * 10

    assert runtime.with_backoff(run, 20) == 50
    assert tried == [20, 10, 5]


def test_backoff_gives_up_at_one_and_lets_other_errors_pass():
    tried = []

    def never(batch):
        tried.append(batch)
        raise MemoryError

    with pytest.raises(MemoryError):
        runtime.with_backoff(never, 4)
    assert tried == [4, 2, 1]

    def wrong(batch):
        tried.append(batch)
        raise RuntimeError("shapes differ")

    with pytest.raises(RuntimeError, match="shapes differ"):
        runtime.with_backoff(wrong, 4)
    assert tried == [4, 2, 1, 4]


# What is computed at once fits the memory that there is, and a model that does not is refused by
# what it needs.


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
    allowed(runtime.OVERHEAD + 1000)
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
        runtime.refuse_too_large("large", 7 * 10**9, device, torch.bfloat16, 32)
    with pytest.raises(RequestError, match=r"cuda:0 has 100 MB\."):
        runtime.refuse_too_large("medium", 10**8, device, torch.bfloat16, 32)
    runtime.refuse_too_large("small", 10**6, device, torch.bfloat16, 32)


def test_batches_shrink_with_the_room(demo, allowed):
    assert (
        runtime.texts_at_once(demo, 128, 60) == 128 and runtime.tokens_at_once(demo, 4096) == 4096
    )
    allowed(runtime.OVERHEAD + demo.n_parameters * 4 + (4 << 20))
    assert runtime.rows_at_once(demo, 256, 22) < 60 and runtime.texts_at_once(demo, 128, 60) < 128
    assert 1 <= runtime.tokens_at_once(demo, 4096) < 4096


def test_logits_held_at_once_do_not_grow_with_the_number_of_texts(demo):
    assert runtime.rows_at_once(demo, 10**9, 22) * 22 * demo.vocab_size <= runtime.CPU_NUMBERS
