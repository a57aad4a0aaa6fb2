"""Check a model folder before any weight is loaded, and say everything that is wrong with it at
once."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from types import NoneType
from typing import Any

from engine.core.errors import Fault, RequestError, refusal, said_by, unknown
from engine.core.text import visible
from engine.core.types import digest_of
from engine.models import runtime  # noqa: F401
from engine.models.completeness import Match, incomplete, match_of, untied
from engine.models.config_file import (
    CONFIG,
    GENERATION,
    config_of,
    config_or_nothing,
    end_tokens,
    named_architecture,
    quantisation_of,
    quantised_faults,
)
from engine.models.file_fields import FIELDS, refusals
from engine.models.gguf_file import record_of
from engine.models.notes import TOKENIZER, notes_on
from engine.models.structure.adapter import FAMILIES, adapter_of
from engine.models.weights import bytes_in, count_parameters, weight_hash, weights_in

LORA_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
_LORA_TENSOR = re.compile(
    r"(^|\.)(lora_(A|B|embedding_A|embedding_B|magnitude_vector)|base_model\.model)\."
)
TOKENIZER_FILES = ("tokenizer.json", "vocab.json", "tokenizer.model", "vocab.txt")
PROBE = (
    "The  nurse's 3.14 \u20ac bill,\n\tna\u00efve caf\u00e9 \u2014 \u4f60\u597d \U0001f600 e\u0301 "
    "HTTP://x.y/?a=1&b=2 </s> <|endoftext|> ..."
)
"""Text on which tokenizers part: blanks, digits, signs, other scripts, joined letters, names of
special tokens."""
MOST_LAYERS = 10_000
IS_CUT = (
    "holds a model that PruneAudit has cut (it has a mask.json); it is a result, not a base model."
)


@dataclass(frozen=True)
class ModelInfo:
    """A checkpoint without its weights. `weight_hash`: SHA-256 over the safetensors files (see
    weights.weight_hash).

    `revision` is the hub commit, None for a folder. `n_parameters` counts numbers in the files.
    """

    name: str
    revision: str | None
    folder: Path
    model_type: str
    n_layers: int
    n_heads: int
    n_positions: int
    vocab_size: int
    n_parameters: int
    files: tuple[str, ...]
    weight_hash: str
    how: str = ""
    """How the model was read, where FAMILIES does not name its family."""
    notes: tuple[str, ...] = ()
    """What the folder holds that is not read, in sentences with a question each."""
    more_ends: tuple[int, ...] = ()
    """Tokens that end a text besides the tokenizer's own."""
    begin: tuple[int, ...] = ()
    """Tokens that its tokenizer puts before every text."""
    template: str = ""
    """Digest of its tokenizer's chat template; "" where it has none."""
    width: float = 4.0
    """Bytes that a number takes in the files, on average: 2 in a bf16 checkpoint."""
    n_bytes: int = 0
    """Bytes of all weights in the files, or in the GGUF file that they were made of."""
    shared: bool = False
    """Whether a layer is gone through several times in one pass."""


def inspect_folder(
    folder: Path, name: str, revision: str | None = None, causal: bool = True, as_arm: bool = False
) -> ModelInfo:
    """What the folder holds. RequestError with every fault found; reads headers and hashes, loads
    nothing.

    causal: a language model is wanted; else an encoder that classifies texts. as_arm: it is only
    read, beside another model, so that its weights may be quantised.
    """
    from transformers import AutoModelForCausalLM

    if not os.path.isdir(folder):  # False of a name too long
        fix = "Give a model folder, or a name on the hub."
        raise refusal(str(folder), "is not a folder.", fix)
    config, faults = read_config(folder, causal)
    files, shapes, more = weights_in(folder)
    faults += more
    faults += [
        *lora_faults(folder, shapes),
        *_field_faults(folder, causal),
        *quantised_faults(folder, as_arm),
        *_cut_faults(folder, causal),
        *_tokenizer_faults(folder, config, causal),
    ]
    match, notes = Match(), ""
    if not faults and causal and not quantisation_of(folder):
        match = match_of(config, files, AutoModelForCausalLM)
        notes = untied(config, files, AutoModelForCausalLM)
        faults = incomplete(name, replace(match, unexpected=()))
    if faults:
        raise RequestError(faults)
    adapter = adapter_of(config, causal)
    tokenizer = load_tokenizer(folder) if causal else None
    ends = end_tokens(folder, tokenizer.eos_token_id) if tokenizer else ()
    begin = begin_of(tokenizer) if tokenizer else ()
    said = [notes, begin_said(tokenizer, begin)]
    vocab_size, n_parameters = int(config.vocab_size), count_parameters(shapes)
    held = bytes_in(files)
    return ModelInfo(
        name=name,
        revision=revision,
        folder=folder,
        model_type=config.model_type,
        n_layers=adapter.n_layers,
        n_heads=adapter.n_heads,
        n_positions=adapter.n_positions,
        vocab_size=vocab_size,
        n_parameters=n_parameters,
        width=held / n_parameters,
        n_bytes=record_of(folder).get("n_bytes", held),
        files=tuple(path.name for path in files),
        weight_hash=weight_hash(files),
        how=adapter.how,
        shared=adapter.shared,
        notes=(*notes_on(folder, config, files, match.unexpected, ends), *filter(None, said)),
        begin=begin,
        template=digest_of(tokenizer.chat_template)
        if tokenizer and tokenizer.chat_template
        else "",
        more_ends=tuple(one for one in ends if one < vocab_size),
    )


def _field_faults(folder: Path, causal: bool) -> list[Fault]:
    """Fields of the files beside the weights that ask for what is not done here."""
    faults: list[Fault] = []
    if causal and (folder / GENERATION).exists():
        try:
            config_of(folder, GENERATION)
        except RequestError as error:
            faults += error.faults
    for name in (CONFIG, TOKENIZER, GENERATION) if causal else (CONFIG, TOKENIZER):
        faults += refusals(name, config_or_nothing(folder, name), name)
    for name in (CONFIG, GENERATION) if causal else ():
        ends = config_or_nothing(folder, name).get("eos_token_id")
        for one in ends if isinstance(ends, list) else [ends]:
            if type(one) not in (int, NoneType):
                what = f"names {str(one)[:40]!r} as a token that ends a text (eos_token_id)."
                faults.append(Fault(name, what, "Give numbers of tokens."))
                break
    return faults


def lora_faults(folder: Path, tensors: Iterable[str]) -> list[Fault]:
    """An adapter of peft's (LoRA) beside or in the weights. transformers would apply it or
    leave it out, as peft is installed or not."""
    files = [name for name in ("adapter_config.json", *LORA_WEIGHTS) if (folder / name).exists()]
    inside = [name for name in tensors if _LORA_TENSOR.search(name)]
    if not files and not inside:
        return []
    what = (
        f"holds an adapter ({', '.join(files or inside[:1])}), which is applied or not as peft is"
        " installed or not."
    )
    return [Fault(str(folder), what, FIELDS["adapter_config.json"]["peft_type"].why)]


def read_config(folder: Path, causal: bool = True) -> tuple[Any, list[Fault]]:
    """The transformers config of a known architecture, or None and why not. Never runs code of the
    checkpoint.

    causal: only architectures of language models are right; else only encoders.
    """
    if not (folder / CONFIG).is_file():
        return None, [_no_config(folder)]
    try:
        plain = config_of(folder)
        model_type = plain["model_type"]
    except (RequestError, KeyError) as error:
        why = f" It {error.faults[0].what}" if isinstance(error, RequestError) else ""
        what = f"is no JSON object with a model_type.{why}"
        return None, [Fault(CONFIG, what, "Download or copy it again.")]
    if faults := _kind_faults(plain, model_type, causal):
        return None, faults
    config, faults = plain_config(folder)
    if config is None:
        return None, faults
    try:
        faults = _shape_faults(config, causal) + _activation_faults(config)
        if not faults:
            adapter_of(config, causal)
    except RequestError as error:  # an architecture that cannot be read
        return None, list(error.faults)
    except Exception as error:  # fields of kinds that nobody thought of
        return None, [_unusable(error)]
    return config, faults


def _no_config(folder: Path) -> Fault:
    fix = "Point to a folder written by save_pretrained."
    return Fault(str(folder), "has no config.json.", fix)


def _unusable(error: Exception) -> Fault:
    return Fault(CONFIG, f"cannot be used: {said_by(error)}.", "Fix config.json.")


def _shape_faults(config: Any, causal: bool) -> list[Fault]:
    """What in the shape of a model does not add up, as far as its family is known. Reading its
    structure refuses the rest."""
    faults = []
    layers, width = getattr(config, "num_hidden_layers", None), getattr(config, "hidden_size", 1)
    if isinstance(layers, int) and not 1 <= layers <= MOST_LAYERS:
        what = f"names {layers} layers."
        faults.append(Fault(CONFIG, what, f"Fix config.json: 1 to {MOST_LAYERS}."))
    if width < 1:
        faults.append(Fault(CONFIG, f"names a width of {width}.", "Fix config.json."))
    if config.model_type not in FAMILIES[causal]:
        return faults
    heads = int(config.num_attention_heads)
    if not getattr(config, "head_dim", None) and (heads < 1 or width % heads):
        what = f"hidden size {width} does not divide into {heads} heads."
        faults.append(Fault(CONFIG, what, "Fix config.json."))
    if causal:
        return faults
    if getattr(config, "is_decoder", False) or getattr(config, "add_cross_attention", False):
        what = "describes a decoder: its tokens do not see the whole text."
        faults.append(Fault(CONFIG, what, "Use an encoder."))
    kind = getattr(config, "position_embedding_type", None) or "absolute"
    if kind != "absolute":
        what = f"has {kind} positions, which transformers no longer computes."
        faults.append(Fault(CONFIG, what, "Use a checkpoint with absolute positions."))
    if config.max_position_embeddings < 1:
        faults.append(Fault(CONFIG, "leaves no position for a token.", "Fix config.json."))
    return faults


def plain_config(folder: Path) -> tuple[Any, list[Fault]]:
    """The transformers config of any architecture that transformers itself knows, or None and why
    not. Never runs code of the checkpoint."""
    from transformers import AutoConfig

    if not (folder / CONFIG).is_file():
        return None, [_no_config(folder)]
    try:
        found = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # whatever a config can be wrong in
        return None, [_unusable(error)]
    return found, []


def _activation_faults(config: Any) -> list[Fault]:
    """Activations that transformers does not have; it would say so only once the weights are
    loaded."""
    from transformers.activations import ACT2FN

    names = ("activation_function", "hidden_act", "activation")
    asked = [getattr(config, name, None) for name in names]
    return [
        unknown("activation", name, ACT2FN, "Fix config.json.")
        for name in asked
        if isinstance(name, str) and name not in ACT2FN
    ]


def load_tokenizer(folder: Path, padding_side: str = "left") -> Any:
    """The folder's tokenizer, with a padding token (end of text where it has none of its own)."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(
        folder, trust_remote_code=False, local_files_only=True
    )
    tokenizer.padding_side = padding_side
    if tokenizer.pad_token is None:
        spare = tokenizer.eos_token or tokenizer.bos_token or tokenizer.unk_token
        tokenizer.pad_token = spare or tokenizer.convert_ids_to_tokens(0)
    return tokenizer


def begin_of(tokenizer: Any) -> tuple[int, ...]:
    """Tokens that a tokenizer's own rule puts before every text; () where it puts none."""
    whole, bare = (
        tokenizer(PROBE, add_special_tokens=special, verbose=False)["input_ids"]
        for special in (True, False)
    )
    room = range(len(whole) - len(bare) + 1)
    at = next((at for at in room if whole[at : at + len(bare)] == bare), 0)
    return tuple(whole[:at])


def begin_said(tokenizer: Any, begin: tuple[int, ...]) -> str:
    """A sentence on tokens that begin every text; "" where none do."""
    if not begin:
        return ""
    named = visible(" ".join(tokenizer.convert_ids_to_tokens(list(begin))))
    return f"Every prompt and every window of text begins with {named}, as its tokenizer has it."


def turn_of(tokenizer: Any, name: str) -> tuple[list[int], list[int]]:
    """Tokens that its chat template puts before a user's turn, and behind it, where the answer
    begins. RequestError where there is no template, or none that holds such a turn."""
    before, found, behind, what = "", "", "", "has no chat template to put prompts into."
    if tokenizer.chat_template:
        turn = [{"role": "user", "content": PROBE}]
        try:
            whole = tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
            before, found, behind = str(whole).partition(PROBE)
            what = "has a chat template that changes or drops what the user says."
        except Exception as error:  # whatever a template can be wrong in
            what = f"has a chat template that cannot be used: {said_by(error)}."
    if not found:
        raise refusal("chat", f"{name} {what}", "Leave it out: prompts are then raw.")
    ids = [tokenizer(part, add_special_tokens=False)["input_ids"] for part in (before, behind)]
    return ids[0], ids[1]


def _kind_faults(plain: dict, model_type: Any, causal: bool) -> list[Fault]:
    """Why an architecture cannot be used here; a word more where it can be used elsewhere.

    Families that FAMILIES does not name are read by their structure later on.
    """
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
    )

    if model_type in FAMILIES[causal]:
        return []
    if not isinstance(model_type, str) or model_type not in CONFIG_MAPPING_NAMES:
        own = " It brings code of its own (auto_map), which is never run."
        what = f"{model_type!r} is not known to this version of transformers."
        what += own if plain.get("auto_map") else ""
        return _refusal(
            what,
            f"Proved by tests: {', '.join(FAMILIES[causal])}; others are read by their structure.",
        )
    reads = is_encoder(model_type)
    writes = model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and not reads
    if model_type in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES and not writes:
        what = (
            f"{model_type!r} reads a text with one half and writes with the other"
            " (encoder-decoder): its heads are not those of one language model or one classifier."
        )
        return _refusal(what, "Use a decoder, or an encoder with a classification head.")
    if not causal and named_architecture(plain).endswith("ForSequenceClassification"):
        return []
    classifies = not causal and model_type in MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES
    if not (writes or reads or classifies):
        kind = "language model" if causal else "text classifier"
        what = (
            f"{model_type!r} is a part of other models or reads no texts: transformers has no"
            f" {kind} of it."
        )
        return _refusal(what, f"Use a folder whose config.json names a {kind}.")
    if causal and not writes:
        what = f"{model_type!r} is an encoder: it reads texts and does not continue them."
        return _refusal(what, "Assess it as a text classifier, or use a language model.")
    if not causal and writes:
        what = (
            f"{model_type!r} continues texts; a text classifier that sees the whole text, or one"
            " with a classification head, is needed."
        )
        return _refusal(what, "Assess it as a language model, or use an encoder.")
    return []


def _refusal(what: str, fix: str) -> list[Fault]:
    return [Fault("architecture", what, fix)]


def is_encoder(model_type: Any) -> bool:
    """Whether models of this type read whole texts: those in FAMILIES, and those that guess
    masked words."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    if model_type in FAMILIES[True]:
        return False
    return model_type in FAMILIES[False] or model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES


def tokenizer_missing(folder: Path) -> list[Fault]:
    """A fault where a folder has no tokenizer."""
    if any((folder / name).is_file() for name in TOKENIZER_FILES):
        return []
    return [Fault(str(folder), "has no tokenizer.", f"Add one of {', '.join(TOKENIZER_FILES)}.")]


def _tokenizer_faults(folder: Path, config: Any, causal: bool) -> list[Fault]:
    if faults := tokenizer_missing(folder):
        return faults
    try:
        tokenizer = load_tokenizer(folder)
        last = max(tokenizer.get_vocab().values())
    except Exception as error:
        what = f"cannot be loaded: {said_by(error)}."
        return [Fault("tokenizer", what, "Download or copy it again.")]
    vocab_size = getattr(config, "vocab_size", None)
    fix = "Use the tokenizer that the model was trained with."
    if vocab_size is not None and last >= vocab_size:
        what = f"does not fit: it makes token {last}, the model knows 0 to {vocab_size - 1}."
        return [Fault("tokenizer", what, fix)]
    padding = getattr(config, "pad_token_id", None)
    if not causal and padding is not None and tokenizer.pad_token_id != padding:
        # RoBERTa's positions, and the empty text that attributions start from, need this token.
        what = f"pads with token {tokenizer.pad_token_id}, config.json says {padding}."
        return [Fault("tokenizer", what, fix)]
    return []


def _cut_faults(folder: Path, causal: bool) -> list[Fault]:
    if not (folder / "mask.json").is_file():
        return []
    reader = "Use the base model, or load it with engine.surgery.heads.replay.load_cut."
    shown = "Use the base model. What the cut one gets right says evaluate --model FOLDER."
    return [Fault(str(folder), IS_CUT, reader if causal else shown)]


def has_experts(config: Any) -> bool:
    """Whether its tokens are sent to some of many experts."""
    named = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
    inner = getattr(config, "ffn_config", None)  # DBRX's
    return any(getattr(one, name, 0) for one in (config, inner) for name in named)


def positions_hang_on_length(config: Any) -> bool:
    """Whether how a token's place is told hangs on how long the whole text is."""
    said = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    each = [said, *(one for one in said.values() if isinstance(one, dict))]
    return any(one.get("rope_type", one.get("type")) in ("dynamic", "longrope") for one in each)


PROVED_BY_TESTS = (
    "Its family is known here. The audit checks again that switched-off heads contribute nothing."
)
PROVED = (
    "Checked on the loaded model: heads lie one after the other. A switched-off head changes the "
    "output of its layer and nothing below it. With all heads off no token sees another."
)


def heads_said(info: Any, adapter_of_loaded: Callable[[], Any]) -> list[str]:
    """Sentences about a transformer; info: a ModelInfo. Where it was read by its structure it is
    loaded, by the adapter of which the proof is known (RequestError with what failed)."""
    what = (
        f"{info.name} is {'an' if info.model_type[:1].lower() in 'aeio' else 'a'}"
        f" {info.model_type} of {info.n_layers} layers"
        f" with {info.n_heads} heads each, {size_said(info.n_parameters)}, reading up to"
        f" {info.n_positions:,} tokens."
    )
    return [what, adapter_of_loaded().how, PROVED] if info.how else [what, PROVED_BY_TESTS]


def size_said(numbers: int) -> str:
    """How many parameters a model has: "124 million parameters"."""
    for least, word in ((10**9, "billion"), (10**6, "million")):
        if numbers >= least:
            return f"{numbers / least:.3g} {word} parameters"
    return f"{numbers:,} parameters"
