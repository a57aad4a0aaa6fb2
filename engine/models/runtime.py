"""Where and how numbers are computed: device, dtype, batch back-off, and the guard that makes
torchvision importable.

Import this module before transformers: `from engine.models import runtime  # noqa: F401`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

# Read by huggingface_hub when it is imported: a missing network must be a quick, clear error.
os.environ.setdefault("HF_HUB_ETAG_TIMEOUT", "8")
os.environ.setdefault("HF_HUB_DOWNLOAD_TIMEOUT", "15")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
# Jobs fork after tokenizers were used; without this the library prints a warning each time.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch

from engine.core.errors import Fault, RequestError, unknown

T = TypeVar("T")

LARGE = 1_000_000_000
"""From this many parameters on, an accelerator computes in 16 bits."""

FIXED_THREADS = 1
"""With how many threads a CPU trains, whatever the machine has. Embedded audits were computed with
one."""

DTYPES: dict[str, torch.dtype] = {
    "float32": torch.float32,
    "float64": torch.float64,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}

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
        torch.ops.torchvision.nms  # noqa: B018  (raises AttributeError where the operator is missing)
        return False
    except (OSError, AttributeError, RuntimeError):
        fragment = torch.library.Library("torchvision", "FRAGMENT")
        fragment.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        fragment.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _schemas.append(fragment)
        return True


_guard_torchvision()


def pick_device(device: str = "auto") -> torch.device:
    """A usable device from "auto", "cpu", "cuda", "cuda:1" or "mps". RequestError for one that is
    not there."""
    name = str(device)
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda", torch.cuda.current_device())
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    kind, _, index = name.partition(":")
    if kind not in ("cpu", "cuda", "mps") or (index and not index.isdigit()):
        raise RequestError(unknown("device", name, ("auto", "cpu", "cuda", "cuda:0", "mps")))
    found = {
        "cpu": 1,
        "cuda": torch.cuda.device_count(),
        "mps": int(torch.backends.mps.is_available()),
    }[kind]
    if int(index or 0) >= found:
        raise RequestError(
            Fault("device", f"{name!r} is not on this machine.", "Use --device auto or cpu.")
        )
    if kind == "cuda" and not index:
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu") if kind == "cpu" else torch.device(name)


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
