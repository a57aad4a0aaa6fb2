"""Writes bad_inputs.csv anew (`python -m benchmarks.hardening._build_inputs`): a row, a command
that has to be refused.

{good} and {bad} stand for folders of sound and broken files (_bad_files.py), {out} for a place that
must stay empty.
"""

from __future__ import annotations

import argparse
import csv
import shlex
from collections.abc import Iterator
from pathlib import Path

from benchmarks.hardening import _bad_files as files
from benchmarks.hardening._real_files import REAL
from engine.cli import parser

TABLE = Path(__file__).with_name("bad_inputs.csv")

LM = [
    "--model",
    "{good}/lm",
    "--prompts",
    "{good}/prompts.csv",
    "--corpus",
    "{good}/corpus.txt",
    "--axis",
    "religion",
    "--device",
    "cpu",
]
TEXT = [
    "--model",
    "{good}/task/model",
    "--task",
    "{good}/task/colours.csv",
    "--axis",
    "side",
    "--device",
    "cpu",
]
IMAGE = [
    "--model",
    "resnet10-w16",
    "--data",
    "digits",
    "--size",
    "16",
    "--axis",
    "class",
    "--device",
    "cpu",
]
FAIR = [
    "--model",
    "resnet10-w16",
    "--data",
    "avatars",
    "--target",
    "blond",
    "--group",
    "skin",
    "--device",
    "cpu",
]
SOUND: dict[str, list[str]] = {
    "audit": LM,
    "predict": LM,
    "scores": [*LM, "--out", "{out}/scores.csv"],
    "tickets": TEXT,
    "fairtrain": FAIR,
    "audit images": IMAGE,
    "apply": ["{bad}/masks/mask-other-model.json", "--model", "{good}/lm", "--to", "{out}/cut"],
    "evaluate": [
        "--model",
        "{good}/image",
        "--data",
        "digits",
        "--axis",
        "class",
        "--device",
        "cpu",
    ],
    "inspect": ["{good}/lm"],
    "export": ["one", "--to", "{out}/export"],
    "ask": ["one", "--prompt", "w1"],
    "measure": ["one", "--sparsity", "0.1"],
    "experiment": ["thesis-table6.2", "--quick"],
    "import-scores": ["{good}/prompts.csv"],
    "universal": ["one", "two"],
}
"""Commands that would do something; one option of each is made wrong."""

COUNT = ("0", "-1", "x", "1e999")
NUMBER = ("x", "nan", "inf", "-1")
PATH = ("{bad}/none", "{bad}/fifo", "{bad}/circle")
NAME = ("no-such", "../../etc")
SETTING = ("x", "=1", "no-such=1")


def _each(options: str, values: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    return dict.fromkeys(options.split(), values)


WRONG: dict[str, tuple[str, ...]] = {
    **_each(
        "--seeds --max-prompts --max-corpus-tokens --new-tokens --prompt-tokens --trials"
        " --iterations --check-every --max-images --max-texts --max-length --size",
        COUNT,
    ),
    **_each(
        "--tokens",
        COUNT,
    ),
    **_each(
        "--seed",
        ("-1", "x", "1.5", "nan"),
    ),
    **_each(
        "--stop-at --sparsity --gamma --speedup --gamma-margin --temperature --top-p --lambda --tau"
        " --tradeoff --tradeoff-sparsity --fair-gap --within --step --share",
        NUMBER,
    ),
    **_each(
        "--top-k --controls --random-masks --score-texts",
        ("-1", "x", "1.5", "nan"),
    ),
    **_each(
        "--prompts --corpus --validation-corpus --mask --image --task --pretrained --base",
        PATH,
    ),
    **_each(
        "--model --data",
        (*PATH, *NAME),
    ),
    **_each(
        "--method --estimator --perplexity-estimator --judge --dtype --span --ablation --reading"
        " --device --axis --group --target --notion --equal --tradeoff-method --tune-on"
        " --keep-weights --keep-method --weighting --corrected --pw --procedure --score"
        " --multi-class --split --what --variant --protocol --ties --look --resume --ray --weights"
        " --text-b --length-filter --change --loss-share",
        NAME,
    ),
    **_each(
        "--set --train --retrain --recipe --tune",
        SETTING,
    ),
    "--judge-sha256": ("x", "00"),
    "--heads": ("x", "9.9", "-1.0", "0", "0.0,0.0"),
    "--classes": ("a", "a,a"),
    "--title": ("x" * 100_001,),
}
"""Values that no option of this name takes. Whatever is missing here is only tried empty and twice.
"""
FAR = {"--ray", "--title"}
"""Not tried with values: one waits for a network, the other takes any words."""


IMAGES_ONLY = (
    "--speedup",
    "--trials",
    "--retrain",
    "--data",
    "--size",
    "--max-images",
    "--train",
    "--weights",
    "--classes",
    "--target",
    "--pw",
    "--weighting",
    "--corrected",
    "--multi-class",
    "--loss-share",
    "--change",
    "--keep-weights",
)
"""Options of `audit` whose wrong values are tried on an audit of images; all others are tried on a
language model."""


CHANGED_RUNS = [
    "unsealed",
    "title-changed",
    "id-changed",
    "tables-list",
    "tables-gone",
    "model-word",
    "created-number",
    "request-list",
    "track-unknown",
    "schema-negative",
]


def rows() -> Iterator[tuple[str, list[str]]]:
    """(kind, words of a command)."""
    yield from _commands()
    for name, words in SOUND.items():
        yield from _options(name, words)
    yield from _models()
    yield from _documents()
    yield from _data()
    for name, (_, _, words) in REAL.items():
        yield "real file", [word.replace("{file}", f"{{bad}}/real/{name}") for word in words]


def _commands() -> Iterator[tuple[str, list[str]]]:
    for words in (
        [],
        ["no-such"],
        ["--no-such"],
        ["runs"],
        ["runs", "no-such"],
        ["engine"],
        ["engine", "no-such"],
        ["aud"],
    ):
        yield "command", words
    for name in SOUND:
        if " " not in name:
            yield "command", [name, "--no-such", "1"]
    for action in ("show", "verify", "rename", "delete", "restore"):
        more = ["title"] if action == "rename" else []
        for run in ("no-such", "", "../..", "/", "\u202eevil", "x" * 300):
            yield "run", ["runs", action, run, *more]


def _options(name: str, sound: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Each option once without a value, empty, shortened or twice, in turn; then its wrong values.
    `predict` and `scores` read those of `audit` by the same code, and get one of them."""
    command = name.split()[0]
    every = {one for action in _actions(command) for one in action.option_strings}
    for at, action in enumerate(_actions(command)):
        option = action.option_strings[-1] if action.option_strings else ""
        if (
            not option.startswith("--")
            or option in ("--help", "--json", "--store")
            or action.nargs == 0
        ):
            continue
        rest = [command, *_without(sound, option)]
        short = option[:-1] if len(option) > 5 and option[:-1] not in every else f"{option}x"
        twice = (
            [option, "1", option, "1"]
            if isinstance(action, argparse._StoreAction)
            else [option, ""]
        )
        if name not in ("predict", "scores") or at % 3 == 0:
            yield "option", [*rest, *([option], [option, ""], [short, "1"], twice)[at % 4]]
        for value in _values(name, option, at):
            yield "option", [*rest, option, value]


def _values(name: str, option: str, at: int) -> tuple[str, ...]:
    """Wrong values to be tried: all where the option matters, two of them elsewhere."""
    values = () if option in FAR else WRONG.get(option, ())
    if name in ("audit", "audit images"):
        return values if (option in IMAGES_ONLY) == (name == "audit images") else ()
    return values[at % 3 : at % 3 + (1 if name in ("predict", "scores", "experiment") else 3)]


def _actions(command: str) -> list[argparse.Action]:
    choices = next(
        one.choices for one in parser()._actions if isinstance(one, argparse._SubParsersAction)
    )
    return choices[command]._actions


def _without(words: list[str], option: str) -> list[str]:
    """The words without an option and its value."""
    at = words.index(option) if option in words else len(words)
    return words[:at] + words[at + 2 :]


def _models() -> Iterator[tuple[str, list[str]]]:
    kinds = {
        "lm": ["predict", *LM],
        "text": ["tickets", *TEXT, "--procedure", "once", "--score", "magnitude"],
        "image": ["evaluate", *SOUND["evaluate"]],
    }
    for family, sound in kinds.items():
        more = {} if family == "image" else files.TRANSFORMERS
        tensors = list(files.TENSORS)[
            :: 6 if family == "text" else 1
        ]  # read by the code that reads language models
        for name in [*tensors, *files.CONFIGS, *more]:
            yield "model", [*_without(sound, "--model"), "--model", f"{{bad}}/{family}-{name}"]
    audits = {
        "lm": [["audit", *LM], ["scores", *SOUND["scores"]]],
        "text": [["tickets", *TEXT]],
        "image": [["audit", *IMAGE], ["fairtrain", *FAIR]],
    }
    for family, commands in audits.items():  # what begins by writing a job and a store
        for words in commands:
            for name in files.OTHERS:
                yield "model", [*_without(words, "--model"), "--model", f"{{bad}}/{family}-{name}"]


def _documents() -> Iterator[tuple[str, list[str]]]:
    for name in {**files.MASKS, **files.DOCUMENTS}:
        yield (
            "mask",
            ["apply", f"{{bad}}/masks/{name}.json", "--model", "{good}/lm", "--to", "{out}/cut"],
        )
    for name in [*files.DOCUMENTS, *CHANGED_RUNS]:
        for words in (
            ["runs", "show", "one"],
            ["runs", "verify", "one"],
            ["export", "one", "--to", "{out}/export"],
        ):
            yield "run.json", [*words, "--store", f"{{bad}}/runs/{name}"]
    for name in files.DOCUMENTS:
        for command in ("audit", "tickets", "fairtrain"):
            yield (
                "job",
                [command, "--resume", "job-0123456789abcdef", "--store", f"{{bad}}/jobs/{name}"],
            )
        yield "judge", ["predict", *LM, "--judge", f"{{bad}}/judges/{name}"]
    for job in ("no-such", "../..", "/", "job-0123456789abcdef"):
        yield "job", ["audit", "--resume", job]


def _data() -> Iterator[tuple[str, list[str]]]:
    for name in files.PROMPTS:
        yield (
            "prompts",
            ["predict", *_without(LM, "--prompts"), "--prompts", f"{{bad}}/prompts/{name}.csv"],
        )
    for name in files.CORPORA:
        yield (
            "corpus",
            ["predict", *_without(LM, "--corpus"), "--corpus", f"{{bad}}/corpora/{name}.txt"],
        )
    for name in files.TEXTS:
        yield "texts", ["tickets", *_without(TEXT, "--task"), "--task", f"{{bad}}/texts/{name}.csv"]
    for name in files.IMAGES:
        yield (
            "images",
            ["audit", *_without(IMAGE, "--data"), "--data", f"{{bad}}/images/{name}.csv"],
        )
    for name in ("fifo", "folder", "circle", "nowhere", "none"):
        yield "images", ["audit", *_without(IMAGE, "--data"), "--data", f"{{bad}}/{name}"]
        yield "scores", ["import-scores", f"{{bad}}/{name}"]
    for name in [*files.PROMPTS]:
        yield "scores", ["import-scores", f"{{bad}}/prompts/{name}.csv"]


def main() -> None:
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["number", "kind", "words"])
        listed = {shlex.join(words): kind for kind, words in rows()}
        table.writerows((at, kind, words) for at, (words, kind) in enumerate(listed.items(), 1))


if __name__ == "__main__":
    main()
