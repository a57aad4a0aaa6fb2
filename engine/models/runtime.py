"""Where and how numbers are computed: device, dtype, threads, how much at once, and the guard that
makes torchvision importable.

Import this module before transformers: `from engine.models import runtime  # noqa: F401`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import torch

from engine.core import memory
from engine.core.errors import RequestError, refusal, unknown

# Read by huggingface_hub when it is imported: a missing network must be a quick, clear error.
os.environ.setdefault("HF_HUB_ETAG_TIMEOUT", "8")
os.environ.setdefault("HF_HUB_DOWNLOAD_TIMEOUT", "15")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
# Jobs fork after tokenizers were used; without this the library prints a warning each time.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

T = TypeVar("T")

LARGE = 1_000_000_000
"""From this many parameters on, an accelerator computes in 16 bits."""

FIXED_THREADS = 1
"""With how many threads a CPU trains, whatever the machine has. Embedded audits were computed with
one."""

DTYPES = {
    "float32": torch.float32,
    "float64": torch.float64,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}

# Convolutions of float32 would be computed on a GPU with 10 bits of the mantissa's 23.
torch.backends.cudnn.allow_tf32 = False

_schemas: list[torch.library.Library] = []  # kept alive: the schemas vanish with the object


def _guard_torchvision() -> bool:
    """Make `import torchvision` work beside a torch it was not built for. True when the guard had
    to act.

    PyPI's torchvision is built for CUDA. Beside a CPU torch its library does not load, and
    importing it (which transformers does on its own) dies with "operator torchvision::nms does not
    exist". Does nothing where it loads.
    """
    if "torchvision" in sys.modules or _schemas:
        return bool(_schemas)
    spec = importlib.util.find_spec("torchvision")
    if spec is None or not spec.submodule_search_locations:
        return False
    folder = Path(next(iter(spec.submodule_search_locations)))
    try:
        for library in (*folder.glob("_C*.so"), *folder.glob("_C*.pyd")):
            torch.ops.load_library(str(library))
        torch.ops.torchvision.nms  # noqa: B018  (AttributeError where it is missing)
        return False
    except (OSError, AttributeError, RuntimeError):
        fragment = torch.library.Library("torchvision", "FRAGMENT")
        fragment.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        fragment.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _schemas.append(fragment)
        return True


_guard_torchvision()


def pick_device(device: str) -> torch.device:
    """A usable device from "auto", "cpu", "cuda", "cuda:1" or "mps". RequestError for one that is
    not there."""
    name = str(device)
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda", torch.cuda.current_device())
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    kind, _, index = name.partition(":")
    there = {
        "cpu": 1,
        "cuda": torch.cuda.device_count(),
        "mps": int(torch.backends.mps.is_available()),
    }
    if kind not in there or not (index or "0").isdigit():
        raise RequestError(unknown("device", name, ("auto", "cpu", "cuda", "cuda:0", "mps")))
    if int(index or 0) >= there[kind]:
        raise refusal("device", f"{name!r} is not on this machine.", "Use --device auto or cpu.")
    if kind == "cuda":
        return torch.device(kind, int(index) if index else torch.cuda.current_device())
    return torch.device(kind)


@contextlib.contextmanager
def fixed_threads(device: torch.device | str) -> Iterator[None]:
    """Compute with `FIXED_THREADS` threads within it, with as many as before after it; nothing on
    an accelerator.

    OpenMP and MKL keep the number by thread, so others that compute at the same time (answers of
    the resident engine) go on with theirs. One that is born meanwhile starts with this one, which
    changes its speed, not its numbers.
    """
    before = torch.get_num_threads()
    if torch.device(device).type != "cpu" or before == FIXED_THREADS:
        yield
        return
    torch.set_num_threads(FIXED_THREADS)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def pick_dtype(n_parameters: int, device: torch.device | str, dtype: str = "auto") -> torch.dtype:
    """The dtype to compute in. auto: float32, except models of `LARGE` parameters and more on an
    accelerator.

    There it is bfloat16 (float16 where the device lacks it). The checkpoint's own dtype is not
    followed: scores of small effects need the precision.
    """
    if dtype != "auto":
        if dtype not in DTYPES:
            raise RequestError(unknown("dtype", dtype, ("auto", *DTYPES)))
        return DTYPES[dtype]
    kind = torch.device(device).type
    if kind == "cpu" or n_parameters < LARGE:
        return torch.float32
    if kind == "cuda" and not torch.cuda.is_bf16_supported():
        return torch.float16
    return torch.bfloat16


def lacks_bfloat16(device: torch.device | str) -> bool:
    """Whether it is a CPU that has to emulate bfloat16."""
    is_cpu = torch.device(device).type == "cpu"
    return is_cpu and not torch.ops.mkldnn._is_mkldnn_bf16_supported()


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out, on any device."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and (
        "out of memory" in text or "can't allocate memory" in text
    )


def with_backoff(run: Callable[[int], T], start: int) -> T:
    """`run(batch)` with batch = start, halved after every out-of-memory error; the error itself at
    batch 1."""
    batch = max(1, int(start))
    while True:
        try:
            return run(batch)
        except (MemoryError, RuntimeError) as error:
            if batch == 1 or not is_out_of_memory(error):
                raise
        # Outside the handler: the error's traceback keeps the failed batch's tensors alive.
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        batch //= 2


# How much is computed at once: on a CPU within the budget, on a GPU within what its memory has.
# Batches are as large as is quick and never larger than a share of the room that the model leaves.
# Where there is enough room their sizes depend on the model only, so that the same request has the
# same last digits on every machine.

OVERHEAD = 500 << 20
"""Bytes of Python and its packages, on a CPU."""
AT_ONCE = 4
"""What is computed at once takes one part in so many of the room."""
CPU_NUMBERS, GPU_NUMBERS = 2**22, 2**26
"""Logits of texts that are held at once, some four times over."""


def on_device(device: torch.device) -> int:
    """Bytes that model and work may take together."""
    if device.type == "cuda":
        free, whole = torch.cuda.mem_get_info(device)
        held = torch.cuda.memory_reserved(device)
        return min(free + held, memory.stated() or whole)
    return max(0, memory.budget() - OVERHEAD)


def refuse_too_large(
    name: str, parameters: int, device: torch.device, dtype: torch.dtype, layers: int
) -> None:
    """RequestError for a model that does not fit, naming what it needs."""
    needed, there = parameters * dtype.itemsize, on_device(device)
    if needed <= there:
        return
    where = "the budget of memory leaves" if device.type == "cpu" else f"{device} has"
    what = (
        f"{name} needs {memory.in_words(needed)} for its weights alone, {where}"
        f" {memory.in_words(there)}"
    )
    if needed / max(layers, 1) > there:
        what += f", less than one of its {layers} layers takes ({memory.in_words(needed / layers)})"
    more = memory.in_words(needed + OVERHEAD)
    fix = (
        f"Allow at least {more} (--memory, {memory.STATED})"
        if device.type == "cpu"
        else "Take a larger device"
    )
    raise refusal("memory", f"{what}.", f"{fix}, or a smaller model.")


def fitting(lm: Any, most: int, numbers: float) -> int:
    """How many of `most` things, each of so many float32 numbers, fit at once; at least 1. lm: a
    TransformerModel."""
    return _fitting(lm.device, lm.n_parameters * lm.dtype.itemsize, most, numbers)


def _fitting(device: torch.device, held: int, most: int, numbers: float) -> int:
    """The same beside a model of so many bytes."""
    room = on_device(device) - held
    return max(1, min(most, int(room / AT_ONCE / (4 * max(numbers, 1.0)))))


def _width(lm: Any) -> int:
    return int(getattr(lm.model.config, "hidden_size", 0) or 1)


def tokens_at_once(lm: Any, most: int) -> int:
    """How many of `most` tokens are read at once: what enters every block and what its heads hand
    on is kept."""
    return fitting(lm, most, _width(lm) * (2 * lm.n_layers + 8))


def texts_at_once(lm: Any, most: int, tokens: int) -> int:
    """How many of `most` texts of so many tokens are drawn at once: keys, values and logits are
    kept."""
    return fitting(lm, most, 2.0 * _width(lm) * lm.n_layers * tokens + 3.0 * lm.vocab_size)


def logits_at_once(lm: Any) -> int:
    """Logits that are held at once, in numbers."""
    return CPU_NUMBERS if lm.device.type == "cpu" else GPU_NUMBERS


def positions_at_once(lm: Any) -> int:
    """Positions of texts whose logits are held at once."""
    return max(1, logits_at_once(lm) // lm.vocab_size)


def rows_at_once(lm: Any, most: int, tokens: int) -> int:
    """How many of `most` texts of so many tokens are scored at once: all their logits are held."""
    numbers = tokens * lm.vocab_size
    return fitting(lm, min(most, max(1, logits_at_once(lm) // numbers)), 3.0 * numbers)


def judged_at_once(model: torch.nn.Module, most: int, tokens: int) -> int:
    """How many of `most` texts of so many tokens a classifier of texts judges at once: what one
    block computes is held, its attention above all."""
    first, config = next(model.parameters()), model.config
    width, heads = (
        int(getattr(config, name, 0) or 1) for name in ("hidden_size", "num_attention_heads")
    )
    held = sum(one.numel() for one in model.parameters()) * first.dtype.itemsize
    return _fitting(first.device, held, most, tokens * (12.0 * width + 3.0 * heads * tokens))


def needed(lm: Any, batch: int, tokens: int, traced: int) -> int:
    """About the bytes that an audit takes: the model, and the largest of what is computed at once.
    batch, tokens: texts that are drawn at once where there is room, and their length. traced: how
    many tokens have gradients at once, whatever room there is."""
    drawn = texts_at_once(lm, batch, tokens) * (
        2.0 * _width(lm) * lm.n_layers * tokens + 3.0 * lm.vocab_size
    )
    scored = 3.0 * min(logits_at_once(lm), rows_at_once(lm, batch, tokens) * tokens * lm.vocab_size)
    held = OVERHEAD if lm.device.type == "cpu" else 0
    return int(
        held + lm.n_parameters * lm.dtype.itemsize + 4 * max(drawn, scored, traced * _traced(lm))
    )


def _traced(lm: Any) -> float:
    """Numbers that are held for a token whose gradients are wanted, but for its logits."""
    return 24.0 * _width(lm) * lm.n_layers


def traced_at_once(lm: Any, most: int) -> int:
    """How many of `most` tokens are read at once where gradients are wanted: all that is computed
    is held."""
    return fitting(lm, min(most, positions_at_once(lm)), 4.0 * lm.vocab_size + _traced(lm))
