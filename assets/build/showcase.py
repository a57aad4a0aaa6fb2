"""Audits the real models that the app shows, and puts what was found among the embedded audits.

    python -m assets.build.showcase --corpus wikitext-2-test.txt --validation-corpus wikitext-2-valid.txt [--even]
    python -m assets.build.showcase --hatecheck hatecheck/test_suite_cases.csv --davidson davidson/labeled_data.csv
    python -m assets.build.showcase --cifar10 FOLDER --weights resnet56-4bfd9763.th

`make real` installs the language model and its judge; texts, pictures and ResNet-56's weights are one's own. Only figures and the model's own texts are kept: places on
this machine are taken out of what was asked. Killed, it goes on where it was when called again.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from engine.audit import embedded
from engine.audit.jobs import run_job
from engine.audit.tracks import track_named
from engine.store.runs import EMBEDDED, Run, Store, default_root, write_meta, write_tables

MODEL = "SmolLM2-135M-Instruct"
PROJECT = Path(__file__).resolve().parents[2]
AXES = ("gender_and_sex", "race_ethnicity", "nationality", "religion", "sexual_orientation")
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
TITLE = f"{MODEL}: five axes"
EVEN = {
    "axes": AXES[:1],
    "methods": ("fasp", "magnitude", "random"),
    "sparsities": (0.0, 0.334),
    "deployable": True,
    "title": f"{MODEL}: cuts that any loader reads",
}
"""The second audit: three heads of nine share keys, so a third of each layer is the smallest even cut."""


def request(corpus: Path, validation: Path, restart: bool = False, **instead: Any) -> Any:
    """What is asked; instead: fields that are asked otherwise."""
    asked = dict(
        model=MODEL,
        axes=AXES,
        prompts=str(PROJECT / "assets/people/prompts.csv"),
        corpus=str(corpus.absolute()),
        validation_corpus=str(validation.absolute()),
        methods=("fasp", "magnitude", "random", "int8", "int4", "layer_drop"),
        benchmarks={"occupations": str(PROJECT / "assets/pairs")},
        sparsities=(0.0, 0.05, 0.1, 0.2),
        gamma=0.3,
        controls=20,
        estimator="gradient",
        perplexity_estimator="gradient",
        seeds=2,
        max_prompts=120,
        max_new_tokens=10,
        max_prompt_tokens=40,
        max_corpus_tokens=2000,
        judge="judge-minilm",
        title=TITLE,
        restart=restart,
    )
    return track_named("language_models").part("request")(**asked | instead)


def judge_request(hatecheck: Path, davidson: Path, store: Path) -> Any:
    """The judge of language models, audited as the text classifier that it is: HateCheck's cases are tested on, and
    heads are scored on 1,500 tweets of Davidson et al. of each class, which the judge was trained on in part."""
    cases, tweets = pd.read_csv(hatecheck), pd.read_csv(davidson)
    train = pd.DataFrame({"text": tweets["tweet"], "harm": tweets["class"] < 2, "identity": ""})
    test = pd.DataFrame({
        "text": cases["test_case"], "harm": cases["label_gold"] == "hateful", "identity": cases["target_ident"].fillna(""),
    })
    train = train.groupby("harm").sample(1500, random_state=0)
    both = pd.concat([train.assign(split="train"), test.assign(split="test")])
    both["label"] = both.pop("harm").map({True: "harmful", False: "harmless"})
    store.mkdir(parents=True, exist_ok=True)
    both.to_csv(store / "hatecheck_davidson.csv", index=False)
    return track_named("text_classifiers").part("request")(
        model="judge-minilm",
        data=str(store / "hatecheck_davidson.csv"),
        axes=("identity",),
        methods=tuple(f"once:{score}" for score in ("conductance", "gradient_x_activation", "michel", "random")),
        sparsities=(0.1, 0.2, 0.4),
        score_texts=200,
        trials=1,
        max_length=64,
        random_masks=19,
        title="judge-minilm: which identities a smaller judge fails",
    )


def image_request(images: Path, weights: Path) -> Any:
    """ResNet-56 on CIFAR-10. The dense model is trained on the pictures too, for the cut ones are."""
    return track_named("image_classifiers").part("request")(
        model="resnet56",
        weights=str(weights.absolute()),
        data=str(images.absolute()),
        axes=("class",),
        classes=CIFAR10,
        train={"epochs": 1, "rate": 5e-4},
        methods=("autobot", "autobot+pw", "random"),
        method_settings={"autobot": {"iterations": 40}},
        speedups=(2.0, 4.0),
        retrain={"epochs": 2},
        trials=3,
        max_images=2500,
        title="ResNet-56 on CIFAR-10: which classes pay",
    )


def nowhere(value: Any) -> Any:
    """The same without places on this machine: paths from the project's folder, or names of files alone."""
    if isinstance(value, dict):
        return {name: nowhere(one) for name, one in value.items()}
    if isinstance(value, list):
        return [nowhere(one) for one in value]
    if isinstance(value, str) and Path(value).is_absolute():
        path = Path(value)
        return str(path.relative_to(PROJECT) if path.is_relative_to(PROJECT) else path.name)
    return value.replace(f"{PROJECT}/", "") if isinstance(value, str) else value


def withhold(copy: Path, meta: dict[str, Any]) -> None:
    """What is other people's out of a classifier's audit: texts are empty, their ids and groups stay; maps of attention,
    which hold their words, go, and so do small pictures and weights that were trained on from theirs."""
    if "texts" in meta["tables"]:
        texts = pd.read_parquet(copy / "texts.parquet").assign(text="", text_b="")
        meta["tables"] |= write_tables(copy, {"texts": texts})
    for name in {"lens", "thumbs", "weights"} & set(meta["tables"]):
        del meta["tables"][name]
        (copy / f"{name}.parquet").unlink()


def embed(run: Run) -> None:
    """The run without places, in place of an older embedded one of its title."""
    for old in Store(EMBEDDED, read_only=True).list():
        if old.title == run.meta["title"] and old.id != run.id:
            shutil.rmtree(EMBEDDED / "runs" / old.id)
    with TemporaryDirectory() as folder:
        copy = Path(folder) / run.id
        shutil.copytree(run.path, copy)
        meta = nowhere(run.meta)
        if meta["track"] != "language_models":
            withhold(copy, meta)
        meta["request"]["restart"] = False
        write_meta(copy, meta, run.rests_on)
        embedded.keep(Run(copy, run.additions))


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Audit the real model that the first screen shows.")
    parser.add_argument("--corpus", type=Path, help="WikiText-2's test text")
    parser.add_argument("--validation-corpus", type=Path, help="WikiText-2's validation text")
    parser.add_argument("--even", action="store_true", help="the audit of even cuts instead of that of five axes")
    parser.add_argument("--hatecheck", type=Path, help="HateCheck's test_suite_cases.csv: the judge is audited")
    parser.add_argument("--davidson", type=Path, help="labeled_data.csv of Davidson et al.")
    parser.add_argument("--cifar10", type=Path, help="folder of CIFAR-10's pictures: ResNet-56 is audited")
    parser.add_argument("--weights", type=Path, help="ResNet-56's weights, such as resnet56-4bfd9763.th")
    parser.add_argument("--store", default=default_root(), help="where parts are kept, so that it can be resumed")
    parser.add_argument("--restart", action="store_true", help="begin again although weights or data changed since the last try")
    asked = parser.parse_args(words)
    if asked.hatecheck and asked.davidson:
        wanted = judge_request(asked.hatecheck, asked.davidson, Path(asked.store))
    elif asked.corpus and asked.validation_corpus:
        wanted = request(asked.corpus, asked.validation_corpus, asked.restart, **EVEN if asked.even else {})
    elif asked.cifar10 and asked.weights:
        wanted = image_request(asked.cifar10, asked.weights)
    else:
        parser.error("Give --corpus and --validation-corpus, --hatecheck and --davidson, or --cifar10 and --weights.")
    embed(run_job(Store(asked.store), wanted, embedded.tell))


if __name__ == "__main__":
    main()
