"""Figures of BiFP: what is asked at the paper's settings and with `quick`, and how their runs are
read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from engine.audit.experiments import (
    NAN,
    Experiment,
    ExperimentAsk,
    Finding,
    Stated,
    differences,
    finding,
)
from engine.audit.request import Request
from engine.core import words
from engine.core.types import Values
from engine.data.images.load import look_images
from engine.report.charts import lookup
from engine.report.charts.panel import Choice, Panel
from engine.report.contents import default_choice
from engine.store.runs import Run
from engine.tracks.fair_training.panels.curve import fair_axis
from engine.tracks.fair_training.panels.training_curves import barrier
from engine.tracks.fair_training.request import FLOPS, FairRequest, sparsity_at

# The paper's settings as far as it states them (Section 5), and sizes for two CPU cores.
#
# Stated: the models, data, targets and the sensitive attribute, the Lottery Ticket's sparsities, a
# trade-off at 70 %. Stated too: models are fitted on the training images, cut and tuned on the
# validation images and tested on the test images. Not stated, so chosen here: image size, learning
# rates, batches, how long, λ.


MODELS = ("resnet10", "mobilenet_v2")
TARGETS = {"celeba": ("Blond_Hair", "Bags_Under_Eyes"), "lfw": ("Wavy Hair", "Big Nose")}
"""The paper's targets by data set; the sensitive attribute is the column Male of both."""
STEPS = (1, 3, 5, 8, 10)


def _paper(model: str, target: str) -> dict[str, Any]:
    return {
        "model": model,
        "target": target,
        "axes": ("Male",),
        "sparsities": tuple(map(sparsity_at, STEPS)),
        "tune_on": "validation",
        "train": {"epochs": 20, "rate": 1e-3, "batch": 128},
        "iterations": 4000,
        "check_every": 40,
        "tradeoff_sparsity": 0.7,
        "tradeoff_strengths": (0.25, 0.5, 1.0, 2.0, 4.0),
    }


SETTINGS: dict[tuple[str, str, str], dict[str, Any]] = {
    (data, target, model): _paper(model, target)
    for data, targets in TARGETS.items()
    for target in targets
    for model in MODELS
}
"""Fields of a FairRequest by data set, target and model; its data is where they lie."""


def small_request(model: str, data: str, **more: Any) -> dict[str, Any]:
    """Fields of a FairRequest that two CPU cores finish in minutes."""
    return {
        "model": model,
        "data": data,
        "target": "blond",
        "axes": ("male",),
        "methods": ("bifp-str", "pf", "fpgm", "dense-tuned"),
        "sparsities": (sparsity_at(5),),
        "iterations": 200,
        "check_every": 20,
        "seeds": 3,
        **more,
    }


# The fair training that the project ships; computing it again takes two hours on two cores.


DEMO = FairRequest(
    model="demo-resnet",
    data="avatars-gap",
    axes=("male", "skin"),
    target="blond",
    max_images=5000,
    methods=(
        "bifp-str",
        "bifp-widths-random",
        "bifp-widths-fpgm",
        "bifp-uns",
        "bifp-str-no-w",
        "bifp-str-no-m",
        "bifp-str-no-both",
        "fpgm",
        "snip",
        "lottery",
        "pf",
        "pf-late",
        "pf-snip",
        "pf-random",
        "fp",
        "dense-tuned",
        "dense-fair",
    ),
    method_settings={"lottery": {"round": 0.5}},
    sparsities=tuple(map(sparsity_at, (3, 5, 8))),
    iterations=240,
    check_every=12,
    seeds=3,
    tradeoff_strengths=(0.25, 1.0, 4.0),
    tradeoff_methods=("bifp-str", "pf"),
    surface=True,
    within=0.05,
    keep_methods=("bifp-str", "bifp-uns", "fpgm", "pf"),
    title="Demo: sparse and fair in one training, or one after the other",
)

REQUESTS = (DEMO,)


PAPER = "BiFP"
RESNET, MOBILENET = "resnet10", "mobilenet_v2"
ABLATIONS = ("bifp-str-no-w", "bifp-str-no-m", "bifp-str-no-both")
RIVALS = ("fpgm", "snip", "lottery", "pf", "pf-late", "pf-snip", "fp")
METHODS = ("bifp-str", "bifp-uns", *ABLATIONS, *RIVALS)
"""All that Figs. 1, 3 and 5 to 8 show: one audit answers them."""
SHOWN_FOR_MOBILENET = ("bifp-str", "bifp-uns", "fpgm", "snip", "lottery")
SETTING = {"equal": "filters", "tune_on": "validation"}
"""The paper's setting: shares of filters or weights are alike; ours has FLOPs alike."""
SMALL: dict[str, Any] = {
    **SETTING,
    "seeds": 2,
    "max_images": 1200,
    "iterations": 120,
    "check_every": 4,
    "sparsities": (sparsity_at(5),),
    "method_settings": {"lottery": {"round": 0.5}},
}
MINUTES: dict[str, Any] = {
    **SMALL,
    "max_images": 600,
    "train": {"epochs": 3, "rate": 1e-3, "batch": 64},
    "iterations": 40,
    "check_every": 2,
}
"""Sizes in which ResNet and MobileNetV2 take minutes on two cores: far too little training, good
enough to see that it runs. Looks are fine enough for a saving of 94 % to show."""
Reads = Callable[[Run], Iterable[Finding]]


@dataclass(frozen=True, eq=False)
class FairExperiment(Experiment):
    """A figure that is read from fair trainings, one per target of the data set."""

    name: str
    figure: str
    question: str
    reads: Reads
    draws: tuple[Callable[[Run, Choice], Panel], ...]
    methods: tuple[str, ...] = SHOWN_FOR_MOBILENET
    """What `quick` trains in the paper's setting; on the paper's data one audit answers all."""
    asks: Values = field(default_factory=dict)
    """Fields of its requests in the paper's setting."""
    model: str = RESNET
    stated: tuple[Stated, ...] = ()
    only_first: bool = False
    """Whether the first target (CelebA: blond hair) is enough: the paper shows one, or does not say
    which."""

    paper = PAPER

    @property
    def needs(self) -> str:
        return f"CelebA or LFW (--data FOLDER); {self.model} is trained on it first"

    @property
    def stand_in(self) -> str:
        ours = "a small one" if self.model == MOBILENET else "the demo's audit"
        return f"drawn avatars: a small audit in the paper's setting, and {ours} at equal FLOPs"

    def requests(self, ask: ExperimentAsk) -> list[Request]:
        """The paper's setting, then ours at equal FLOPs, target by target."""
        sizes = {
            "levels": "sparsities",
            "trials": "seeds",
            "most": "max_images",
            "model": "model",
            "weights": "weights",
            "train": "train",
        }
        if ask.data is None:
            return [ask.over(one, **sizes) for one in self._on_avatars()]
        return [ask.over(one, **sizes) for one in self._on(ask.data, ask.quick)]

    def _on_avatars(self) -> Iterator[FairRequest]:
        if self.model == MOBILENET:
            sizes = small_request(self.model, "avatars", methods=self.methods, **MINUTES)
            sizes["size"] = 32
        else:
            sizes = small_request(DEMO.model, DEMO.data, methods=self.methods, **SMALL)
        named = {"experiment": self.name, "title": f"{self.name}: {self.model} as there"}
        one = FairRequest(**{**sizes, **self.asks, **named})
        yield one
        ours = DEMO if self.model != MOBILENET else replace(one, equal=FLOPS)
        yield replace(ours, experiment=self.name, title=f"{self.name}: at equal FLOPs")

    def _on(self, data: str, quick: bool) -> Iterator[FairRequest]:
        """The paper's settings (Sec. 5) for every target of this data set; `quick`: with far fewer
        updates."""
        kind = kind_of(data)
        targets = TARGETS[kind][:1] if self.only_first else TARGETS[kind]
        for target in targets:
            settings: dict[str, Any] = dict(SETTINGS[kind, target, self.model])
            if quick:
                settings |= {
                    "iterations": DEMO.iterations,
                    "check_every": DEMO.check_every,
                    "max_images": 2500,
                    "sparsities": DEMO.sparsities,
                    "train": {"epochs": 3, "rate": 1e-3, "batch": 128},
                }
            methods = METHODS if self.model == RESNET else SHOWN_FOR_MOBILENET
            if self.model == MOBILENET:
                settings["tradeoff_strengths"] = ()
            ours = FairRequest(
                data=data,
                methods=methods,
                tradeoff_methods=("bifp-str", "pf", "fp"),
                surface=self.model == RESNET,
                experiment=self.name,
                title=f"BiFP at equal FLOPs: {self.model}, {target}",
                **settings,
            )
            setting: dict[str, Any] = {
                **SETTING,
                "notion": self.asks.get("notion", ours.notion),
                "title": f"BiFP: {self.model}, {target}",
            }
            yield replace(ours, **setting)
            yield ours

    def read(self, runs: Sequence[Run], ask: ExperimentAsk) -> Iterator[Finding]:
        for run in runs:
            request = run.request
            unlike = unlike_paper(run, self.model, self.asks.get("notion", "accuracy"))
            where = "as there" if request.get("equal") == SETTING["equal"] else "equal FLOPs"
            yield from (
                replace(one, what=f"{request['target']}, {where}: {one.what}", differs=unlike)
                for one in self.reads(run)
            )

    def panels(
        self, runs: Sequence[Run], ask: ExperimentAsk, dark: bool = False
    ) -> Iterator[Panel]:
        for run in runs:
            yield from (draw(run, default_choice(run, dark=dark)) for draw in self.draws)


def kind_of(data: str) -> str:
    """Which of the paper's data sets the images are laid out as: that whose targets they have."""
    known = look_images(data).targets
    return next(
        (kind for kind, targets in TARGETS.items() if set(targets) <= set(known)),
        next(iter(TARGETS)),
    )


def unlike_paper(run: Run, model: str, notion: str) -> str:
    """What a run does not share with the paper; None is what the paper does not state."""
    meta, request = run.meta, run.request
    data, same = meta["data"]["name"], meta["data"]["name"].casefold() in TARGETS
    most = request["max_images"]
    return differences(
        {
            "model": model,
            "images": data if same else "CelebA and LFW",
            "images per split": "all",
            "cut and tuned on": "validation images",
            "shares cut of": "filters or weights",
            "gap trained against": notion,
            "weight updates": None,
            "updates between looks": None,
            "seeds": None,
            "λ": None,
        },
        {
            "model": meta["model"]["name"],
            "images": data,
            "images per split": f"at most {most}" if most else "all",
            "cut and tuned on": f"{request['tune_on']} images",
            "shares cut of": "FLOPs" if request.get("equal") == FLOPS else "filters or weights",
            "gap trained against": request["notion"],
            "weight updates": request["iterations"],
            "updates between looks": request["check_every"],
            "seeds": request["seeds"],
            "λ": request["strength"],
        },
    )


# What runs of fair training say about the paper's figures: levels, trade-off, effort, ablations,
# loss surface.


SAVED = {"LFW": 0.9422, "CelebA": 0.9405}
"""Share of training iterations saved against the best baseline (Sec. 5.3). Other faces stand in for
CelebA."""
GAPS = ("accuracy_gap", "degradation_gap")


def levels(methods: Sequence[str]) -> Callable[[Run], Iterator[Finding]]:
    """Figs. 1, 3, 4 and 7: accuracy and gaps of the dense model and of these methods at every
    sparsity."""

    def read(run: Run) -> Iterator[Finding]:
        table = lookup.reported(run)
        for variant in table[table["method"].isin(("dense", *methods))].to_dict("records"):
            yield from _measured(run, variant)
        yield from beside(run, methods)

    return read


def beside(run: Run, methods: Sequence[str]) -> Iterator[Finding]:
    """Accuracy and gaps of these methods minus those of BiFP-str, on the same images."""
    if not run.has("arm_differences"):
        return
    table = run.table("arm_differences")
    mine = (table["axis"] == fair_axis(run)) & table["metric"].isin(GAPS)
    mine |= table["metric"].eq("accuracy") & table["axis"].eq("")
    mine &= table["base"].eq("bifp-str") & table["method"].isin(methods)
    for row in table[mine].to_dict("records"):
        name, metric = words.method_name(row["method"]), row["metric"].replace("_", " ")
        said = f"{metric} minus BiFP-str's, {name}, {100 * row['sparsity']:.3g} % cut"
        yield finding(said, row, row["n_trials"])


def _measured(run: Run, variant: dict) -> Iterator[Finding]:
    cut = "" if variant["variant"] == "dense" else f", {100 * variant['sparsity']:.3g} % cut"
    name = "dense model" if variant["variant"] == "dense" else words.method_name(variant["method"])
    for metric, axis in (("accuracy", ""), *((gap, fair_axis(run)) for gap in GAPS)):
        row = lookup.result(run, variant["variant"], metric, axis)
        if row is not None:
            yield finding(f"{metric.replace('_', ' ')}, {name}{cut}", row, run.request["seeds"])


def tradeoff(run: Run) -> Iterator[Finding]:
    """Fig. 5: accuracy and gap of every method and λ of the sweep."""
    if not run.has("tradeoff"):
        return
    table = run.table("tradeoff")
    counts = run.data["counts"]
    axis = fair_axis(run)
    n = sum(count for name, count in counts.items() if name.startswith(f"test/{axis}/"))
    for row in table[table["axis"] == axis].to_dict("records"):
        at = (
            f"{words.method_name(row['method'])}, λ = {row['strength']:g},"
            f" {100 * row['sparsity']:g} % cut"
        )
        for column in ("accuracy", "gap"):
            ends = {"low": row[f"{column}_low"], "high": row[f"{column}_high"]}
            yield Finding(f"{column}, {at}", ours=row[column], **ends, n=n, seeds=row["n_trials"])


def effort(run: Run) -> Iterator[Finding]:
    """Fig. 6: updates until the stated gap and accuracy, and what BiFP saves against the best other
    method.

    Where none of the others got there in every seed, their whole training counts, so that what is
    saved is a lower bound. Where BiFP did not, nothing can be said.
    """
    if not run.has("reached"):
        return
    table, printed = run.table("reached"), SAVED.get(run.data["name"], SAVED["CelebA"])
    variants = run.table("variants")
    usual = set(variants.loc[variants["role"] == "sparsity", "variant"])
    table = table[table["variant"].isin(usual)]
    for (method, sparsity), rows in table.groupby(["method", "sparsity"], sort=False):
        got, said = (
            int(rows["reached"].sum()),
            f"{words.method_name(method)}, {100 * sparsity:.3g} % cut",
        )
        ours = float(rows["iterations"].mean()) if got == len(rows) else NAN
        yield Finding(
            f"updates until fair, {said} ({got} of {len(rows)} seeds got there)",
            ours=ours,
            n=len(rows),
            seeds=len(rows),
        )
    for sparsity, here in table[table["sparsity"] > 0].groupby("sparsity"):
        value, how = saved(here, run.request["check_every"])
        said = f"share of updates saved by BiFP at {100 * float(sparsity):.3g} %{how}"
        yield Finding(said, printed, "Sec. 5.3", value, n=len(here), seeds=run.request["seeds"])


def saved(rows: pd.DataFrame, look: int) -> tuple[float, str]:
    """(share saved by bifp-str against the quickest method that is no form of it, how to read it)
    at one sparsity. look: updates between two looks, so that no less can be spent."""
    own, others = rows[rows["method"] == "bifp-str"], rows[~rows["method"].str.startswith("bifp")]
    if own.empty or others.empty or not own["reached"].all():
        return NAN, ": not all its seeds got there"
    met = others.groupby("method")["reached"].transform("all")
    means = others[met].groupby("method")["iterations"].mean()
    best = float(means.min() if len(means) else others["total_iterations"].min())
    how = "" if len(means) else ", at least: no other method got there"
    how += f" (looks let {100 * (1 - look / best):.0f} % show at most)"
    return 1 - float(own["iterations"].mean()) / best, how


RIDGE = "height of the ridge of the loss from BiFP to"


def barriers(run: Run) -> Iterator[Finding]:
    """Fig. 8: how far the loss rises above the straight line between BiFP and each ablation; one
    seed, no interval."""
    if not run.has("path"):
        return
    table = lookup.frame(run, "path")
    for other, rows in table.groupby("other", sort=False):
        yield Finding(
            f"{RIDGE} {words.method_name(other)}",
            ours=barrier(rows),
            n=len(rows),
            seeds=1,
        )
