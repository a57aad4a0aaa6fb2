"""Broken model folders, masks, runs, jobs, texts and images for bad inputs, and files as others
really save them: each from a sound tiny one by one change. Changes that are data stand in
bad_files.json, in which one letter is one byte."""

from __future__ import annotations

import importlib
import json
import os
import pickle
import shutil
import struct
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from engine.audit.tracks import tracks

Change = Callable[[Path], Any]
Header = dict[str, Any]
State = dict[str, Any]
"""Tensors by name."""
TABLE: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("bad_files.json").read_text(encoding="utf-8")
)
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
GONE = "{gone}"
"""The value of a field that is taken out."""
ENDINGS = {"prompts": "csv", "texts": "csv", "images": "csv", "corpora": "txt"}
DEEP = "[" * 100_000
DOCUMENTS: dict[str, str] = {**TABLE["documents"], "deep": DEEP}


def make_all(folder: Path) -> None:
    """Everything that bad_inputs.csv names below {bad}, and the sound things below {good}. What is
    made from a track's files is left out where that track is not here."""
    good, bad = folder / "good", folder / "bad"
    _make_good(good)
    for family in ("lm", "text", "image"):
        more = {} if family == "image" else TRANSFORMERS
        _changed(good / family, bad, {**TENSORS, **CONFIGS, **more}, f"{family}-")
    for source, changes in REAL.items():
        _changed(good / source, bad / "real", {**_edits(TABLE["real"].get(source, {})), **changes})
    for name, make in MADE.items():
        make(_in(bad / "real" / name))
    for name, text in TABLE["written"].items():
        _write(bad / "real" / name, text)
    for name, change in TABLE["masks"].items():
        _write(bad / "masks" / f"mask-{name}.json", json.dumps({**TABLE["mask"], **change}))
    for kind, ending in ENDINGS.items():
        for name, text in TABLE[kind].items():
            _write(bad / kind / f"{name}.{ending}", text)
    for name, text in DOCUMENTS.items():
        _write(bad / "masks" / f"{name}.json", text)
        _write(bad / "jobs" / name / "jobs" / "job-0123456789abcdef" / "request.json", text)
        _write(bad / "judges" / name / "judge.json", text)
    _make_runs(good, bad / "runs")
    os.mkfifo(bad / "fifo")
    (bad / "folder").mkdir()
    (bad / "circle").symlink_to(bad / "circle")
    (bad / "nowhere").symlink_to(bad / "none")


def _make_good(good: Path) -> None:
    """Every track that is here writes what is sound of it. And image classifiers, one as
    transformers saves it, pictures of its classes, a state dict, cases for a judge."""
    import torch
    from safetensors.torch import load_file

    from tests import made_up
    from tests.classifiers.worlds import saved_model
    from tests.tiny_images import CLASSES, saved_by_transformers

    for name in tracks():
        write = getattr(importlib.import_module(f"tests.tracks.{name}.worlds"), "write_sound", None)
        if write is not None:
            write(good)
    saved_model(good / "image", size=16)
    saved_by_transformers("resnet", good / "hub")
    torch.save(load_file(good / "image" / WEIGHTS), _in(good / "weights" / "w.pt"))
    labels, draw = "path,label,side,split\n", np.random.default_rng(0)
    for at in range(48):
        labels += f"{at}.png,{CLASSES[at % 3]},{'ab'[at // 3 % 2]},{('train', 'test')[at // 24]}\n"
        pixels = draw.integers(0, 256, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(_in(good / "pictures" / f"{at}.png"))
    _write(good / "pictures" / "labels.csv", labels)
    _write(
        good / "cases.csv", "test_case,label_gold,target_ident\nw1,hateful,a\nw2,non-hateful,a\n"
    )
    made_up.one_of_each(good / "store")


def _make_runs(good: Path, bad: Path) -> None:
    """A store each whose one run has another run.json."""
    sound = next((good / "store" / "runs").iterdir())
    whole = json.loads((sound / "run.json").read_text())
    changed = {name: json.dumps({**whole, **change}) for name, change in TABLE["runs"].items()}
    for name, text in {**DOCUMENTS, **changed}.items():
        folder = bad / name / "runs" / "one"
        folder.mkdir(parents=True)
        for table in sound.glob("*.parquet"):
            os.link(table, folder / table.name)
        _write(folder / "run.json", text)


def _changed(source: Path, into: Path, changes: Mapping[str, Change], before: str = "") -> None:
    """A copy of a file or a folder for each change; none where there is no such source."""
    for name, change in changes.items() if source.exists() else ():
        place = _in(into / f"{before}{name}")
        (shutil.copytree if source.is_dir() else shutil.copy)(source, place)
        change(place)


def _in(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _write(path: Path, content: str) -> None:
    _in(path).write_bytes(content.encode("latin-1"))


# --- files beside the weights -------------------------------------------------------------------


def _edits(rows: Mapping[str, Any]) -> dict[str, Change]:
    """Changes of files of a folder: by name, each file's new text, or some of its fields."""
    return {name: partial(_edited, files=files) for name, files in rows.items()}


def _edited(folder: Path, files: Mapping[str, Any]) -> None:
    for name, content in files.items():
        path = folder / name
        if not isinstance(content, str):
            found = json.loads(path.read_text()) if path.exists() else {}
            content = json.dumps(_without_gone({**found, **content}))
        _write(path, content)


def _without_gone(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value != GONE}


def _config_of(folder: Path) -> Path:
    return next(
        path
        for path in (folder / "config.json", folder / "classifier.json", *folder.glob("*.json"))
        if path.exists()
    )


def _config_text(folder: Path, text: str) -> None:
    _write(_config_of(folder), text)


def _pickled(folder: Path) -> None:
    """Weights that are code: a pickle that would run a command."""
    _weights(folder).unlink()
    (folder / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'touch /tmp/pickle_was_run'\ntR.")


def _all_gone(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def _weights_folder(folder: Path) -> None:
    path = _weights(folder)
    path.unlink()
    path.mkdir()


def _indexed_by(folder: Path, text: str) -> None:
    _weights(folder).rename(folder / "model-00001-of-00001.safetensors")
    _write(folder / INDEX, text)


CONFIGS: dict[str, Change] = {
    **{
        name: partial(_config_text, text=text)
        for name, text in {**TABLE["configs"], "config-deep": DEEP}.items()
    },
    "config-gone": lambda folder: _config_of(folder).unlink(),
    "pickle": _pickled,
    "folder-empty": _all_gone,
    "weights-gone": lambda folder: _weights(folder).unlink(),
    "weights-folder": _weights_folder,
}
TRANSFORMERS: dict[str, Change] = {
    **_edits(TABLE["transformers"]),
    **{name: partial(_indexed_by, text=text) for name, text in TABLE["indexes"].items()},
    "tokenizer-gone": lambda folder: list(map(Path.unlink, folder.glob("*token*"))),
}
"""What only folders of transformers can have wrong."""


# --- weights ------------------------------------------------------------------------------------


def _weights(folder: Path) -> Path:
    return next(folder.glob("*.safetensors"))


def _header(folder: Path, change: Callable[[Header, str, str], Header] | bytes) -> None:
    """Another header of the weights; `change` gets it and the names of its first two tensors."""
    path = _weights(folder)
    whole = path.read_bytes()
    size = struct.unpack("<Q", whole[:8])[0]
    header = json.loads(whole[8 : 8 + size])
    if callable(change):
        names = [name for name in header if name != "__metadata__"]
        change = json.dumps(change(header, *names[:2])).encode()
    path.write_bytes(struct.pack("<Q", len(change)) + change + whole[8 + size :])


def _entry(folder: Path, fields: Callable[[Any, Any], Header] | Header) -> None:
    """Other fields of the first tensor; or what is made of the header's words on the first two."""

    def change(header: Header, one: str, other: str) -> Header:
        more = fields(header[one], header[other]) if callable(fields) else fields
        return {**header, one: _without_gone({**header[one], **more})}

    _header(folder, change)


def _bytes(do: Callable[[bytes], bytes]) -> Change:
    def change(folder: Path) -> None:
        path = _weights(folder)
        path.write_bytes(do(path.read_bytes()))

    return change


def _tensors(folder: Path, change: Callable[[State], State], file: str = WEIGHTS) -> None:
    """Weights with a change, in the same file or in another."""
    from safetensors.torch import load_file, save_file

    save_file(change(load_file(folder / WEIGHTS)), folder / file, {"format": "pt"})


def _with_number(state: State, value: float) -> State:
    one = next(one for one in state.values() if one.is_floating_point() and one.numel() > 8)
    one.view(-1)[3] = value
    return state


def _matrix(state: State) -> str:
    """The first tensor of several sides."""
    return next(name for name, value in state.items() if value.ndim > 1)


def _without_matrix(state: State) -> State:
    state.pop(_matrix(state))
    return state


def _misshapen(state: State) -> State:
    """A tensor of two sides with one row less, as sound as any by itself."""
    name = _matrix(state)
    return {**state, name: state[name][1:].clone()}


def _with_lora(state: State) -> State:
    name = _matrix(state)
    return {
        **state,
        f"{name.removesuffix('.weight')}.lora_A.default.weight": state[name][:2].clone(),
    }


HEADERS = {**TABLE["headers"], "header-deep": '{"a":' * 20_000 + "1" + "}" * 20_000}
TENSORS: dict[str, Change] = {
    **{name: partial(_entry, fields=fields) for name, fields in TABLE["first tensor"].items()},
    "offset-negative": partial(
        _entry, fields=lambda one, other: {"data_offsets": [-4, one["data_offsets"][1]]}
    ),
    "offset-swapped": partial(
        _entry, fields=lambda one, other: {"data_offsets": one["data_offsets"][::-1]}
    ),
    "offset-overlap": partial(
        _entry, fields=lambda one, other: {"data_offsets": other["data_offsets"]}
    ),
    "entry-list": partial(_header, change=lambda header, one, other: {**header, one: []}),
    "entry-null": partial(_header, change=lambda header, one, other: {**header, one: None}),
    **{name: partial(_header, change=text.encode("latin-1")) for name, text in HEADERS.items()},
    "length-huge": _bytes(lambda whole: b"\xff" * 8 + whole[8:]),
    "length-zero": _bytes(lambda whole: b"\0" * 8 + whole[8:]),
    "cut-short": _bytes(lambda whole: whole[: len(whole) // 2]),
    "too-long": _bytes(lambda whole: whole + b"more"),
    "empty": _bytes(lambda whole: b""),
    "seven-bytes": _bytes(lambda whole: whole[:7]),
    **{
        name: partial(_tensors, change=partial(_with_number, value=float(number)))
        for name, number in {"nan": "nan", "infinite": "inf", "minus-infinite": "-inf"}.items()
    },
    "tensor-missing": partial(_tensors, change=_without_matrix),
    "tensor-misshapen": partial(_tensors, change=_misshapen),
}
"""name -> what is done to the weights of a sound model folder."""


# --- as others really save them -----------------------------------------------------------------


def _one_output(folder: Path) -> None:
    """The head's first row alone."""
    _tensors(
        folder,
        lambda state: {
            name: value[:1].clone() if name.startswith("classifier.") else value
            for name, value in state.items()
        },
    )
    _edited(folder, {"config.json": {"id2label": {"0": "red"}, "label2id": {"red": 0}}})


def _adapter(folder: Path) -> None:
    """What peft saves: the small matrices beside the weights of another folder."""
    (folder / WEIGHTS).rename(folder / "adapter_model.safetensors")
    (folder / "config.json").unlink()
    saved = {"peft_type": "LORA", "base_model_name_or_path": "gpt2", "r": 8}
    _edited(folder, {"adapter_config.json": saved})


def _shards(folder: Path) -> list[Path]:
    """Two files without their index."""
    files = [f"model-0000{at + 1}-of-00002.safetensors" for at in range(2)]
    for at, file in enumerate(files):
        _tensors(folder, lambda state, at=at: dict([*state.items()][at::2]), file)  # type: ignore[misc]
    (folder / WEIGHTS).unlink()
    return [folder / file for file in files]


def _indexed(folder: Path) -> list[Path]:
    """Two files and their index."""
    from safetensors.numpy import load_file

    files = _shards(folder)
    places = {name: path.name for path in files for name in load_file(path)}
    _edited(folder, {INDEX: {"metadata": {}, "weight_map": places}})
    return files


def _stale_beside_shards(folder: Path) -> None:
    """A single file of an earlier training stays beside the shards of a later one."""
    whole = (folder / WEIGHTS).read_bytes()
    _tensors(folder, lambda state: {name: value * 1.5 for name, value in state.items()})
    _indexed(folder)
    (folder / WEIGHTS).write_bytes(whole)


class _Code:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("run",)


def _moved(state: State) -> State:
    return {name: value + 1 for name, value in state.items()}


def _saved(change: Callable[[State], Any]) -> Change:
    def saved(path: Path) -> None:
        import torch

        torch.save(change(torch.load(path, weights_only=True)), path)

    return saved


def _pictures(folder: Path, kind: str) -> None:
    """Pictures whose numbers are not of eight bits."""
    draw = np.random.default_rng(1)
    for path in folder.glob("*.png"):
        values = draw.normal(0, 5, (32, 32)).astype(kind)
        Image.fromarray(values).save(path.with_suffix(".tif"))
        path.unlink()
    path = folder / "labels.csv"
    path.write_text(path.read_text().replace(".png", ".tif"))


def _older_coding(path: Path) -> None:
    """The file as spreadsheets on Windows save it: a letter with an accent is one byte."""
    file = path / "labels.csv" if path.is_dir() else path
    head, first, rest = file.read_text().split("\n", 2)
    first = first.replace("w", "é", 1).replace(",a", ",á", 1)
    file.write_bytes("\n".join([head, first, rest]).encode("cp1252"))


def _sts_b(path: Path) -> None:
    rows = (
        f"w{at % 9} w1,w{at % 7} w2,{at % 26 / 5},{'test' if at % 3 else 'train'},ab\n"
        for at in range(60)
    )
    path.write_text("text,text_b,label,split,side\n" + "".join(rows))


def _sts_b_folder(folder: Path) -> None:
    head = "index genre filename year old_index source1 source2 sentence1 sentence2 score\n"
    rows = (
        f"{at}\tg\tf\t2012\t{at}\ta\tb\tw1 w{at}\tw2 w{at}\t{at % 26 / 5:.3f}\n" for at in range(30)
    )
    text = head.replace(" ", "\t") + "".join(rows)
    for name in ("train", "dev"):
        _write(folder / f"{name}.tsv", text)


def _image_family(folder: Path) -> None:
    from tests.tiny_images import saved_by_transformers

    saved_by_transformers(folder.name, folder)


def _bert_generation(folder: Path) -> None:
    """A decoder that sees what comes, as its config.json does not say otherwise."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    sizes = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 48}
    more = {"intermediate_size": 48, "bos_token_id": 1, "eos_token_id": 2}
    config = AutoConfig.for_model("bert-generation", **sizes, **more)
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)


REAL: dict[str, dict[str, Change]] = {
    "text": {
        "text-one-output": _one_output,
        "text-stale-beside-shards": _stale_beside_shards,
        "text-lora-tensors": partial(_tensors, change=_with_lora),
        "text-shards-without-index": _shards,
    },
    "hub": {},
    "pictures": {
        "pictures-float": partial(_pictures, kind="float32"),
        "pictures-32-bits": partial(_pictures, kind="int32"),
        "older-coding-pictures": _older_coding,
    },
    "lm": {
        "adapter": _adapter,
        "lora-tensors": partial(_tensors, change=_with_lora),
        "shards-without-index": _shards,
        "one-shard-gone": lambda folder: _indexed(folder)[1].unlink(),
        "stale-beside-shards": _stale_beside_shards,
        "bert-generation": _bert_generation,
    },
    "weights/w.pt": {
        "numpy-with-code.pt": _saved(
            lambda state: {"model": state, "best": (np.float64(0.5), _Code())}
        ),
        "pickle-with-code.pt": lambda path: path.write_bytes(pickle.dumps(_Code())),
        "two-models.pt": _saved(
            lambda state: {"model": state, "ema": {"module": _moved(state)}, "epoch": 3}
        ),
        "two-models-audit.pt": _saved(lambda state: {"model": state, "ema": _moved(state)}),
    },
    "task/colours.csv": {"older-coding.csv": _older_coding},
    "prompts.csv": {"older-coding-prompts.csv": _older_coding},
}
"""What below {good} files are made from -> name -> the change. Their commands are in
bad_inputs.csv."""
MADE: dict[str, Change] = {
    "swin": _image_family,
    "siglip": _image_family,
    "sts-b.csv": _sts_b,
    "STS-B": _sts_b_folder,
}
"""Files and folders that are made from none."""
