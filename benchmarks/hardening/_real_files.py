"""Files as others really save them, each from a sound tiny one by one change, and the command that
has to refuse it."""

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

CPU = ["--axis", "side", "--device", "cpu"]
TEXTS = ["--data", "{good}/task/colours.csv", *CPU]
PICTURES = ["--data", "{good}/pictures", *CPU]
SCORED = [
    "--prompts",
    "{good}/prompts.csv",
    "--corpus",
    "{good}/corpus.txt",
    "--axis",
    "religion",
    "--device",
    "cpu",
]
BY_LM = ["predict", "--model", "{good}/lm"]
EVALUATE_TEXT = ["evaluate", "--model", "{file}", *TEXTS]
TICKETS = [
    "tickets",
    "--model",
    "{file}",
    "--task",
    *TEXTS[1:],
    "--procedure",
    "once",
    "--score",
    "magnitude",
]
EVALUATE_IMAGE = ["evaluate", "--model", "{file}", *PICTURES]
AUDIT_IMAGE = ["audit", "--model", "{file}", *PICTURES]
WEIGHTS = [
    "evaluate",
    "--model",
    "resnet10-w16",
    "--weights",
    "{file}",
    "--data",
    "digits",
    "--axis",
    "class",
]
AUDIT = ["audit", "--model", "{file}", *SCORED]
PREDICT = ["predict", "--model", "{file}", *SCORED]
INSPECT = ["inspect", "{file}"]
CASES = ["judge", "{file}", "--cases", "{good}/cases.csv", "--judge-label", "red"]
JUDGED = [*BY_LM, *SCORED, "--judge", "{file}", "--judge-label", "red"]
BY_TEXT = ["evaluate", "--model", "{good}/text", "--data", "{file}", *CPU]
TICKETS_BY = ["tickets", "--model", "{good}/text", "--task", "{file}", *CPU]
BY_IMAGE = ["evaluate", "--model", "{good}/hub", "--data", "{file}", *CPU]
AUDIT_BY_IMAGE = ["audit", *BY_IMAGE[1:]]
Change = Callable[[Path], Any]
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
    torch.save(load_file(good / "image" / "model.safetensors"), _in(good / "weights" / "w.pt"))
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
    for name, (source, change, _) in REAL.items():
        place = bad / "real" / name
        if not (good / source).exists():
            continue
        if source and (good / source).is_dir():
            shutil.copytree(good / source, place)
        elif source:
            shutil.copy(good / source, _in(place))
        change(_in(place))


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


_config = partial(_json, "config.json")
_generation = partial(_json, "generation_config.json")
_processor = partial(_json, "preprocessor_config.json")


def _named(*names: str) -> Change:
    return _config(
        id2label=dict(enumerate(names)), label2id={name: at for at, name in enumerate(names)}
    )


def _tensors(
    folder: Path,
    change: Callable[[dict[str, Any]], dict[str, Any]],
    file: str = "model.safetensors",
) -> None:
    from safetensors.torch import load_file, save_file

    save_file(change(load_file(folder / "model.safetensors")), folder / file, {"format": "pt"})


def _one_output(folder: Path) -> None:
    """The head's first row alone."""
    _tensors(
        folder,
        lambda state: {
            **state,
            **{
                name: value[:1].clone()
                for name, value in state.items()
                if name.startswith("classifier.")
            },
        },
    )
    _named("red")(folder)


def _adapter(folder: Path) -> None:
    """What peft saves: the small matrices beside the weights of another folder."""
    (folder / "model.safetensors").rename(folder / "adapter_model.safetensors")
    (folder / "config.json").unlink()
    _json("adapter_config.json", peft_type="LORA", base_model_name_or_path="gpt2", r=8)(folder)


def _with_lora(folder: Path) -> None:
    def added(state: dict[str, Any]) -> dict[str, Any]:
        name = next(name for name, value in state.items() if value.ndim > 1)
        return {
            **state,
            f"{name.removesuffix('.weight')}.lora_A.default.weight": state[name][:2].clone(),
        }

    _tensors(folder, added)


def _every_second(state: dict, first: int) -> dict:
    return dict(list(state.items())[first::2])


def _shards(folder: Path) -> None:
    """Two files without their index."""
    for at in range(2):
        half = partial(_every_second, first=at)
        _tensors(folder, half, f"model-0000{at + 1}-of-00002.safetensors")
    (folder / "model.safetensors").unlink()


def _indexed(folder: Path) -> list[Path]:
    """Two files and their index."""
    from safetensors.numpy import load_file

    _shards(folder)
    files = sorted(folder.glob("model-*.safetensors"))
    places = {name: path.name for path in files for name in load_file(path)}
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": places})
    )
    return files


def _stale_beside_shards(folder: Path) -> None:
    """A single file of an earlier training stays beside the shards of a later one."""
    whole = (folder / "model.safetensors").read_bytes()
    _tensors(folder, lambda state: {name: value * 1.5 for name, value in state.items()})
    _indexed(folder)
    (folder / "model.safetensors").write_bytes(whole)


class _Code:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("run",)


def _saved(change: Callable[[dict[str, Any]], Any]) -> Change:
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


_SWAPPED = _config(label2id={"red": 1, "green": 0, "blue": 2})
_IDENTITY = {"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}}

REAL: dict[str, tuple[str, Change, list[str]]] = {
    # outputs of text classifiers
    "text-unnamed": ("text", _named("LABEL_0", "LABEL_1", "LABEL_2"), EVALUATE_TEXT),
    "text-unnamed-tickets": ("text", _named("LABEL_0", "LABEL_1", "LABEL_2"), TICKETS),
    "text-other-names": ("text", _named("bad", "good", "fair"), EVALUATE_TEXT),
    "text-other-names-tickets": ("text", _named("bad", "good", "fair"), TICKETS),
    "text-label2id-swapped": ("text", _SWAPPED, EVALUATE_TEXT),
    "text-label2id-swapped-inspect": ("text", _SWAPPED, INSPECT),
    "text-regression": ("text", _config(problem_type="regression"), EVALUATE_TEXT),
    "text-one-output": ("text", _one_output, TICKETS),
    "text-several-labels": ("text", _config(problem_type="multi_label_classification"), TICKETS),
    "text-sigmoid": ("text", _config(function_to_apply="sigmoid"), EVALUATE_TEXT),
    "text-num-labels": ("text", _config(num_labels=5), INSPECT),
    "text-two-names": ("text", _named("red", "green"), EVALUATE_TEXT),
    "text-four-names": ("text", _named("red", "green", "blue", "grey"), TICKETS),
    "text-twice-named": (
        "text",
        _config(id2label={0: "red", 1: "red", 2: "blue"}, label2id=...),
        EVALUATE_TEXT,
    ),
    # outputs of image classifiers
    "image-unnamed": ("hub", _named("LABEL_0", "LABEL_1", "LABEL_2"), EVALUATE_IMAGE),
    "image-unnamed-audit": ("hub", _named("LABEL_0", "LABEL_1", "LABEL_2"), AUDIT_IMAGE),
    "image-other-names": ("hub", _named("bad", "good", "fair"), EVALUATE_IMAGE),
    "image-other-names-audit": ("hub", _named("bad", "good", "fair"), AUDIT_IMAGE),
    "image-label2id-swapped": ("hub", _config(label2id={"cat": 1, "dog": 0, "owl": 2}), INSPECT),
    "image-regression": ("hub", _config(problem_type="regression"), AUDIT_IMAGE),
    "image-several-labels": (
        "hub",
        _config(problem_type="multi_label_classification"),
        EVALUATE_IMAGE,
    ),
    "image-num-labels": ("hub", _config(num_labels=4), INSPECT),
    "image-two-names": ("hub", _named("cat", "dog"), EVALUATE_IMAGE),
    # processors, families and pictures
    "processor-pads": ("hub", _processor(do_pad=True), EVALUATE_IMAGE),
    "processor-flips": ("hub", _processor(do_flip_channel_order=True), AUDIT_IMAGE),
    "processor-with-code": (
        "hub",
        _processor(auto_map={"AutoImageProcessor": "evil.Processor"}),
        INSPECT,
    ),
    "swin": ("", _image_family("swin"), AUDIT_IMAGE),
    "swin-inspect": ("", _image_family("swin"), INSPECT),
    "siglip": ("", _image_family("siglip"), INSPECT),
    "pictures-float": ("pictures", _pictures("F"), AUDIT_BY_IMAGE),
    "pictures-32-bits": ("pictures", _pictures("I"), BY_IMAGE),
    # language models
    "generation-suppressed": ("lm", _generation(suppress_tokens=[5, 6]), AUDIT),
    "generation-forced": ("lm", _generation(forced_bos_token_id=7), INSPECT),
    "generation-bad-words": ("lm", _generation(bad_words_ids=[[5]]), PREDICT),
    "adapter": ("lm", _adapter, INSPECT),
    "adapter-beside": ("lm", _json("adapter_config.json", peft_type="LORA"), AUDIT),
    "lora-tensors": ("lm", _with_lora, PREDICT),
    "shards-without-index": ("lm", _shards, INSPECT),
    "one-shard-gone": ("lm", lambda folder: _indexed(folder)[1].unlink(), PREDICT),
    "stale-beside-shards": ("lm", _stale_beside_shards, AUDIT),
    "stale-beside-shards-inspect": ("lm", _stale_beside_shards, INSPECT),
    "text-stale-beside-shards": ("text", _stale_beside_shards, EVALUATE_TEXT),
    "bert-generation": ("lm", _bert_generation, INSPECT),
    "text-lora-tensors": ("text", _with_lora, TICKETS),
    "text-shards-without-index": ("text", _shards, EVALUATE_TEXT),
    # weights of images in one file
    "numpy-with-code.pt": (
        "weights/w.pt",
        _saved(lambda state: {"model": state, "best": (np.float64(0.5), _Code())}),
        WEIGHTS,
    ),
    "pickle-with-code.pt": (
        "weights/w.pt",
        lambda path: path.write_bytes(pickle.dumps(_Code())),
        WEIGHTS,
    ),
    "two-models.pt": (
        "weights/w.pt",
        _saved(
            lambda state: {
                "model": state,
                "ema": {"module": {name: value + 1 for name, value in state.items()}},
                "epoch": 3,
            }
        ),
        WEIGHTS,
    ),
    "two-models-audit.pt": (
        "weights/w.pt",
        _saved(
            lambda state: {
                "model": state,
                "ema": {name: value + 1 for name, value in state.items()},
            }
        ),
        ["audit", *WEIGHTS[1:], "--device", "cpu"],
    ),
    # judges
    "judge-regression": ("text", _config(problem_type="regression"), JUDGED),
    "judge-one-output": ("text", _one_output, CASES),
    "judge-none": ("text", _config(function_to_apply="none"), CASES),
    "judge-identity": ("text", _config(**_IDENTITY), JUDGED),
    "judge-label2id-swapped": ("text", _SWAPPED, CASES),
    # tables
    "sts-b.csv": ("", _sts_b, BY_TEXT),
    "STS-B": ("", _sts_b_folder, [*TICKETS_BY[:-4], "--device", "cpu"]),
    "older-coding.csv": ("task/colours.csv", _older_coding, BY_TEXT),
    "older-coding-tickets.csv": ("task/colours.csv", _older_coding, TICKETS_BY),
    "older-coding-prompts.csv": (
        "prompts.csv",
        _older_coding,
        [*BY_LM, "--prompts", "{file}", *SCORED[2:]],
    ),
    "older-coding-pictures": ("pictures", _older_coding, BY_IMAGE),
    "crows-pairs-without-group.csv": (
        "",
        _crows_pairs,
        [*BY_LM, *SCORED, "--benchmark", "crows_pairs={file}"],
    ),
    # masks of other models
    "mask.json": (
        "",
        _written({**TABLE["mask"], "weight_hash": "1" * 64, **TABLE["masks"]["other-model"]}),
        ["apply", "{file}", "--model", "{good}/text", "--to", "{out}/cut"],
    ),
    "filters.json": (
        "",
        _written(TABLE["filter mask"]),
        ["apply", "{file}", "--model", "{good}/image", "--to", "{out}/cut"],
    ),
}
"""name -> what it is made from below {good}, the change, and the command; {file} is what was made.
"""
