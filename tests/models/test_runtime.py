"""Device, dtype, back-off, and the torchvision guard."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from engine.core.errors import RequestError
from engine.models import runtime


def test_transformers_models_import_after_the_guard():
    code = (
        "from engine.models import runtime; import transformers.models.gpt2.modeling_gpt2,"
        " torchvision"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode
        == 0
    )


def test_the_guard_acts_once_at_most():
    before = list(runtime._schemas)
    assert runtime._guard_torchvision() is bool(before)
    assert runtime._schemas == before


def test_the_cpu_is_always_there():
    assert runtime.pick_device("cpu") == torch.device("cpu")
    assert runtime.pick_device("auto").type in ("cpu", "cuda", "mps")


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
