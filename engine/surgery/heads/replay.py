"""Write a cut model and load it again: the same weights, the same cut.

A checkpoint with uneven heads does not load in plain transformers: it raises or, told to go on,
fills those layers with random numbers. So a cut model is saved with its mask and loaded here:
skeleton, same cut, every tensor compared. Weights are the model's own, so what was learned after
the cut is kept. torch is imported when it is needed.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core.errors import Fault, MaskError, RequestError, refusal
from engine.core.files import new_folder
from engine.core.types import HeadMask, Values
from engine.models.config_file import CONFIG, GENERATION, config_of, end_tokens, said_outputs
from engine.surgery.record import MASK_FILE, MaskRecord, read_mask, write_mask

if TYPE_CHECKING:
    from engine.models.load_language_model import LanguageModel
    from engine.models.load_text_classifier import TextClassifier
    from engine.models.transformer import TransformerModel

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
    """What `save_cut` and `save_cut_classifier` share."""
    if cut.cut is None or cut.cut != record.mask:
        raise refusal(
            "mask", f"is not the one that {cut.name} was cut by.", "Save with its own record."
        )

    from safetensors.torch import save_file

    with new_folder(folder) as draft:
        cut.model.config.save_pretrained(draft)
        save_file(
            _tensors(cut.model), draft / WEIGHTS, metadata={"format": "pt", "pruneaudit": "cut"}
        )
        save_tokenizer(draft)
        write_mask(draft / MASK_FILE, record)
    return Path(folder).expanduser()


def save_zeroed(lm: LanguageModel, mask: HeadMask, folder: str | Path) -> Path:
    """Write the dense model with zeros for the cut heads: `from_pretrained` of any transformers
    loads it."""
    from engine.surgery.heads.mask import zeroed

    with new_folder(folder) as draft:
        zeroed(lm, mask).model.save_pretrained(draft)
        lm.tokenizer.save_pretrained(draft)
    return Path(folder).expanduser()


def load_cut(folder: str | Path, device: str = "cpu") -> LanguageModel:
    """Load what `save_cut` wrote. RequestError with every fault; each tensor must be there with its
    exact shape."""
    from engine.models.load_language_model import LanguageModel

    made = read_cut(Path(folder), device)
    return LanguageModel(**made, more_ends=end_tokens(Path(folder), made["tokenizer"].eos_token_id))


def read_cut(folder: Path, device: str, causal: bool = True) -> Values:
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
        raise refusal(path.name, what, "Use a folder as it was exported.")
    # Names were compared above; tied ones are stored once.
    model.load_state_dict(found, strict=False)


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


def save_cut_classifier(cut: TextClassifier, record: MaskRecord, folder: str | Path) -> Path:
    """Write a cut classifier: config.json with its classes, its own weights, tokenizer, mask.json.
    Whole or not at all.

    RequestError where the folder exists and is not empty, or when the record is not the mask of
    this model.
    """
    from engine.models.load_text_classifier import save_text_tokenizer

    return write_cut(cut, record, folder, partial(save_text_tokenizer, cut))


def load_cut_classifier(folder: str | Path, device: str = "cpu") -> TextClassifier:
    """Load what `save_cut_classifier` wrote. RequestError with every fault; each tensor must be
    there exactly."""
    from engine.models.load_text_classifier import TextClassifier

    parts = read_cut(Path(folder), device, causal=False)
    said, faults = said_outputs(config_of(Path(folder).expanduser()), CONFIG)
    if faults := faults + said.class_faults(CONFIG, "text"):
        raise RequestError(faults)
    return TextClassifier(
        **parts,
        classes=said.names or tuple(map(str, range(parts["model"].config.num_labels))),
        max_length=min(int(parts["tokenizer"].model_max_length), parts["adapter"].n_positions),
        has_head=True,
    )


# Cuts that config.json can describe: as many heads in every layer, whole key/value groups. They
# load anywhere. What a config must be able to say, and what loaders ask of it:
# `num_attention_heads` and `num_key_value_heads` for all layers alike, the first a multiple of the
# second; `head_dim` by its own name, for it no longer is the hidden size over the heads; the hidden
# size itself stays. Some families' configs (Llama's) also want it to divide by the heads:
# `Shape.left`.


LEAVE_OUT = "Leave it out: the cut model then loads here, and with zeros anywhere."


@dataclass(frozen=True)
class Shape:
    """How heads lie: so many layers, heads in each, and query heads that share a key/value head.

    left: numbers of key/value groups per layer that a config may say; None where any is taken.
    """

    n_layers: int
    n_heads: int
    group: int = 1
    left: tuple[int, ...] | None = None

    @property
    def groups(self) -> int:
        """Key/value groups of a layer."""
        return self.n_heads // self.group

    def may_take(self, most: int) -> int:
        """The most groups, up to `most`, that every layer can lose; 0 where none can."""
        fits = range(1, self.groups) if self.left is None else self.left
        return max(
            (self.groups - left for left in fits if 0 < self.groups - left <= most), default=0
        )


def shape_of(config: Any) -> Shape:
    """Of the config of a language model."""
    heads = int(config.num_attention_heads)
    shared = int(getattr(config, "num_key_value_heads", None) or heads)
    group = max(1, heads // shared)
    fits = tuple(left for left in range(1, shared) if _saying(config, left * group, left))
    return Shape(int(config.num_hidden_layers), heads, group, fits)


def _saying(config: Any, heads: int, shared: int) -> Any:
    """The config with so many heads of the same width, None where the family refuses it."""
    # Of a head, where the config says it, else what remains: the hidden size over the heads.
    said = {
        "num_attention_heads": heads,
        "num_key_value_heads": shared,
        "head_dim": int(
            getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        ),
    }
    try:
        return type(config).from_dict({**config.to_dict(), **said})
    except Exception:  # each family has its own way to refuse
        return None


def even_faults(config: Any) -> list[Fault]:
    """Why a model's config could not say how many heads are left. A family that is read by
    structure is tried: some read a `head_dim` that their config does not name (Phi), some do not
    though it is there."""
    missing = [name for name in ("head_dim", "num_key_value_heads") if not hasattr(config, name)]
    grouped = hasattr(config, "num_key_value_heads")
    what = _structural_fault(config) if grouped else "".join(missing)
    if what and missing:
        what = (
            f"the config.json of {config.model_type!r} has no {' and no '.join(missing)}: fewer"
            " heads of the same "
        )
        what += "width cannot be said in it."
    return [Fault("deployable", what, LEAVE_OUT)] if what else []


def _structural_fault(config: Any) -> str:
    """What is wrong with a family that is read by structure: its heads stay in, or it does not
    build what its config says of heads. "" where nothing is."""
    from engine.models.structure.read import layout_of  # loads torch

    layout, shape = layout_of(config, True), shape_of(config)
    if layout.whole:
        return f"the heads of {config.model_type!r} are zeroed, not cut out: {layout.whole}."
    if not shape.left:
        return ""
    left = shape.left[0]
    try:
        built = layout_of(_saying(config, left * shape.group, left), True)
        same = (built.heads, built.groups, built.width) == (left * shape.group, left, layout.width)
    except RequestError:
        same = False
    what = f"{config.model_type!r} gives fewer heads another width, whatever its config.json says."
    return "" if same else what


def is_even(mask: HeadMask, shape: Shape) -> bool:
    """Whether every layer keeps as many heads, at least one group, and only whole groups are
    cut."""
    counts = {len(mask.cut_in(layer)) for layer in range(mask.n_layers)}
    if len(counts) != 1 or not 0 < min(counts) < mask.n_heads:
        return False
    if shape.left is not None and (mask.n_heads - min(counts)) // shape.group not in shape.left:
        return False
    whole_groups = {(layer, head // shape.group) for layer, head in mask.cut}
    return len(whole_groups) * shape.group == len(mask.cut)


def save_even(small: LanguageModel, shape: Shape, folder: str | Path) -> Path:
    """Write a cut model with a config.json that describes it. MaskError where its cut is not
    even."""
    mask = small.cut
    if (
        mask is None
        or not is_even(mask, shape)
        or not shape.may_take(len(mask.cut_in(0)) // shape.group)
    ):
        raise MaskError(
            "only a cut of as many whole groups of heads in every layer can be described by"
            " config.json."
        )
    config = copy.deepcopy(small.model.config)
    gone = len(mask.cut_in(0))
    config.head_dim = small.adapter.head_dim
    config.num_attention_heads = shape.n_heads - gone
    config.num_key_value_heads = (shape.n_heads - gone) // shape.group

    own, small.model.config = small.model.config, config
    try:
        with new_folder(folder) as draft:
            small.model.save_pretrained(draft)
            small.tokenizer.save_pretrained(draft)
    finally:
        small.model.config = own
    return Path(folder).expanduser()
