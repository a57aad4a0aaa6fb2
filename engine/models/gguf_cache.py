"""A GGUF file as a model folder: dequantised once, kept below the store, whole or not at all.

transformers' tables say what a file's names and numbers stand for, the package gguf unpacks them.
What either would leave out is refused or told. A folder is called by the hash of the file, and of
the tokenizer beside it where there is one.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from engine.core.errors import Fault, RequestError, refusal, said_by
from engine.core.files import folder_whole, sha256_of, sweep
from engine.core.types import Values, digest_of
from engine.models import runtime
from engine.models.checkpoint import PROBE, TOKENIZER_FILES, load_tokenizer
from engine.models.completeness import quietly
from engine.models.gguf_file import ENDING, RECORD, SCHEMA, Gguf, read_gguf, record_of
from engine.models.weights import INDEX, SINGLE, weight_hash
from engine.store.runs import default_root
from engine.store.sealed import write_document

BESIDE = (
    *TOKENIZER_FILES,
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "merges.txt",
    "chat_template.jinja",
)
"""Files that are taken from beside a GGUF file, where a tokenizer is among them."""
VERSION = 1
"""Raise when folders come out differently: they are then made anew."""
CHECKED = frozenset({"llama", "qwen2", "qwen3", "gemma2", "phi3", "gpt2", "starcoder2"})
"""Architectures that tests write as llama.cpp does and read back to the bit."""
_RENAMED = {"qwen2moe", "qwen3moe", "gpt-oss", "minimax-m2"}
"""Architectures that transformers reads under another name."""
_FURTHER: Mapping[str, str] = {
    "context_length": "max_position_embeddings",
    "attention.key_length": "head_dim",
    "attention.sliding_window": "sliding_window",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
}
"""Fields that transformers reads of some families only, and what its configs call them."""
_ORIGINAL = "Take the safetensors it was made from."


def gguf_in(place: Path) -> Path | None:
    """The GGUF file that a path means: itself, or the only one of a folder without safetensors;
    None for any other. RequestError where a folder has several."""
    if not os.path.isdir(place):
        return place if place.suffix.lower() == ENDING else None
    if any(place.glob("*.safetensors")) or (place / INDEX).exists():
        return None
    files = sorted(one for one in place.iterdir() if one.suffix.lower() == ENDING)
    if len(files) < 2 or all("-of-" in one.name for one in files):  # pieces: said when it is read
        return files[0] if files else None
    named = ", ".join(one.name for one in files[:6]) + (", …" if len(files) > 6 else "")
    fix = f"Name one of them, such as {files[0]}."
    raise refusal(str(place), f"holds {len(files)} GGUF files: {named}.", fix)


def folder_of(path: Path) -> Path:
    """The model folder made of a GGUF file, made now where it is not there or not whole.
    RequestError for a file that cannot be read so, StoreError where it cannot be kept."""
    file, beside = read_gguf(path), _beside(path)
    name = weight_hash([path])
    if beside:
        name += f"-{digest_of([sha256_of(one) for one in beside])[:12]}"
    folder = default_root() / "gguf" / name
    if not _is_whole(folder):
        layers = file.own("block_count")
        layers = layers if isinstance(layers, int) else 1
        place = torch.device("cpu")
        runtime.refuse_too_large(path.name, file.numbers, place, torch.float32, layers)
        sweep(folder.parent)
        with folder_whole(folder) as made:
            _make(file, beside, made)
    return folder


def _beside(path: Path) -> list[Path]:
    """The tokenizer's files in the folder of a GGUF file; none where it has no tokenizer."""
    found = [path.parent / name for name in BESIDE if (path.parent / name).is_file()]
    return found if any(one.name in TOKENIZER_FILES for one in found) else []


def _is_whole(folder: Path) -> bool:
    """Whether a folder is what was made, by this code and these versions of packages."""
    record = record_of(folder)
    return record.get("made_by") == _maker() and all(
        (folder / name).is_file() and weight_hash([folder / name]) == hashed
        for name, hashed in record["files"].items()
    )


def _maker() -> list[Any]:
    from importlib.metadata import version

    return [VERSION, version("transformers"), version("gguf")]


def _make(file: Gguf, beside: Sequence[Path], target: Path) -> None:
    """Write config, weights, tokenizer and the record of them into an empty folder."""
    config, tensors = _dequantised(file)
    config.save_pretrained(target)
    if file.kind in ("F16", "BF16"):
        tensors = {name: _shortest(one) for name, one in tensors.items()}
    whole = {name: one.contiguous() for name, one in tensors.items()}
    save_file(whole, target / SINGLE, metadata={"format": "pt"})
    (target / SINGLE).chmod(0o644)  # as all files of a store
    _with_tokenizer(file, beside, target)
    document = {
        "kind": file.kind,
        "n_bytes": sum(one.n_bytes for one in file.tensors.values()),
        "numbers": file.numbers,
        "unread": _fields_unread(file),
        "unchecked": "" if file.architecture in CHECKED else file.architecture,
        "made_by": _maker(),
        "files": {one.name: sha256_of(one) for one in sorted(target.iterdir())},
    }
    write_document(target / RECORD, document, SCHEMA)


def _dequantised(file: Gguf) -> tuple[Any, Mapping[str, torch.Tensor]]:
    """The config, and the model's tensors in float32 by its own names."""
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers import modeling_gguf_pytorch_utils as reading

    name = file.path.name
    if file.architecture not in {*reading.GGUF_SUPPORTED_ARCHITECTURES, *_RENAMED}:
        what = f"is of architecture {file.architecture[:80]!r}, which transformers does not read."
        known = ", ".join(sorted(reading.GGUF_SUPPORTED_ARCHITECTURES))
        raise refusal(name, what, f"It reads {known}. Or take safetensors.")
    try:
        with _silent():
            config = AutoConfig.from_pretrained(
                file.path.parent, gguf_file=name, local_files_only=True, trust_remote_code=False
            )
            _completed(config, file)
            with torch.device("meta"):
                model = AutoModelForCausalLM.from_config(config)
            config.architectures = [type(model).__name__]
            maker = reading.TENSOR_PROCESSORS.get(file.architecture, reading.TensorProcessor)
            known = reading.get_gguf_hf_weights_map(model, maker(config=config.to_dict()))
            if faults := _left_out(file, config, known):
                raise RequestError(faults)
            found = reading.load_gguf_checkpoint(
                str(file.path), return_tensors=True, model_to_load=model
            )
    except RequestError:
        raise
    except Exception as error:  # whatever a file can be wrong in
        if runtime.is_out_of_memory(error):
            raise
        what = f"cannot be read by transformers: {said_by(error)}."
        raise refusal(name, what, _ORIGINAL) from error
    return config, found["tensors"]


def _completed(config: Any, file: Gguf) -> None:
    """Bring into a config what the file says and transformers left as the family usually has it."""
    for name, own in _FURTHER.items():
        if file.own(name) is not None and hasattr(config, own):
            setattr(config, own, file.own(name))
    read = getattr(config, "rope_parameters", None)
    if read and (base := file.own("rope.freq_base")) is not None:
        read["rope_theta"] = base
    config.bos_token_id, config.pad_token_id, *ends = (
        file.fields.get(f"tokenizer.ggml.{one}_token_id")
        for one in ("bos", "padding", "eos", "eot", "eom")
    )
    several = sorted({one for one in ends if isinstance(one, int)})
    config.eos_token_id = several if len(several) > 1 else next(iter(several), None)


def _left_out(file: Gguf, config: Any, known: Mapping[str, str]) -> list[Fault]:
    """What the file says of the model and transformers would leave out, so that another is run."""
    faults = []
    left = [one for one in file.tensors if not {one, one.removesuffix(".weight")} & known.keys()]
    if left:
        what = f"holds {left[0]!r}, which transformers does not read ({len(left)} such tensors)."
        faults.append(Fault(file.path.name, what, _ORIGINAL))
    scaled, read = file.own("rope.scaling.type"), getattr(config, "rope_parameters", None) or {}
    if scaled not in (None, "none") and read.get("rope_type", "default") == "default":
        what = f"tells places of tokens by {scaled!r} scaling, which transformers does not read."
        faults.append(Fault(file.path.name, what, _ORIGINAL))
    return faults


def _fields_unread(file: Gguf) -> list[str]:
    """Fields of its architecture that transformers does not know, so that they change nothing."""
    from transformers.integrations.ggml import GGUF_CONFIG_MAPPING

    start = f"{file.architecture}."
    maps: Values = GGUF_CONFIG_MAPPING
    known = {*_FURTHER, "vocab_size", "attention.value_length", "rope.freq_base"}
    known |= maps.get(file.architecture.replace("moe", "_moe"), {}).keys()
    return [
        name
        for name in file.fields
        if name.startswith(start) and name.removeprefix(start) not in known
    ]


def _shortest(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers in 16 bits, where these hold them to the bit."""
    for kind in (torch.bfloat16, torch.float16):
        if torch.equal(tensor.to(kind).to(tensor.dtype), tensor):
            return tensor.to(kind)
    return tensor


def _with_tokenizer(file: Gguf, beside: Sequence[Path], target: Path) -> None:
    """Copy the tokenizer from beside the file, or rebuild it from the file; either way it has the
    file's vocabulary, and cuts text in the folder as it did before."""
    from transformers import AutoTokenizer

    for one in beside:
        shutil.copyfile(one, target / one.name)
    try:
        if not beside:
            with _silent():
                # said, for it is written down and counts for a run's id
                local = {"gguf_file": file.path.name, "local_files_only": True}
                rebuilt = AutoTokenizer.from_pretrained(file.path.parent, **local)
            rebuilt.save_pretrained(target)
            known_of_class = _without_tokens_beyond(target / "tokenizer.json", len(file.tokens))
        tokenizer = load_tokenizer(target)
        cuts = [] if beside or known_of_class else [one(PROBE) for one in (rebuilt, tokenizer)]
        if len({str(one["input_ids"]) for one in cuts}) > 1:
            raise ValueError("it cuts text otherwise once it is saved")
    except Exception as error:  # whatever a tokenizer can be wrong in
        what = f"has a tokenizer that cannot be loaded: {said_by(error)}."
        fix = "Put the model's own tokenizer.json beside it."
        raise refusal(file.path.name, what, fix) from error
    known = dict(enumerate(file.tokens))
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
    apart = [word for word, at in vocabulary if known.get(at) != word]
    if apart:
        whose = f"the tokenizer in {file.path.parent}" if beside else "the tokenizer made of it"
        what = (
            f"has another vocabulary than {whose}: {len(apart)} entries differ, the first is"
            f" {apart[0][:40]!r}."
        )
        fix = "Put its own tokenizer.json beside it, or move the file into a folder of its own."
        raise refusal(file.path.name, what, fix)


def _without_tokens_beyond(path: Path, size: int) -> bool:
    """Take out what a tokenizer's class added behind the file's vocabulary: the model knows no such
    token. Whether there was any."""
    whole = json.loads(path.read_text(encoding="utf-8"))
    kept = [one for one in whole["added_tokens"] if one["id"] < size]
    if len(kept) == len(whole["added_tokens"]):
        return False
    path.write_text(json.dumps({**whole, "added_tokens": kept}), encoding="utf-8")
    return True


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Within it nothing is printed: readers draw bars and tables of their own."""
    with quietly(), contextlib.redirect_stderr(io.StringIO()):
        yield
