"""Where a result comes from: versions of packages, the machine, the source files that compute."""

from __future__ import annotations

import hashlib
import os
import platform
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import engine
from engine.audit.measurements import MeasurementContext
from engine.core.files import PROJECT

PACKAGES = (
    "torch",
    "torchvision",
    "torch-pruning",
    "transformers",
    "tokenizers",
    "safetensors",
    "captum",
    "detoxify",
    "numpy",
    "scipy",
    "scikit-learn",
    "pandas",
    "pyarrow",
)


def versions() -> dict[str, str]:
    """Installed versions of what the numbers pass through."""
    found = {"pruneaudit": engine.__version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def device_words(device: Any) -> str:
    """A torch device in words."""
    if device.type == "cuda":
        import torch

        return torch.cuda.get_device_name(device)
    return platform.processor() or platform.machine()


def provenance(context: MeasurementContext) -> dict[str, Any]:
    """JSON-able: versions of packages, device, number format."""
    return {
        "versions": versions(),
        "device": str(context.device),
        "device_name": device_words(context.device),
        "dtype": context.dtype,
    }


# Which code computes. No torch: pages ask it with every question.


ENGINE = PROJECT / "engine"


def source_digest() -> str:
    """Digest of the engine's source files as they are on disk, wherever they lie; read again once
    one changed."""
    return _digest(tuple(sorted((entry.path, *stamp) for entry, stamp in _files(str(ENGINE)))))


def _files(folder: str) -> list[tuple[os.DirEntry[str], tuple[int, int]]]:
    """Source files below a folder, with size and time of change."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir() and entry.name != "__pycache__":
                found += _files(entry.path)
            elif entry.name.endswith(".py"):
                about = entry.stat()
                found.append((entry, (about.st_size, about.st_mtime_ns)))
    return found


@lru_cache(maxsize=2)
def _digest(stamped: tuple[tuple[str, int, int], ...]) -> str:
    digest = hashlib.sha256()
    for path, _, _ in stamped:
        with open(path, "rb") as file:
            name = os.path.relpath(path, PROJECT).encode()
            digest.update(name + b"\0" + hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]
