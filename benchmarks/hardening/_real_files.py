"""Files as others really save them, each from a sound tiny one by one change."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

Change = Callable[[Path], Any]
State = dict[str, Any]
"""Tensors by name."""
WEIGHTS = "model.safetensors"
TABLE: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("bad_files.json").read_text(encoding="utf-8")
)
"""Kind of file -> name -> what it holds; one letter is one byte."""


def sound(good: Path) -> None:
    """An image classifier as transformers saves it, pictures of its classes, a state dict, cases
    for a judge."""
    import torch
    from safetensors.torch import load_file

    from tests.tiny_images import CLASSES, saved_by_transformers

    saved_by_transformers("resnet", good / "hub")
    torch.save(load_file(good / "image" / WEIGHTS), _in(good / "weights" / "w.pt"))
    rows = [
        f"{at}.png,{CLASSES[at % 3]},{'ab'[at // 3 % 2]},{('train', 'test')[at // 24]}"
        for at in range(48)
    ]
    _in(good / "pictures" / "labels.csv").write_text(
        "\n".join(["path,label,side,split", *rows]) + "\n"
    )
    draw = np.random.default_rng(0)
    for at in range(48):
        Image.fromarray(draw.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(
            good / "pictures" / f"{at}.png"
        )
    (good / "cases.csv").write_text(
        "test_case,label_gold,target_ident\nw1,hateful,a\nw2,non-hateful,a\n"
    )


def make_real(good: Path, bad: Path) -> None:
    """Every file of REAL, in a folder of its name, where the track of what it is made from is
    here."""
    for source, changes in REAL.items():
        for name, change in changes.items() if (good / source).exists() else ():
            if source:
                changed(good / source, bad / "real" / name, change)
            else:
                change(_in(bad / "real" / name))


def changed(source: Path, place: Path, change: Change) -> None:
    """A copy of a file or a folder, with the change."""
    (shutil.copytree if source.is_dir() else shutil.copy)(source, _in(place))
    change(place)


def _in(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _json(file: str, **more: Any) -> Change:
    """Fields of a JSON file beside weights; one that is ... is taken out."""

    def change(folder: Path) -> None:
        path = folder / file
        found = {**(json.loads(path.read_text()) if path.exists() else {}), **more}
        path.write_text(
            json.dumps({name: value for name, value in found.items() if value is not ...})
        )

    return change


config = partial(_json, "config.json")
_generation = partial(_json, "generation_config.json")
_processor = partial(_json, "preprocessor_config.json")


def _named(*names: str) -> Change:
    return config(
        id2label=dict(enumerate(names)), label2id={name: at for at, name in enumerate(names)}
    )


def tensors(folder: Path, change: Callable[[State], State], file: str = WEIGHTS) -> None:
    """Weights with a change, in the same file or in another."""
    from safetensors.torch import load_file, save_file

    save_file(change(load_file(folder / WEIGHTS)), folder / file, {"format": "pt"})


def matrix(state: State) -> str:
    """The first tensor of several sides."""
    return next(name for name, value in state.items() if value.ndim > 1)


def _one_output(folder: Path) -> None:
    """The head's first row alone."""
    tensors(
        folder,
        lambda state: {
            name: value[:1].clone() if name.startswith("classifier.") else value
            for name, value in state.items()
        },
    )
    _named("red")(folder)


def _adapter(folder: Path) -> None:
    """What peft saves: the small matrices beside the weights of another folder."""
    (folder / WEIGHTS).rename(folder / "adapter_model.safetensors")
    (folder / "config.json").unlink()
    _json("adapter_config.json", peft_type="LORA", base_model_name_or_path="gpt2", r=8)(folder)


def _with_lora(folder: Path) -> None:
    def added(state: State) -> State:
        name = matrix(state)
        lora = f"{name.removesuffix('.weight')}.lora_A.default.weight"
        return {**state, lora: state[name][:2].clone()}

    tensors(folder, added)


def _shards(folder: Path) -> list[Path]:
    """Two files without their index."""
    files = [f"model-0000{at + 1}-of-00002.safetensors" for at in range(2)]
    for at, file in enumerate(files):
        tensors(folder, lambda state, at=at: dict([*state.items()][at::2]), file)  # type: ignore[misc]
    (folder / WEIGHTS).unlink()
    return [folder / file for file in files]


def _indexed(folder: Path) -> list[Path]:
    """Two files and their index."""
    from safetensors.numpy import load_file

    files = _shards(folder)
    places = {name: path.name for path in files for name in load_file(path)}
    _json(f"{WEIGHTS}.index.json", metadata={}, weight_map=places)(folder)
    return files


def _stale_beside_shards(folder: Path) -> None:
    """A single file of an earlier training stays beside the shards of a later one."""
    whole = (folder / WEIGHTS).read_bytes()
    tensors(folder, lambda state: {name: value * 1.5 for name, value in state.items()})
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


def _pictures(mode: str) -> Change:
    """Pictures whose numbers are not of eight bits."""

    def change(folder: Path) -> None:
        draw = np.random.default_rng(1)
        for path in folder.glob("*.png"):
            values = draw.normal(0, 5, (32, 32)).astype(np.float32 if mode == "F" else np.int32)
            Image.fromarray(values).save(path.with_suffix(".tif"))
            path.unlink()
        path = folder / "labels.csv"
        path.write_text(path.read_text().replace(".png", ".tif"))

    return change


def _older_coding(path: Path) -> None:
    """The file as spreadsheets on Windows save it: a letter with an accent is one byte."""
    file = path / "labels.csv" if path.is_dir() else path
    head, first, rest = file.read_text().split("\n", 2)
    file.write_bytes(
        "\n".join([head, first.replace("w", "é", 1).replace(",a", ",á", 1), rest]).encode("cp1252")
    )


def _sts_b(path: Path) -> None:
    rows = [
        f"w{at % 9} w1,w{at % 7} w2,{at % 26 / 5},{'test' if at % 3 else 'train'},ab"
        for at in range(60)
    ]
    path.write_text("\n".join(["text,text_b,label,split,side", *rows]) + "\n")


def _sts_b_folder(folder: Path) -> None:
    folder.mkdir()
    head = (
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
    )
    for name in ("train", "dev"):
        rows = "".join(
            f"{at}\tg\tf\t2012\t{at}\ta\tb\tw1 w{at}\tw2 w{at}\t{at % 26 / 5:.3f}\n"
            for at in range(30)
        )
        (folder / f"{name}.tsv").write_text(head + rows)


def _crows_pairs(path: Path) -> None:
    rows = "1,w1 w2,w1 w3,stereo,religion\n2,w4 w5,w4 w6,antistereo,\n3,w7 w8,w7 w9,stereo,age\n"
    path.write_text(",sent_more,sent_less,stereo_antistereo,bias_type\n" + rows)


def _image_family(family: str) -> Change:
    def change(folder: Path) -> None:
        from tests.tiny_images import saved_by_transformers

        saved_by_transformers(family, folder)

    return change


def _bert_generation(folder: Path) -> None:
    """A decoder that sees what comes, as its config.json does not say otherwise."""
    from transformers import AutoConfig, AutoModelForCausalLM

    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 48,
    }
    config = AutoConfig.for_model(
        "bert-generation", vocab_size=48, bos_token_id=1, eos_token_id=2, **sizes
    )
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)


def _written(content: dict[str, Any]) -> Change:
    """A file as an export writes it, for another model."""
    return lambda path: path.write_text(json.dumps(content))


REAL: dict[str, dict[str, Change]] = {
    "text": {
        # outputs of classifiers
        "text-unnamed": _named("LABEL_0", "LABEL_1", "LABEL_2"),
        "text-other-names": _named("bad", "good", "fair"),
        "text-label2id-swapped": config(label2id={"red": 1, "green": 0, "blue": 2}),
        "text-regression": config(problem_type="regression"),
        "text-one-output": _one_output,
        "text-several-labels": config(problem_type="multi_label_classification"),
        "text-sigmoid": config(function_to_apply="sigmoid"),
        "text-num-labels": config(num_labels=5),
        "text-two-names": _named("red", "green"),
        "text-four-names": _named("red", "green", "blue", "grey"),
        "text-twice-named": config(id2label={0: "red", 1: "red", 2: "blue"}, label2id=...),
        # of judges
        "judge-none": config(function_to_apply="none"),
        "judge-identity": config(
            sentence_transformers={"activation_fn": "torch.nn.modules.linear.Identity"}
        ),
        # weights
        "text-stale-beside-shards": _stale_beside_shards,
        "text-lora-tensors": _with_lora,
        "text-shards-without-index": _shards,
    },
    "hub": {
        "image-unnamed": _named("LABEL_0", "LABEL_1", "LABEL_2"),
        "image-other-names": _named("bad", "good", "fair"),
        "image-label2id-swapped": config(label2id={"cat": 1, "dog": 0, "owl": 2}),
        "image-regression": config(problem_type="regression"),
        "image-several-labels": config(problem_type="multi_label_classification"),
        "image-num-labels": config(num_labels=4),
        "image-two-names": _named("cat", "dog"),
        "processor-pads": _processor(do_pad=True),
        "processor-flips": _processor(do_flip_channel_order=True),
        "processor-with-code": _processor(auto_map={"AutoImageProcessor": "evil.Processor"}),
    },
    "pictures": {
        "pictures-float": _pictures("F"),
        "pictures-32-bits": _pictures("I"),
        "older-coding-pictures": _older_coding,
    },
    "lm": {
        "generation-suppressed": _generation(suppress_tokens=[5, 6]),
        "generation-forced": _generation(forced_bos_token_id=7),
        "generation-bad-words": _generation(bad_words_ids=[[5]]),
        "adapter": _adapter,
        "adapter-beside": _json("adapter_config.json", peft_type="LORA"),
        "lora-tensors": _with_lora,
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
    "": {
        "swin": _image_family("swin"),
        "siglip": _image_family("siglip"),
        "sts-b.csv": _sts_b,
        "STS-B": _sts_b_folder,
        "crows-pairs-without-group.csv": _crows_pairs,
        # masks of other models
        "mask.json": _written(
            {**TABLE["mask"], "weight_hash": "1" * 64, **TABLE["masks"]["other-model"]}
        ),
        "filters.json": _written(TABLE["filter mask"]),
    },
}
"""What below {good} files are made from -> name -> the change. Their commands are in
bad_inputs.csv."""
