"""Broken model folders, masks, runs, jobs, texts and images for bad inputs, each from a sound one
by one change."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.hardening._real_files import (
    TABLE,
    Change,
    State,
    changed,
    config,
    make_real,
    matrix,
    sound,
    tensors,
)
from engine.audit.tracks import tracks

Header = dict[str, Any]
Contents = dict[str, str]


def make_all(folder: Path) -> None:
    """Everything that bad_inputs.csv names below {bad}, and the sound things below {good}."""
    good, bad = folder / "good", folder / "bad"
    _sound(good)
    for family, more in (("lm", TRANSFORMERS), ("text", TRANSFORMERS), ("image", {})):
        for name, change in (
            {**TENSORS, **CONFIGS, **more}.items() if (good / family).is_dir() else ()
        ):
            changed(good / family, bad / f"{family}-{name}", change)
    for name, text in {**MASKS, **DOCUMENTS}.items():
        _write(bad / "masks" / f"{name}.json", text)
    for kind, ending in (
        ("prompts", "csv"),
        ("texts", "csv"),
        ("images", "csv"),
        ("corpora", "txt"),
    ):
        for name, text in TABLE[kind].items():
            _write(bad / kind / f"{name}.{ending}", text)
    for name, text in DOCUMENTS.items():
        _write(bad / "jobs" / name / "jobs" / "job-0123456789abcdef" / "request.json", text)
        _write(bad / "judges" / name / "judge.json", text)
    _runs(good, bad / "runs")
    _odd(bad)
    make_real(good, bad)


def _sound(good: Path) -> None:
    """Every track that is here writes what is sound of it."""
    from tests import made_up
    from tests.classifiers.worlds import saved_model

    for name in tracks():
        write = getattr(importlib.import_module(f"tests.tracks.{name}.worlds"), "write_sound", None)
        if write is not None:
            write(good)
    saved_model(good / "image", size=16)
    sound(good)
    made_up.one_of_each(good / "store")


# --- weights and config of a model folder -------------------------------------------------------


def _header(folder: Path, change: Callable[[Header, str, str], Any]) -> None:
    """Rewrite the header of the weights; `change` gets it and the names of its first two tensors,
    and may return another or bytes."""
    path = next(folder.glob("*.safetensors"))
    whole = path.read_bytes()
    size = struct.unpack("<Q", whole[:8])[0]
    header = json.loads(whole[8 : 8 + size])
    names = [name for name in header if name != "__metadata__"]
    found = change(header, *names[:2])
    text = (
        found
        if isinstance(found, bytes)
        else json.dumps(header if found is None else found).encode()
    )
    path.write_bytes(struct.pack("<Q", len(text)) + text + whole[8 + size :])


def _entry(field: str, value: Any) -> Change:
    def change(header: Header, one: str, other: str) -> None:
        header[one][field] = value(header[one], header[other]) if callable(value) else value

    return partial(_header, change=change)


def _bytes(do: Callable[[bytes], bytes]) -> Change:
    def change(folder: Path) -> None:
        path = next(folder.glob("*.safetensors"))
        path.write_bytes(do(path.read_bytes()))

    return change


def _numbers(value: float) -> Change:
    def change(state: State) -> State:
        one = next(one for one in state.values() if one.is_floating_point() and one.numel() > 8)
        one.view(-1)[3] = value
        return state

    return partial(tensors, change=change)


def _without(state: State) -> State:
    state.pop(matrix(state))
    return state


def _misshapen(state: State) -> State:
    """A tensor of two sides with one row less, as sound as any by itself."""
    name = matrix(state)
    return {**state, name: state[name][1:].clone()}


def _index(value: Any) -> Change:
    def change(folder: Path) -> None:
        path = next(folder.glob("*.safetensors"))
        path.rename(folder / "model-00001-of-00001.safetensors")
        _write(folder / "model.safetensors.index.json", value)

    return change


def _dropped(header: Header, one: str, field: str) -> None:
    header[one].pop(field)


TENSORS: dict[str, Change] = {
    "offset-negative": _entry("data_offsets", lambda one, other: [-4, one["data_offsets"][1]]),
    "offset-swapped": _entry("data_offsets", lambda one, other: one["data_offsets"][::-1]),
    "offset-overlap": _entry("data_offsets", lambda one, other: other["data_offsets"]),
    "offset-past-end": _entry("data_offsets", lambda one, other: [10**9, 10**9 + 128]),
    "offset-huge": _entry("data_offsets", [0, 2**70]),
    "offset-words": _entry("data_offsets", ["0", "128"]),
    "offset-fraction": _entry("data_offsets", [0.0, 128.5]),
    "offset-one": _entry("data_offsets", [0]),
    "offset-null": _entry("data_offsets", None),
    "shape-negative": _entry("shape", [-1, 8]),
    "shape-other": _entry("shape", [3, 5, 7]),
    "shape-words": _entry("shape", ["a"]),
    "shape-huge": _entry("shape", [2**62, 2**62]),
    "shape-null": _entry("shape", None),
    "dtype-unknown": _entry("dtype", "F31"),
    "dtype-number": _entry("dtype", 32),
    "dtype-null": _entry("dtype", None),
    "entry-list": partial(_header, change=lambda header, one, other: {**header, one: []}),
    "entry-null": partial(_header, change=lambda header, one, other: {**header, one: None}),
    "no-dtype": partial(_header, change=lambda header, one, other: _dropped(header, one, "dtype")),
    "no-shape": partial(_header, change=lambda header, one, other: _dropped(header, one, "shape")),
    "header-deep": partial(_header, change=lambda *_: b'{"a":' * 20_000 + b"1" + b"}" * 20_000),
    "header-list": partial(_header, change=lambda *_: b"[]"),
    "header-empty": partial(_header, change=lambda *_: b"{}"),
    "header-no-json": partial(_header, change=lambda *_: b"{]"),
    "header-no-utf8": partial(_header, change=lambda *_: b"\xff\xfe{}"),
    "length-huge": _bytes(lambda whole: b"\xff" * 8 + whole[8:]),
    "length-zero": _bytes(lambda whole: b"\0" * 8 + whole[8:]),
    "cut-short": _bytes(lambda whole: whole[: len(whole) // 2]),
    "too-long": _bytes(lambda whole: whole + b"more"),
    "empty": _bytes(lambda whole: b""),
    "seven-bytes": _bytes(lambda whole: whole[:7]),
    "nan": _numbers(float("nan")),
    "infinite": _numbers(float("inf")),
    "minus-infinite": _numbers(float("-inf")),
    "tensor-missing": partial(tensors, change=_without),
    "tensor-misshapen": partial(tensors, change=_misshapen),
}
"""name -> what is done to the weights of a sound model folder."""


def _config_text(text: str) -> Change:
    return lambda folder: _config_of(folder).write_text(text)


def _config_of(folder: Path) -> Path:
    return next(
        path
        for path in (folder / "config.json", folder / "classifier.json", *folder.glob("*.json"))
        if path.exists()
    )


def _pickled(folder: Path) -> None:
    """Weights that are code: a pickle that would run a command."""
    next(folder.glob("*.safetensors")).unlink()
    (folder / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'touch /tmp/pickle_was_run'\ntR.")


def _all_gone(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


CONFIGS: dict[str, Change] = {
    "config-empty": _config_text(""),
    "config-list": _config_text("[]"),
    "config-null": _config_text("null"),
    "config-cut-short": _config_text('{"model_type": '),
    "config-deep": _config_text("[" * 100_000),
    "config-gone": lambda folder: _config_of(folder).unlink(),
    "pickle": _pickled,
    "folder-empty": _all_gone,
    "weights-gone": lambda folder: next(folder.glob("*.safetensors")).unlink(),
    "weights-folder": lambda folder: _as_folder(next(folder.glob("*.safetensors"))),
}


def _as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


TRANSFORMERS: dict[str, Change] = {
    "kind-unknown": config(model_type="magic", architectures=["Magic"]),
    "kind-missing": config(model_type=...),
    "kind-number": config(model_type=3),
    "kind-other": config(model_type="t5", architectures=["T5ForConditionalGeneration"]),
    "activation-unknown": config(activation_function="magic", hidden_act="magic"),
    "activation-number": config(activation_function=3, hidden_act=3),
    "heads-odd": config(n_head=5, num_attention_heads=5),
    "heads-none": config(n_head=0, num_attention_heads=0),
    "heads-negative": config(n_head=-4, num_attention_heads=-4),
    "heads-words": config(n_head="four", num_attention_heads="four"),
    "layers-negative": config(n_layer=-1, num_hidden_layers=-1),
    "layers-more": config(n_layer=9, num_hidden_layers=9),
    "width-none": config(n_embd=0, hidden_size=0),
    "width-other": config(n_embd=64, hidden_size=64),
    "vocabulary-small": config(vocab_size=3),
    "vocabulary-words": config(vocab_size="many"),
    "remote-code": config(
        auto_map={
            "AutoModelForCausalLM": "evil.Model",
            "AutoModelForSequenceClassification": "evil.M",
            "AutoConfig": "evil.Config",
        },
        model_type="evil",
    ),
    "tokenizer-gone": lambda folder: list(map(Path.unlink, folder.glob("*token*"))),
    "tokenizer-broken": lambda folder: (folder / "tokenizer.json").write_text("{"),
    "tokenizer-list": lambda folder: (folder / "tokenizer.json").write_text("[]"),
    "index-empty": _index('{"weight_map": {}}'),
    "index-list": _index("[]"),
    "index-no-map": _index("{}"),
    "index-gone": _index('{"weight_map": {"a": "none.safetensors"}}'),
    "index-outside": _index('{"weight_map": {"a": "../lm/model.safetensors"}}'),
    "index-number": _index('{"weight_map": {"a": 3}}'),
    "index-map-list": _index('{"weight_map": ["a"]}'),
}
"""What only folders of transformers can have wrong."""


# --- documents, tables, texts -------------------------------------------------------------------

DOCUMENTS: Contents = {**TABLE["documents"], "deep": "[" * 100_000}
MASKS: Contents = {
    f"mask-{name}": json.dumps({**TABLE["mask"], **change})
    for name, change in TABLE["masks"].items()
}


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode("latin-1"))


def _runs(good: Path, bad: Path) -> None:
    """A store each whose one run has another run.json."""
    sound = next((good / "store" / "runs").iterdir())
    for name, text in {**DOCUMENTS, **_run_documents(sound)}.items():
        folder = bad / name / "runs" / "one"
        folder.mkdir(parents=True)
        for table in sound.glob("*.parquet"):
            os.link(table, folder / table.name)
        _write(folder / "run.json", text)


def _run_documents(sound: Path) -> Contents:
    whole = json.loads((sound / "run.json").read_text())
    return {name: json.dumps({**whole, **change}) for name, change in TABLE["runs"].items()}


def _odd(bad: Path) -> None:
    """Things in the place of files."""
    os.mkfifo(bad / "fifo")
    (bad / "folder").mkdir()
    (bad / "circle").symlink_to(bad / "circle")
    (bad / "nowhere").symlink_to(bad / "none")
