"""Where a result comes from: versions, machine, data, judge."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import engine
from engine.audit.measurements import MeasurementContext

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
