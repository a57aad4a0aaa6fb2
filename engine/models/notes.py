"""What a model folder holds that is not read, each in one sentence with the question that it
raises."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from engine.core.errors import refusal
from engine.core.files import folder_whole, make_folder, sha256_of
from engine.core.types import Values, digest_of
from engine.models.config_file import CONFIG, GENERATION, config_or_nothing
from engine.models.file_fields import unread
from engine.models.gguf_file import said_of
from engine.models.weights import INDEX, PICKLES
from engine.store.runs import default_root

TOKENIZER = "tokenizer_config.json"
MODULES = "modules.json"
_WEIGHTS = (*PICKLES, ".safetensors", ".gguf", ".onnx", ".ot", ".npz")
_SHARD = re.compile(r"^model-\d+-of-\d+\.safetensors$")
_TRAINING = re.compile(
    r"^(training_args|optimizer|scheduler|scaler|rng_state|random_states|tokenizer)"
)
_QUESTIONS = {
    r"(^|\.)(score|classifier|classification_head|qa_outputs)\.": "was this a classifier?",
    r"(^|\.)(v_head|value_head|reward_head)\.": "was this a model of rewards?",
    r"vision|visual|image|audio|speech|multi_modal|mm_proj": (
        "is it meant without its pictures or sound?"
    ),
    r"(^|\.)(layers?|h|blocks|mtp)\.": "does the model have parts that config.json does not name?",
}
"""What tensors that nobody uses make one ask, by their names."""


def notes_on(
    folder: Path, config: Any, files: Sequence[Path], unused: Sequence[str], ends: Sequence[int]
) -> tuple[str, ...]:
    """Sentences. files: those that are read; unused: tensors in them that the model does not have;
    ends: tokens that end a text besides the tokenizer's own."""
    found = [
        *said_of(folder),
        other_weights(folder, files),
        _modules(folder),
        unused_tensors(unused),
        _unknown(folder, config),
    ]
    found += [_unread(folder, name) for name in (GENERATION, TOKENIZER)]
    found += [_code(folder, name) for name in (CONFIG, TOKENIZER)]
    found += [
        _ends(
            [one for one in ends if one < config.vocab_size], "besides the tokenizer's own: obeyed."
        )
    ]
    found += [
        _ends(
            [one for one in ends if one >= config.vocab_size],
            "but the model has none: is it another's file?",
        )
    ]
    return tuple(note for note in found if note)


def _ends(tokens: Sequence[int], more: str) -> str:
    if not tokens:
        return ""
    which = (
        f"token {tokens[0]} ends"
        if len(tokens) == 1
        else f"tokens {_listed(list(map(str, tokens)))} end"
    )
    return f"config.json or {GENERATION} says that {which} a text too, {more}"


def _listed(names: Sequence[str], most: int = 3) -> str:
    more = len(names) - most
    if more > 0:
        return f"{', '.join(names[:most])} and {more} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def other_weights(folder: Path, files: Sequence[Path]) -> str:
    """Files of weights beside those that are read, in a sentence; "" where there are none."""
    read = {path.name for path in files}
    other = sorted(
        path.name
        for path in folder.iterdir()
        if path.suffix in _WEIGHTS and path.name not in read and not _TRAINING.match(path.name)
    )
    if not other or not files:
        return ""
    if all(_SHARD.match(name) for name in other):
        which = "it" if len(other) == 1 else "them"
        return (
            f"{_listed(other)} {_are(other)} not read: {INDEX} does not name {which}. Is it whole?"
        )
    mine = (
        f"{files[0].name} is"
        if len(files) == 1
        else f"the {len(files)} files that {INDEX} names are"
    )
    return f"{_listed(other)} {_are(other)} not read; {mine}. Are they the same weights?"


def _modules(folder: Path) -> str:
    """What sentence-transformers would put behind the encoder."""
    if not (folder / MODULES).is_file():
        return ""
    try:
        found = json.loads((folder / MODULES).read_text(encoding="utf-8"))
        kinds = [str(one["type"]).rpartition(".")[2] for one in found]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return f"{MODULES} cannot be read: does anything stand behind the encoder?"
    behind = [kind for kind in kinds if kind != "Transformer"]
    return (
        f"{MODULES} puts {_listed(behind)} behind the encoder, which {_are(behind)} not read."
        if behind
        else ""
    )


def unused_tensors(names: Sequence[str]) -> str:
    if not names:
        return ""
    asked = next(
        (text for form, text in _QUESTIONS.items() if re.search(form, names[0])),
        "are they another model's?",
    )
    more = f" and {len(names) - 1} more tensor{'s' * (len(names) > 2)}" if len(names) > 1 else ""
    return f"{names[0]}{more} {_are(names)} not used: {asked}"


def _unknown(folder: Path, config: Any) -> str:
    """Fields that transformers stores, while neither the family's config nor its model names
    them."""
    kind = type(config)
    known = {one.name for one in fields(kind)} | set(kind.attribute_map) | set(dir(kind))
    code = "".join(
        _source(kind.__module__.replace(".configuration_", part))
        for part in (".configuration_", ".modeling_")
    )
    own = [
        name
        for name in unread(CONFIG, config_or_nothing(folder))
        if name not in known
        and name in vars(config)
        and not re.search(rf"\b{re.escape(name)}\b", code)
    ]
    return (
        f"{CONFIG} has {_listed(own)}, which {kind.__name__} does not know: is it of another model?"
        if own
        else ""
    )


def _source(module: str) -> str:
    try:
        return inspect.getsource(importlib.import_module(module))
    except (ImportError, OSError, TypeError):
        return ""


def _unread(folder: Path, name: str) -> str:
    own = unread(name, config_or_nothing(folder, name))
    return (
        f"{name} has {_listed(own)}, which nothing here reads: does the model need it?"
        if own
        else ""
    )


def _code(folder: Path, name: str) -> str:
    own = config_or_nothing(folder, name).get("auto_map")
    return (
        f"{name} names code of its own, which is never run: does transformers' own do the same?"
        if own
        else ""
    )


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


# Classifiers of which the trained tensors alone lie in assets: put onto an encoder that a Python
# package carries.
#
# `built_on.json` names the package, the SHA-256 of its weights and of the trained tensors, the
# labels and the one that is harm. The whole model is written once, below the user's data, under a
# digest of both, and read from there like any other folder.


BUILT_ON, TRAINED = "built_on.json", "trained.safetensors"
BUILT_ON_TOKENIZER = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
)


def is_built_on(folder: Path) -> bool:
    """Whether the folder holds trained tensors that need the encoder of a package."""
    return os.path.isfile(folder / BUILT_ON)  # False of a name too long


def encoder_of(module: str) -> Path:
    """The folder of the encoder in an installed package, which is not imported. FileNotFoundError
    where there is none."""
    found = importlib.util.find_spec(module)
    for place in (found and found.submodule_search_locations) or ():
        if (Path(place) / "model" / "model.safetensors").is_file():
            return Path(place) / "model"
    raise FileNotFoundError(module)


def has_encoder(folder: Path) -> bool:
    """Whether the package is installed on whose encoder the model of a folder is built."""
    pin = json.loads((folder / BUILT_ON).read_text(encoding="utf-8"))
    try:
        return encoder_of(pin["module"]).is_dir()
    except FileNotFoundError:
        return False


def put_together(folder: Path) -> tuple[Path, str]:
    """The folder of the whole model, and its label that is harm. RequestError where the package is
    not installed, or holds or stores other numbers than those it was trained on."""
    pin = json.loads((folder / BUILT_ON).read_text(encoding="utf-8"))
    try:
        encoder = encoder_of(pin["module"])
    except FileNotFoundError as error:
        what = f"is built on the encoder of the package {pin['package']}, which is not installed."
        fix = "Install it by `make real`, or choose another model."
        raise refusal(folder.name, what, fix) from error
    for path, wanted in (
        (encoder / "model.safetensors", pin["weights"]),
        (folder / TRAINED, pin["trained"]),
    ):
        if (found := sha256_of(path)) != wanted:
            what = f"needs {path.name} with SHA-256 {wanted}, and {path} has {found}."
            fix = f"Install {pin['package']} as it was pinned, or choose another model."
            raise refusal(folder.name, what, fix)
    place = default_root() / "put-together" / digest_of([pin])[:16]
    if not (place / "model.safetensors").is_file():
        _write(folder, encoder, pin, place)
    return place, pin["harm"]


def _write(folder: Path, encoder: Path, pin: Values, place: Path) -> None:
    from safetensors.torch import load_file, save_file

    whole = {
        f"bert.{name}": value for name, value in load_file(encoder / "model.safetensors").items()
    }
    whole.pop("bert.embeddings.position_ids", None)
    whole |= {name: value.float() for name, value in load_file(folder / TRAINED).items()}
    config = json.loads((encoder / "config.json").read_text(encoding="utf-8"))
    labels = dict(enumerate(pin["labels"]))
    config |= {
        "architectures": ["BertForSequenceClassification"],
        "id2label": labels,
        "label2id": {name: at for at, name in labels.items()},
    }
    make_folder(place.parent)
    with folder_whole(place) as fresh:
        save_file(whole, fresh / "model.safetensors", metadata={"format": "pt"})
        (fresh / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
        for name in BUILT_ON_TOKENIZER:
            if (encoder / name).is_file():
                shutil.copyfile(encoder / name, fresh / name)
        path = fresh / "tokenizer_config.json"
        settings = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(
            json.dumps(settings | {"model_max_length": pin["length"]}, indent=1), encoding="utf-8"
        )
