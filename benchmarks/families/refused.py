"""Architectures without heads that could be silenced one by one: refused with a sentence that says
why."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.report import Measure
from engine.core.errors import RequestError
from engine.models.load_language_model import inspect_model
from tests.tiny import save_tokenizer

_SIZES = {"hidden_size": 32, "num_hidden_layers": 3, "vocab_size": 48}
_MIXED = _SIZES | {"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "mamba": (_SIZES, "not by attention heads"),
    "mamba2": (
        _SIZES | {"num_heads": 8, "head_dim": 8, "expand": 2, "n_groups": 1},
        "not by attention heads",
    ),
    "rwkv": (_SIZES | {"attention_hidden_size": 32}, "not by attention heads"),
    "jamba": (_MIXED, "not by attention heads"),
    "lfm2": (
        _MIXED | {"layer_types": ["conv", "full_attention", "conv"]},
        "not by attention heads",
    ),
    "qwen3_next": (_MIXED, "not by attention heads"),
    "t5": (_SIZES, "encoder-decoder"),
    "bart": (_SIZES | {"d_model": 32}, "encoder-decoder"),
}
"""Model type -> settings of config.json, and what the sentence must say."""


def measures() -> Iterator[Measure]:
    for kind, (settings, wanted) in REFUSED.items():
        with TemporaryDirectory() as place:
            said = refusal(Path(place), {"model_type": kind, **settings})
        yield Measure(
            f"{kind}: {said or 'taken'}",
            wanted in said,
            "refused as it should",
            1.0,
            at_least=True,
        )


def refusal(folder: Path, config: dict) -> str:
    """The first sentence with which a folder of this config is refused; "" where it is not. It
    holds no weights."""
    save_tokenizer(folder)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    try:
        inspect_model(folder)
    except RequestError as error:
        return next((fault.what for fault in error.faults if fault.where == "architecture"), "")
    return ""
