"""Figures of BiFP: what is asked at the paper's settings and with `quick`, and how their runs are
read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from engine.audit.experiments import (
    NAN,
    ExperimentAsk,
    Finding,
    Sketch,
    Stated,
    change,
    differences,
    finding,
    stated,
)
from engine.audit.request import Request
from engine.core import words
from engine.core.types import Values
from engine.data.images.load import look_images
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice, Panel
from engine.report.contents import Drawn
from engine.report.tracks import Some
from engine.store.runs import Run, where
from engine.tracks.fair_training.panels.curve import fair_axis, fair_curve
from engine.tracks.fair_training.panels.differences import tradeoff
from engine.tracks.fair_training.panels.effort import effort
from engine.tracks.fair_training.panels.training_curves import barrier, path, surface
from engine.tracks.fair_training.request import FLOPS, FairRequest, sparsity_at

# The paper's settings as far as it states them (Section 5), and sizes for two CPU cores.
#
# Stated: the models, data, targets and the sensitive attribute, the Lottery Ticket's sparsities, a
# trade-off at 70 %. Stated too: models are fitted on the training images, cut and tuned on the
# validation images and tested on the test images. Not stated, so chosen here: image size, learning
# rates, batches, how long, λ.


RESNET, MOBILENET = "resnet10", "mobilenet_v2"
TARGETS = {"celeba": ("Blond_Hair", "Bags_Under_Eyes"), "lfw": ("Wavy Hair", "Big Nose")}
"""The paper's targets by data set; the sensitive attribute is the column Male of both."""
SETTINGS: dict[str, Any] = {
    "axes": ("Male",),
    "sparsities": tuple(map(sparsity_at, (1, 3, 5, 8, 10))),
    "tune_on": "validation",
    "train": {"epochs": 20, "rate": 1e-3, "batch": 128},
    "iterations": 4000,
    "check_every": 40,
    "tradeoff_sparsity": 0.7,
    "tradeoff_strengths": (0.25, 0.5, 1.0, 2.0, 4.0),
}
"""Fields of a FairRequest on the paper's data."""


# The fair training that the project ships; computing it again takes two hours on two cores.


ABLATIONS = ("bifp-str-no-w", "bifp-str-no-m", "bifp-str-no-both")
RIVALS = ("fpgm", "snip", "lottery", "pf", "pf-late", "pf-snip")
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
        *ABLATIONS,
        *RIVALS,
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
METHODS = ("bifp-str", "bifp-uns", *ABLATIONS, *RIVALS, "fp")
"""All that Figs. 1, 3 and 5 to 8 show: one audit answers them."""
SHOWN_FOR_MOBILENET = ("bifp-str", "bifp-uns", "fpgm", "snip", "lottery")
SETTING: dict[str, Any] = {"equal": "filters", "tune_on": "validation"}
"""The paper's setting: shares of filters or weights are alike; ours has FLOPs alike."""
SMALL: dict[str, Any] = {
    **SETTING,
    "target": "blond",
    "axes": ("male",),
    "seeds": 2,
    "max_images": 5000,
    "within": DEMO.within,
    "iterations": 120,
    "check_every": 4,
    "sparsities": (sparsity_at(5),),
    "method_settings": DEMO.method_settings,
}
"""Sizes for two cores. Of 1,000 images looked at about eight are blond men, enough for a gap."""
MINUTES: dict[str, Any] = {
    **SMALL,
    "max_images": 600,
    "train": {"epochs": 3, "rate": 1e-3, "batch": 64},
    "iterations": 40,
    "check_every": 2,
    "size": 32,
}
"""Sizes in which ResNet and MobileNetV2 take minutes on two cores: far too little training, good
enough to see that it runs. Looks are fine enough for a saving of 94 % to show."""
Reads = Callable[[Run], Iterable[Finding]]


@dataclass(frozen=True, eq=False)
class FairExperiment(Drawn):
    """A figure that is read from fair trainings, one per target of the data set."""

    name: str
    figure: str
    question: str
    reads: Reads
    draws: tuple[Some, ...]
    methods: tuple[str, ...] = SHOWN_FOR_MOBILENET
    """What `quick` trains in the paper's setting; on the paper's data one audit answers all."""
    asks: Values = field(default_factory=dict)
    """Fields of its requests in the paper's setting."""
    model: str = RESNET
    stated: tuple[Stated, ...] = ()
    lacks: str = ""
    """What of the figure is not there."""
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
        sizes = {"levels": "sparsities", "trials": "seeds", "most": "max_images"}
        sizes |= {name: name for name in ("model", "weights", "train")}
        asked = self._on_avatars() if ask.data is None else self._on(ask.data, ask.quick)
        return [ask.over(one, **sizes) for one in asked]

    def _on_avatars(self) -> Iterator[FairRequest]:
        mobile = self.model == MOBILENET
        model, data = (MOBILENET, "avatars") if mobile else (DEMO.model, f"{DEMO.data}:30000")
        sizes = {**(MINUTES if mobile else SMALL), **self.asks, "experiment": self.name}
        title = f"{self.name}: {self.model} as there"
        one = FairRequest(model=model, data=data, methods=self.methods, title=title, **sizes)
        yield one
        ours = replace(one, equal=FLOPS) if mobile else DEMO
        yield replace(ours, experiment=self.name, title=f"{self.name}: at equal FLOPs")

    def _on(self, data: str, quick: bool) -> Iterator[FairRequest]:
        """The paper's settings (Sec. 5) for every target of this data set; `quick`: with far fewer
        updates."""
        kind = kind_of(data)
        targets = TARGETS[kind][:1] if self.only_first else TARGETS[kind]
        for target in targets:
            settings = {**SETTINGS, "model": self.model, "target": target}
            if quick:
                settings |= {
                    "iterations": DEMO.iterations,
                    "check_every": DEMO.check_every,
                    "max_images": 5000,
                    "sparsities": DEMO.sparsities,
                    "train": {"epochs": 3, "rate": 1e-3, "batch": 128},
                }
            if self.model == MOBILENET:
                settings["tradeoff_strengths"] = ()
            ours = FairRequest(
                data=data,
                methods=METHODS if self.model == RESNET else SHOWN_FOR_MOBILENET,
                tradeoff_methods=("bifp-str", "pf", "fp"),
                surface=self.model == RESNET,
                experiment=self.name,
                title=f"BiFP at equal FLOPs: {self.model}, {target}",
                **settings,
            )
            notion, title = self.asks.get("notion", ours.notion), f"BiFP: {self.model}, {target}"
            yield replace(ours, notion=notion, title=title, **SETTING)
            yield ours

    def read(self, runs: Sequence[Run], ask: ExperimentAsk) -> Iterator[Finding]:
        for run in runs:
            request = run.request
            unlike = unlike_paper(run, self)
            where = "as there" if request["equal"] == SETTING["equal"] else "equal FLOPs"
            yield from (
                replace(one, what=f"{request['target']}, {where}: {one.what}", differs=unlike)
                for one in self.reads(run)
            )


def kind_of(data: str) -> str:
    """Which of the paper's data sets the images are laid out as: that whose targets they have."""
    known = look_images(data).targets
    found = (kind for kind, targets in TARGETS.items() if set(targets) <= set(known))
    return next(found, "celeba")


UNSTATED = {
    "weight updates": "iterations",
    "updates between looks": "check_every",
    "seeds": "seeds",
    "λ": "strength",
    "gap to be reached": "fair_gap",
    "accuracy that may be lost": "within",
    "recipe": "recipe",
    "first training": "train",
    "side of the images": "size",
}
"""What the paper does not state, and the fields of a request that say it of ours."""
AS_PRINTED = {"implicit": "published", "update": "plain"}
"""Settings of BiFP-str's mask that follow Eq. 9 to the letter."""


def unlike_paper(run: Run, one: FairExperiment) -> str:
    """What a run does not share with the paper."""
    request, data = run.request, run.data["name"]
    same, most, target = data.casefold() in TARGETS, request["max_images"], request["target"]
    levels = phrasing.listing(f"{100 * share:g} %" for share in request["sparsities"])
    learnt = request["method_settings"].get("bifp-str", AS_PRINTED)
    cut_of = "FLOPs" if request["equal"] == FLOPS else "filters or weights"
    found: dict[str, tuple[object, object]] = {
        "model": (one.model, run.model["name"]),
        "images": (data if same else "CelebA and LFW", data),
        "target": (target if same else "blond hair, wavy hair, eye bags or a big nose", target),
        "images per split": ("all", f"at most {most}" if most else "all"),
        "cut and tuned on": ("validation images", f"{request['tune_on']} images"),
        "sparsities": ("every step of the Lottery Ticket", levels),
        "shares cut of": ("filters or weights", cut_of),
        "τ": (None, request["tolerance"]),
        "gap trained against": (one.asks.get("notion", "accuracy"), request["notion"]),
        "optimizer": ("gradient descent", request["recipe"].get("optimizer", "adamw")),
        **{f"mask's {name}": (AS_PRINTED[name], learnt[name]) for name in AS_PRINTED},
    }
    for name, of in UNSTATED.items():
        found[name] = None, str(request[of] or "as usual").strip("{}").replace("'", "")
    paper, ours = ({name: pair[at] for name, pair in found.items()} for at in range(2))
    return "; ".join(filter(None, [differences(paper, ours), one.lacks]))


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
    table = where(run.table("arm_differences"), base="bifp-str")
    table = table[table["method"].isin(methods)]
    for row in table.to_dict("records"):
        if (row["metric"], row["axis"]) not in _places(run):
            continue
        name, metric = words.method_name(row["method"]), row["metric"].replace("_", " ")
        said = f"{metric} minus BiFP-str's, {name}, {100 * row['sparsity']:.3g} % cut"
        yield finding(said, row, row["n_trials"])


def _places(run: Run) -> list[tuple[str, str]]:
    """Metrics that are told, with their axes."""
    return [("accuracy", ""), *((gap, fair_axis(run)) for gap in GAPS)]


def _measured(run: Run, variant: dict) -> Iterator[Finding]:
    dense = variant["variant"] == "dense"
    cut = "" if dense else f", {100 * variant['sparsity']:.3g} % cut"
    name = "dense model" if dense else words.method_name(variant["method"])
    for metric, axis in _places(run):
        row = lookup.result(run, variant["variant"], metric, axis)
        if row is not None:
            said, seeds = f"{metric.replace('_', ' ')}, {name}{cut}", run.request["seeds"]
            yield finding(said, row, seeds)
            if cut and metric != "degradation_gap":
                yield change(f"change of {said}", row, seeds)


def tradeoff_found(run: Run) -> Iterator[Finding]:
    """Fig. 5: accuracy and gap of every method and λ of the sweep, and the areas they dominate."""
    if not run.has("tradeoff"):
        return
    table = run.table("tradeoff")
    axis, counts = fair_axis(run), run.data["counts"].items()
    n = sum(count for name, count in counts if name.startswith(f"test/{axis}/"))
    for row in table[table["axis"] == axis].to_dict("records"):
        at = (
            f"{words.method_name(row['method'])}, λ = {row['strength']:g},"
            f" {100 * row['sparsity']:g} % cut"
        )
        for column in ("accuracy", "gap"):
            ends = {"low": row[f"{column}_low"], "high": row[f"{column}_high"]}
            yield Finding(f"{column}, {at}", ours=row[column], **ends, n=n, seeds=row["n_trials"])
    areas = where(run.table("hypervolume"), axis=axis, base="bifp-str")
    for row in areas.assign(n=n).to_dict("records"):
        row |= {end: row[f"difference_{end}"] for end in ("low", "high")}
        said = f"{AREA}, {words.method_name(row['method'])}"
        yield finding(said, row | {"value": row["difference"]}, row["n_trials"])


AREA = "area that accuracy and gap dominate, minus BiFP-str's"


def effort_found(run: Run) -> Iterator[Finding]:
    """Fig. 6: updates until the stated gap and accuracy, and what BiFP saves against the best other
    method.

    Where none of the others got there in every seed, their whole training counts, so that what is
    saved is a lower bound. Where BiFP did not, nothing can be said.
    """
    if not run.has("reached"):
        return
    table, printed = run.table("reached"), SAVED.get(run.data["name"], SAVED["CelebA"])
    usual = where(run.table("variants"), role="sparsity")["variant"]
    table = table[table["variant"].isin(usual)]
    for (method, sparsity), rows in table.groupby(["method", "sparsity"], sort=False):
        got, of = int(rows["reached"].sum()), len(rows)
        said = f"{words.method_name(method)}, {100 * sparsity:.3g} % cut"
        ours = float(rows["iterations"].mean()) if got == of else NAN
        said = f"updates until fair, {said} ({got} of {of} seeds got there)"
        yield Finding(said, ours=ours, n=of, seeds=of)
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
    how = ", at least: no other method got there"
    how = f", against {words.method_name(means.idxmin())}" if len(means) else how
    how += f" (looks let {100 * (1 - look / best):.0f} % show at most)"
    return 1 - own["iterations"].mean() / best, how


RIDGE = "height of the ridge of the loss from BiFP to"


def barriers(run: Run) -> Iterator[Finding]:
    """Fig. 8: how far the loss rises above the straight line between BiFP and each ablation; one
    seed, no interval."""
    table = lookup.table(run, "path", "other")
    for other, rows in table.groupby("other", sort=False):
        said = f"{RIDGE} {words.method_name(other)}"
        yield Finding(said, ours=barrier(rows), n=len(rows), seeds=1)


# The figures of the BiFP paper.


def ablation_curve(run: Run, choice: Choice) -> Panel:
    return fair_curve(run, choice, family="bifp")


_RIVALS = [words.method_name(name) for name in ("fpgm", "snip", "lottery")]
_STAGES = [words.method_name(name) for name in ("pf", "fp")]
_ABLATIONS = [words.method_name(name) for name in ABLATIONS]
FIRST = (
    *stated("Sec. 5.1", "accuracy gap minus BiFP-str's", rises=_RIVALS),
    *stated("Sec. 5.1", "accuracy minus BiFP-str's", stays=_RIVALS),
    *stated("Sec. 5.1", "change of accuracy gap", rises=_RIVALS),
)
"""What the paper says of its Figs. 3 and 4."""

ROWS = (
    FairExperiment(
        name="bifp-fig1",
        figure="Fig. 1",
        question="What do pruning alone, and fairness before or after it, do to accuracy and bias?",
        stated=(
            *stated("Sec. 1", "change of accuracy gap", rises=[*_RIVALS[::2], *_STAGES]),
            *stated("Sec. 1", "change of accuracy", falls=_STAGES[:1]),
        ),
        methods=("fpgm", "lottery", "fp", "pf"),
        reads=levels(("fpgm", "lottery", "fp", "pf")),
        draws=(fair_curve,),
    ),
    Sketch("bifp-fig2", PAPER, "Fig. 2", "How are masks and weights trained in turn? (A drawing.)"),
    FairExperiment(
        name="bifp-fig3",
        figure="Fig. 3",
        question=(
            "Are BiFP's models as accurate as those of other methods, and fairer, at every"
            " sparsity?"
        ),
        stated=FIRST,
        reads=levels(SHOWN_FOR_MOBILENET),
        draws=(fair_curve,),
    ),
    FairExperiment(
        name="bifp-fig4",
        figure="Fig. 4",
        question="Does the same hold for MobileNetV2?",
        stated=FIRST,
        reads=levels(SHOWN_FOR_MOBILENET),
        draws=(fair_curve,),
        model=MOBILENET,
    ),
    FairExperiment(
        name="bifp-fig5",
        figure="Fig. 5",
        question="At 70 % sparsity, how much accuracy does each method give up for a smaller gap?",
        methods=("bifp-str",),
        stated=stated("Sec. 5.2", AREA, falls=_STAGES),
        asks={"tradeoff_strengths": (0.25, 1.0, 4.0), "tradeoff_methods": ("bifp-str", "pf", "fp")},
        reads=tradeoff_found,
        draws=(tradeoff,),
        only_first=True,
    ),
    FairExperiment(
        name="bifp-fig6",
        figure="Fig. 6",
        question="How many updates does it take until the sparse model is fair?",
        methods=("bifp-str", "pf", "pf-late", "pf-snip"),
        asks={"notion": "degradation", "check_every": 1},
        lacks="two stages begin with FPGM or SNIP, not with Lottery too",
        reads=effort_found,
        draws=(effort,),
    ),
    FairExperiment(
        name="bifp-fig7",
        figure="Fig. 7",
        question="Which half of BiFP does it: fair masks, fair weights, or both?",
        stated=(
            *stated("Sec. 5.4", "accuracy minus BiFP-str's", falls=_ABLATIONS[1:]),
            *stated("Sec. 5.4", "accuracy gap minus BiFP-str's", rises=_ABLATIONS),
        ),
        methods=("bifp-str", *ABLATIONS),
        reads=levels(("bifp-str", *ABLATIONS)),
        draws=(ablation_curve,),
        only_first=True,
    ),
    FairExperiment(
        name="bifp-fig8",
        figure="Fig. 8",
        question="Is there a ridge of loss between BiFP and its ablations?",
        stated=stated(
            "Sec. 5.4",
            "",
            stays=[f"{RIDGE} {_ABLATIONS[0]}"],
            rises=[f"{RIDGE} {_ABLATIONS[1]}"],
        ),
        methods=("bifp-str", *ABLATIONS),
        asks={"surface": True},
        reads=barriers,
        draws=(surface, path),
        only_first=True,
    ),
)
