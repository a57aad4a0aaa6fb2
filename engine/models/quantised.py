"""Checkpoints whose weights are quantised: which package reads them, and whether it is
installed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from engine.core.errors import Fault
from engine.models.config_file import config_or_nothing

LOADERS: Mapping[str, tuple[str, ...]] = {
    "compressed-tensors": ("compressed-tensors",),
    "gptq": ("gptqmodel", "optimum"),
    "awq": ("gptqmodel", "accelerate"),
    "torchao": ("torchao",),
    "bitsandbytes": ("bitsandbytes", "accelerate"),
    "fp8": ("accelerate",),
    "hqq": ("hqq",),
}
"""By `quant_method` of config.json: the packages that transformers asks for, as pip calls them."""

ASIDE = "--no-deps gptqmodel optimum accelerate tokenicer logbar defuser device-smi pypcre psutil"
"""gptqmodel asks for a torch of its own, which would take the place of the one here; with these it
runs on ours."""


def quantisation_of(folder: Path) -> str:
    """The `quant_method` of a checkpoint; "" where its weights are numbers as they are."""
    found = config_or_nothing(folder).get("quantization_config")
    return _method(found) if isinstance(found, Mapping) else ""


def _method(found: Mapping[str, Any]) -> str:
    said = found.get("quant_method")
    return said[:80] if isinstance(said, str) and said else "an unnamed way"


def quantised_faults(folder: Path, as_arm: bool) -> list[Fault]:
    """What forbids a quantised checkpoint here. as_arm: it is only read, beside another model; no
    head is cut."""
    how = quantisation_of(folder)
    if not how:
        return []
    if not as_arm:
        what = (
            f"holds weights that are quantised by {how}: heads can be scored and cut in plain"
            " weights only."
        )
        return [
            Fault(
                str(folder),
                what,
                "Audit the model it was made from, and name this one with --against.",
            )
        ]
    if how not in LOADERS:
        what = f"holds weights that are quantised by {how}, which is not known here."
        return [
            Fault(
                str(folder),
                what,
                f"Known: {', '.join(sorted(LOADERS))}. Or save it with plain weights.",
            )
        ]
    missing = [name for name in LOADERS[how] if find_spec(name.replace("-", "_")) is None]
    if not missing:
        return []
    what = (
        f"holds weights that are quantised by {how}; reading them needs {' and '.join(missing)},"
        " not installed here."
    )
    pip = f"pip install {_to_install(how, missing)}"
    return [
        Fault(
            str(folder),
            what,
            f"{pip} (into the environment this runs in), or save it with plain weights.",
        )
    ]


def _to_install(how: str, missing: list[str]) -> str:
    return ASIDE if "gptqmodel" in LOADERS[how] else " ".join(missing)
