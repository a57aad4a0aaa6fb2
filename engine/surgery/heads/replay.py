"""Write a cut model and load it again: the same weights, the same cut.

A checkpoint with uneven heads does not load in plain transformers (it raises or, told to go on,
fills those layers with random numbers). So a cut model is saved with its mask and loaded here:
skeleton, same cut, every tensor compared. torch is imported when it is needed: the mask file alone
(engine.surgery.heads.record, re-exported here) does without.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core.errors import Fault, RequestError
from engine.core.types import HeadMask
from engine.models.config_file import GENERATION, end_tokens
from engine.surgery.heads.record import (
    MASK_FILE,
    MaskRecord,
    check_mask_fits,
    read_mask,
    record_of,
    write_mask,
)

if TYPE_CHECKING:
    from engine.models.load_language_model import LanguageModel
    from engine.models.transformer import TransformerModel

__all__ = [
    "MASK_FILE",
    "MaskRecord",
    "check_mask_fits",
    "load_cut",
    "read_mask",
    "record_of",
    "save_cut",
    "save_zeroed",
    "write_mask",
]

WEIGHTS = "model.safetensors"


def save_cut(lm_cut: LanguageModel, record: MaskRecord, folder: str | Path) -> Path:
    """Write a cut model: the base's config.json, its own weights, tokenizer, mask.json. Whole or
    not at all.

    RequestError where the folder exists and is not empty, or when the record is not the mask of
    this model.
    """

    def beside(draft: Path) -> None:
        lm_cut.tokenizer.save_pretrained(draft)
        if lm_cut.more_ends:
            said = {"eos_token_id": sorted(lm_cut.ends)}
            (draft / GENERATION).write_text(json.dumps(said), encoding="utf-8")

    return write_cut(lm_cut, record, folder, beside)


def write_cut(
    cut: TransformerModel,
    record: MaskRecord,
    folder: str | Path,
    save_tokenizer: Callable[[Path], object],
) -> Path:
    """What `save_cut` and `text_replay.save_cut_classifier` share."""
    if cut.cut is None or cut.cut != record.mask:
        raise RequestError(
            Fault(
                "mask", f"is not the one that {cut.name} was cut by.", "Save with its own record."
            )
        )

    def fill(draft: Path) -> None:
        from safetensors.torch import save_file

        cut.model.config.save_pretrained(draft)
        save_file(
            _tensors(cut.model), draft / WEIGHTS, metadata={"format": "pt", "pruneaudit": "cut"}
        )
        save_tokenizer(draft)
        write_mask(draft / MASK_FILE, record)

    return whole(Path(folder), fill)


def save_zeroed(lm: LanguageModel, mask: HeadMask, folder: str | Path) -> Path:
    """Write the dense model with zeros for the cut heads: `from_pretrained` of any transformers
    loads it."""
    from engine.surgery.heads.cut import zeroed

    def fill(draft: Path) -> None:
        zeroed(lm, mask).model.save_pretrained(draft)
        lm.tokenizer.save_pretrained(draft)

    return whole(Path(folder), fill)


def load_cut(folder: str | Path, device: str = "cpu") -> LanguageModel:
    """Load what `save_cut` wrote. RequestError with every fault; each tensor must be there with its
    exact shape."""
    from engine.models.load_language_model import LanguageModel

    made = read_cut(Path(folder), device)
    return LanguageModel(**made, more_ends=end_tokens(Path(folder), made["tokenizer"].eos_token_id))


def read_cut(folder: Path, device: str, causal: bool = True) -> dict[str, Any]:
    """Everything a `TransformerModel` is made of, from a folder with a cut one. Errors as for
    `load_cut`."""
    from engine.models import checkpoint, runtime
    from engine.models.structure.adapter import adapter_of
    from engine.models.weights import weights_in

    record, config = _cut_folder(folder, causal)
    adapter, place = adapter_of(config, causal), runtime.pick_device(device)
    adapter = adapter.as_saved(weights_in(folder)[1], record.mask)
    model = _skeleton(config, adapter, record)
    _fill(model, folder / WEIGHTS)
    model = model.to(place).eval().requires_grad_(False)
    return {
        "name": record.model,
        "revision": record.revision,
        "model": model,
        "tokenizer": checkpoint.load_tokenizer(folder, "left" if causal else "right"),
        "adapter": adapter,
        "weight_hash": record.weight_hash,
        "device": place,
        "dtype": model.dtype,
        "cut": record.mask,
    }


def _cut_folder(folder: Path, causal: bool) -> tuple[MaskRecord, Any]:
    from engine.models import checkpoint
    from engine.models.structure.adapter import adapter_of
    from engine.models.weights import weights_in

    record = read_mask(folder / MASK_FILE)
    config, faults = checkpoint.read_config(folder, causal)
    faults += weights_in(folder)[2]
    if not faults:
        adapter = adapter_of(config, causal)
        shape = (adapter.n_layers, adapter.n_heads)
        if shape != (record.n_layers, record.n_heads):
            what = (
                f"is for {record.n_layers} x {record.n_heads} heads, config.json says {shape[0]} x"
                f" {shape[1]}."
            )
            faults.append(Fault(MASK_FILE, what, "Use a folder as it was exported."))
    if faults:
        raise RequestError(faults)
    return record, config


def _skeleton(config: Any, adapter: Any, record: MaskRecord) -> Any:
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

    kind = AutoModelForCausalLM if adapter.causal else AutoModelForSequenceClassification
    # Its random weights are all replaced; the caller's random stream must not notice them.
    with torch.random.fork_rng(devices=[]):
        model = kind.from_config(
            config,
            dtype=config.dtype or torch.float32,
            attn_implementation=adapter.attention_implementation,
            trust_remote_code=False,
        )
    if record.means:
        adapter.make_room(model, record.mask)
    adapter.cut_heads(model, record.mask)
    return model


def _fill(model: Any, path: Path) -> None:
    """Load the tensors of the file into the model. RequestError unless every name and shape is the
    model's."""
    from safetensors.torch import load_file

    found, wanted = load_file(path), _tensors(model)
    wrong = sorted(
        name for name in found.keys() | wanted.keys() if _shape(found, name) != _shape(wanted, name)
    )
    if wrong:
        name = wrong[0]
        what = (
            f"does not hold the cut that {MASK_FILE} describes: {name} is {_shape(found, name)}, "
        )
        what += f"should be {_shape(wanted, name)} ({len(wrong)} tensors differ)."
        raise RequestError(Fault(path.name, what, "Use a folder as it was exported."))
    model.load_state_dict(
        found, strict=False
    )  # names were compared above; tied ones are stored once


def _shape(tensors: dict, name: str) -> str:
    """The shape of one of the tensors in words: "64x64", "one number", or "missing"."""
    return (
        "missing"
        if name not in tensors
        else "x".join(map(str, tensors[name].shape)) or "one number"
    )


def _tensors(model: Any) -> dict:
    """State of a model, tied tensors once (under the first name)."""
    kept, seen = {}, set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            kept[name] = tensor.detach().contiguous()
    return kept


def whole(folder: Path, fill: Callable[[Path], None]) -> Path:
    """Let `fill` write into a temporary sibling, then give it its name: the folder is there
    complete or not at all."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RequestError(Fault(str(folder), "exists already.", "Choose a new folder."))
    draft = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
        fill(draft)
        draft.chmod(0o755)  # mkdtemp makes it private
        os.replace(draft, folder)
    except OSError as error:
        raise RequestError(
            Fault(str(folder), f"cannot be written ({error}).", "Choose another place.")
        ) from error
    finally:
        if draft is not None and draft.exists():
            shutil.rmtree(draft, ignore_errors=True)
    return folder
