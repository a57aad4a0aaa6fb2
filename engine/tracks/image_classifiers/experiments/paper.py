"""A figure of the paper (Meyer and Wong 2023) as requests, and their runs read beside the numbers
it prints.

On the paper's own data set where it is given, with the paper's model and hyper-parameters. With
`quick` on embedded images and a small model, or on the paper's data in a size for two CPU cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from engine.audit.experiments import (
    NAN,
    PUBLISHED,
    Experiment,
    ExperimentAsk,
    Finding,
    Stated,
    change,
    differences,
    finding,
    mean_of,
    stated,
)
from engine.audit.request import Request
from engine.classifiers.groups import OVO, OVR
from engine.classifiers.images.request import images_of
from engine.core.types import Values
from engine.data.images.changes import CAT_AND_DOG, COLUMN, WITH, WITHOUT
from engine.data.images.load import ImageSet, look_images
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice, Panel, blank
from engine.report.contents import Drawn, default_choice
from engine.report.tracks import Some
from engine.store.runs import Run, where
from engine.tracks.image_classifiers.panels import pw
from engine.tracks.image_classifiers.panels.pw import ablation, pw_difference, shares
from engine.tracks.image_classifiers.panels.speedup import groups_along_speedup, missed, pooled
from engine.tracks.image_classifiers.request import ImageRequest
from engine.training.recipe import ADDED, IMAGE, MIXED, VIEW

# The paper's hyper-parameters (Meyer and Wong 2023, appendix A and Tables 1-4), and sizes for two
# CPU cores.


@dataclass(frozen=True)
class Preset:
    """One model on one data set. autobot, taylor: settings (PW loss, Tables 1 and 2). pw: theta and
    gamma per method (Table 3). retrain (Table 4) and train: recipes, of CelebA with the parameters
    of the lowest validation loss of all epochs (a patience as long as the training). speedups: the
    targets of its figure."""

    autobot: dict[str, Any]
    taylor: dict[str, Any]
    pw: dict[str, dict[str, float]]
    retrain: dict[str, Any]
    train: dict[str, Any]
    speedups: tuple[float, ...]
    start: str | None = "imagenet"
    """Weights that training starts from (appendix A); None: from scratch."""
    published_size: int = 224
    """Side of the images in the published code, in pixels; the paper names none, and ours is the
    model's own. Of CelebA it reads all 218 x 178 pixels as they are, of which our square images
    hold the middle 178."""

    def request(self) -> dict[str, Any]:
        """The fields of an ImageRequest that it sets."""
        settings = {"autobot": self.autobot, "taylor": self.taylor}
        return {
            "method_settings": settings,
            "pw": self.pw,
            "retrain": self.retrain,
            "speedups": self.speedups,
        }


def _autobot(rate: float, batch: int, iterations: int, beta: float) -> dict[str, Any]:
    return {"rate": rate, "batch": batch, "iterations": iterations, "beta": beta}


def _taylor(rate: float, batch: int, every: int, count: int) -> dict[str, Any]:
    return {"rate": rate, "batch": batch, "every": every, "count": count}


def _fit(rate: float, batch: int, epochs: int, **more: Any) -> dict[str, Any]:
    return {"rate": rate, "batch": batch, "epochs": epochs, **more}


def _pw(autobot: tuple[float, float], taylor: tuple[float, float]) -> dict[str, dict[str, float]]:
    found = dict.fromkeys(("autobot", "taylor", "random", "magnitude", "fpgm"), autobot)
    found["taylor"] = taylor
    return {name: {"theta": theta, "gamma": gamma} for name, (theta, gamma) in found.items()}


PUBLISHED_SQUARES = {"pixels": 4, "tested": "all", "redrawn": True}
"""The artefact of the published code: 4 pixels, a new place each time, in the whole test set."""
PUBLISHED_TAYLOR = {"momentum": 0.0, "reading": "cut"}
"""Taylor as in the published code: plain SGD, importance of the last batch before a cut alone.
There that batch is read again after its update, in evaluation mode; here it is read while it
trains."""
PROTOCOLS: dict[str, dict[str, Any]] = {
    "paper": {"weighting": ADDED, "corrected": IMAGE, "multi_class": OVO},
    "published": {"weighting": MIXED, "corrected": VIEW, "multi_class": OVR, "mirror": False},
}
"""Fields of an ImageRequest where the paper and its published code differ; `published`: as the code
does it."""
MIRRORED = ("cifar10",)
"""Data sets whose images the published code mirrors; no others."""


def with_protocol(fields: Values, protocol: str, dataset: str) -> dict[str, Any]:
    """The fields of a request under a protocol: its switches, and the squares of a change that
    draws some."""
    own = {
        name: value
        for name, value in PROTOCOLS[protocol].items()
        if name != "mirror" or dataset not in MIRRORED
    }
    squares = PUBLISHED_SQUARES if protocol == "published" else {}
    changes = [
        {**change, **(squares if change["name"] == "artefact" else {})}
        for change in fields.get("changes", ())
    ]
    return {**fields, **own, **({"changes": tuple(changes)} if changes else {})}


CELEBA = (16.0, 32.0, 64.0, 128.0, 256.0)
FITZPATRICK = (2.0, 4.0, 8.0, 16.0, 32.0)
CIFAR = (1.33, 2.0, 4.0, 8.0, 16.0)

PAPER: dict[tuple[str, str], Preset] = {
    ("celeba", "resnet18"): Preset(
        _autobot(0.85, 64, 200, 2.7),
        _taylor(0.01, 64, 5, 1),
        _pw((0.3, 1.0), (0.8, 0.5)),
        _fit(1e-4, 256, 30),
        _fit(1e-4, 256, 20, body_share=0.01, frozen_epochs=5, patience=20),
        CELEBA,
        published_size=178,
    ),
    ("celeba", "vgg16"): Preset(
        _autobot(1.81, 64, 250, 3.07),
        _taylor(0.01, 64, 5, 1),
        _pw((0.75, 3.0), (0.9, 5.0)),
        _fit(5e-4, 64, 10),
        _fit(5e-4, 64, 10, body_share=0.01, patience=10),
        CELEBA,
        published_size=178,
    ),
    ("fitzpatrick17k", "resnet34"): Preset(
        _autobot(1.5, 32, 400, 0.5),
        _taylor(0.01, 32, 5, 1),
        _pw((0.8, 2.5), (0.95, 3.0)),
        _fit(1e-4, 64, 30),
        _fit(1e-3, 64, 30, body_share=0.001, frozen_epochs=5),
        FITZPATRICK,
    ),
    ("fitzpatrick17k", "efficientnet_v2_m"): Preset(
        _autobot(1.5, 16, 600, 6.76),
        _taylor(0.01, 16, 4, 8),
        _pw((0.8, 2.0), (0.95, 3.0)),
        _fit(1e-5, 32, 50),
        _fit(1e-3, 32, 30, body_share=0.01, frozen_epochs=5),
        FITZPATRICK,
    ),
    ("cifar10", "resnet56"): Preset(
        _autobot(0.7, 128, 200, 5.3),
        _taylor(0.01, 128, 5, 1),
        _pw((0.5, 1.0), (0.5, 1.0)),
        _fit(1e-3, 256, 200),
        _fit(0.1, 256, 200, body_share=0.1, schedule="steps", steps=[100, 150, 175]),
        CIFAR,
        start=None,
        published_size=32,
    ),
    ("cifar10", "efficientnet_v2_s"): Preset(
        _autobot(1.88, 64, 200, 2.0),
        _taylor(0.01, 64, 5, 8),
        _pw((0.7, 0.5), (0.7, 0.5)),
        _fit(1e-5, 128, 10),
        _fit(1e-3, 128, 10, body_share=0.01, frozen_epochs=5),
        CIFAR,
    ),
}
"""The paper's presets by data set and model."""


# The audit of filters that the project ships; computing it again takes half an hour.


REQUEST = ImageRequest(
    model="demo-resnet",
    data="avatars",
    axes=("male", "skin"),
    target="blond",
    methods=("autobot", "autobot+pw", "taylor", "taylor+pw", "random", "random+pw"),
    speedups=(4.0, 16.0, 48.0),
    trials=3,
    pw=PAPER["celeba", "resnet18"].pw,
    method_settings={
        "autobot": _autobot(0.85, 64, 200, 2.7),
        "taylor": _taylor(0.01, 64, 5, 3),
    },
    retrain=_fit(2e-3, 128, 6),
    title="Demo: who pays when filters are cut",
)

REQUESTS = (REQUEST,)


NAMES = {"celeba": "CelebA", "fitzpatrick17k": "Fitzpatrick17k", "cifar10": "CIFAR-10"}
AFFECTED = "affected classes"
"""Stands for the classes that the paper changes, cat and dog, or what is in their places."""

QUICK = {
    "method_settings": {
        "autobot": _autobot(0.85, 64, 60, 2.7),
        "taylor": _taylor(0.01, 64, 5, 8),
    },
    "retrain": _fit(2e-3, 128, 3),
}
"""Sizes for two CPU cores, small model."""
QUICK_LARGE = {
    "method_settings": {
        "autobot": _autobot(0.85, 32, 40, 2.7),
        "taylor": _taylor(0.01, 32, 3, 24),
    },
    "retrain": _fit(1e-3, 64, 2),
    "max_images": 2500,
}
"""Sizes for two CPU cores with the paper's own data and model: far too little training, good enough
to see a trend."""
SMALL = "resnet10-w16"
"""The model for those embedded images that come without a trained one."""


@dataclass(frozen=True)
class Printed:
    """An AUC that the paper prints: of which model, about which subgroup ("": all images), of which
    request."""

    where: str
    model: str
    group: str
    value: float
    part: int = 0


@dataclass(frozen=True, eq=False)
class FilterExperiment(Drawn):
    """One figure of the paper, or one part of it."""

    name: str
    figure: str
    question: str
    dataset: str
    """The data set of PAPER whose presets it takes."""
    quick_data: str
    """Embedded images that stand in for it with `quick`."""
    paper_model: str
    draws: tuple[Some, ...]
    printed: tuple[Printed, ...] = ()
    methods: tuple[str, ...] = ("autobot", "autobot+pw", "taylor", "taylor+pw", "random")
    axes: tuple[str, ...] = ()
    """Group columns; () for the data's usual ones."""
    full_speedups: tuple[float, ...] = ()
    """Targets on the paper's data; () for those of the preset."""
    quick_speedups: tuple[float, ...] = (4.0, 16.0)
    quick_images: int | None = 4000
    retrains: bool = False
    """Whether its data are changed, so that the dense model must be trained on the changed data
    first."""
    parts: tuple[Values, ...] = ({},)
    """What differs between its requests: fields of an ImageRequest, one mapping per request."""
    stated: tuple[Stated, ...] = ()
    reads: Callable[[Run], Iterable[Finding]] = lambda run: changes_of_auc(run)
    """What is read from a run."""

    paper = "PW loss"
    protocols = tuple(PROTOCOLS)

    @property
    def needs(self) -> str:
        return f"{NAMES[self.dataset]} (--data PATH) and {self.paper_model}"

    @property
    def stand_in(self) -> str:
        return self.quick_data

    def read(self, runs: Sequence[Run], ask: ExperimentAsk) -> Iterator[Finding]:
        """AUC of the dense model, as the paper prints it, then how each arm changes it, subgroup by
        subgroup."""
        for place, run in enumerate(runs):
            unlike = self._unlike(run)
            for one in [*self._dense(run, place), *self.reads(run)]:
                yield replace(one, what=self._said(one.what, place), differs=unlike)

    def _said(self, what: str, place: int) -> str:
        """Which request a number is of, where there are several."""
        title = str(self.parts[place].get("title", ""))
        return f"{title.partition(': ')[2]}: {what}" if title else what

    def _dense(self, run: Run, place: int) -> Iterator[Finding]:
        model = run.model["architecture"]
        known = {one.model for one in self.printed}
        asked = model if model in known else self.paper_model
        for one in self.printed:
            if one.part == place and one.model == asked:
                row = auc_of(run, "dense", one.group)
                said = f"AUC of the dense model, {one.group or 'all images'}"
                yield finding(said, row, seeds=1, paper=one.value, where=one.where)

    def _unlike(self, run: Run) -> str:
        """What the run does not share with the paper, every setting of its tables among it."""
        request, preset = run.request, self._preset(self.paper_model)
        data, name, most = run.data["name"], NAMES[self.dataset], request["max_images"]
        same = name.casefold().replace("-", "") in data.casefold().replace("-", "")
        paper = {"model": self.paper_model, "images": name, "images per split": "all", "trials": 3}
        ours = {
            "model": run.model["name"],
            "images": name if same else data,
            "images per split": f"at most {most}" if most else "all",
            "trials": request["trials"],
        }
        usual = preset.request() | {"train": preset.train}
        usual |= {"speedups": self.full_speedups or preset.speedups}
        told = differences(paper | _flat(usual), ours | _flat(request))
        short = [missed(run, name) for name in pooled(run)["variant"]]
        return "; ".join(filter(None, [told, *short]))

    def requests(self, ask: ExperimentAsk) -> list[ImageRequest]:
        """All requests, ready to be checked and run."""
        base = self._base(ask)
        parts = [with_protocol(dict(part), ask.protocol, self.dataset) for part in self.parts]
        title = f"{self.name}: {Path(base.model).name} on {Path(base.data).name}"
        return [replace(base, **{"title": title, **part}) for part in parts]

    def _base(self, ask: ExperimentAsk) -> ImageRequest:
        data = ask.data or self.quick_data
        model = ask.model or self._model(ask)
        preset = self._preset(model)
        fields: dict[str, Any] = dict(preset.request())
        if ask.data is None:
            fields |= {**QUICK, "max_images": self.quick_images, "speedups": self.quick_speedups}
        elif ask.quick:
            fields |= {**QUICK_LARGE, "speedups": self.quick_speedups}
        elif self.full_speedups:
            fields["speedups"] = self.full_speedups
        if ask.protocol == PUBLISHED:
            settings = fields["method_settings"]
            fields["method_settings"] = {
                **settings,
                "taylor": {**settings["taylor"], **PUBLISHED_TAYLOR},
            }
            fields |= {"size": preset.published_size} if ask.data is not None else {}
        request = ImageRequest(
            model=model,
            data=data,
            axes=self.axes or look_images(data).default_groups,
            weights=self._weights(ask, model, preset),
            methods=self.methods,
            trials=3,
            train=self._train(ask, model, preset),
            experiment=self.name,
            **fields,
        )
        return ask.over(request, levels="speedups", most="max_images", trials="trials")

    def _model(self, ask: ExperimentAsk) -> str:
        if ask.data is not None:
            return self.paper_model
        return (
            "demo-resnet" if self.quick_data.startswith("avatars") and not self.retrains else SMALL
        )

    def _preset(self, model: str) -> Preset:
        name = Path(model).name
        return PAPER.get((self.dataset, name)) or PAPER[self.dataset, self.paper_model]

    def _weights(self, ask: ExperimentAsk, model: str, preset: Preset) -> str | None:
        """The weights asked for; else, on the paper's own data, those that its training starts
        from."""
        from engine.models.load_image_classifier import is_architecture

        if ask.weights is not None or ask.data is None or not is_architecture(model):
            return ask.weights
        return preset.start

    def _train(self, ask: ExperimentAsk, model: str, preset: Preset) -> dict[str, Any] | None:
        """How the dense model is fitted first; None where it comes trained for these data."""
        from engine.models.load_image_classifier import is_architecture

        if ask.train is not None:
            return ask.train
        comes_trained = not is_architecture(model) or ask.weights not in (None, "imagenet")
        if comes_trained and not self.retrains:
            return None
        if ask.data is None:
            return _fit(3e-3, 128, 12)
        if not ask.quick:
            return preset.train
        if comes_trained:
            return _fit(1e-3, 128, 2)
        start = _fit(1e-3, 64, 3)
        return {**start, "body_share": 0.1} if preset.start else {**start, "epochs": 10}


def auc_of(run: Run, variant: str, group: str) -> Values:
    """AUC of a variant on a subgroup of the first axis, on all images (""), or the mean of the
    affected classes."""
    axis = run.request["axes"][0]
    if group == "":
        return _first(run.table("results"), variant=variant, axis="", metric="auc")
    names = affected(run) if group == AFFECTED else (group,)
    rows = [
        _first(run.table("groups"), variant=variant, axis=axis, metric="auc", group=name)
        for name in names
    ]
    if len(rows) == 1:
        return rows[0]
    means = {
        name: sum(row.get(name, NAN) for row in rows) / len(rows) for name in ("value", "delta")
    }
    return {
        **means,
        "n": sum(row.get("n", NAN) for row in rows),
    }  # two dependent intervals make no third


def affected(run: Run) -> tuple[str, ...]:
    """Classes that the request's change is about: as named, else those in the paper's places."""
    named = next(
        (change.get("classes") or change.get("cls") for change in run.request["changes"]),
        None,
    )
    classes = run.data["classes"]
    single = any(change["name"] == "artefact" for change in run.request["changes"])
    places = CAT_AND_DOG[1:] if single else CAT_AND_DOG
    usual = tuple(classes[min(place, len(classes) - 1)] for place in places)
    return (named,) if isinstance(named, str) else tuple(named or usual)


def _flat(settings: Values) -> dict[str, str]:
    """What the paper's tables set of a request, by name: "autobot rate", "retrain epochs"."""
    parts = {**settings["method_settings"], "retrain": settings["retrain"]}
    parts |= {f"PW of {name}": given for name, given in settings["pw"].items()}
    parts |= {"train": settings["train"] or {}}
    flat = {f"{part} {name}": one for part, given in parts.items() for name, one in given.items()}
    said = {name: f"{one:g}" if isinstance(one, float) else str(one) for name, one in flat.items()}
    return said | {"speedups": phrasing.listing(f"{one:g}×" for one in settings["speedups"])}


def _first(table: pd.DataFrame, **wanted: str) -> dict[str, Any]:
    """The test row with these values; empty where there is none."""
    rows = where(table, split="test", **wanted)
    return rows.iloc[0].to_dict() if len(rows) else {}


def changes_of_auc(run: Run) -> Iterator[Finding]:
    """Change of AUC against the dense model: every arm at every speedup, every subgroup of the
    first axis."""
    axis, trials = run.request["axes"][0], run.request["trials"]
    mine = where(run.table("groups"), split="test", axis=axis, metric="auc")
    for arm in pooled(run).itertuples():
        rows = where(mine, variant=arm.variant).to_dict("records")
        for row in [{**auc_of(run, arm.variant, ""), "group": "all images"}, *rows]:
            said = f"change of AUC, {arm.method}, {arm.speedup:g}x, {row['group']}"
            yield change(said, row, trials)
        gap = _first(run.table("results"), variant=arm.variant, axis=axis, metric="auc_gap")
        yield change(f"change of the gap of AUC, {arm.method}, {arm.speedup:g}x", gap, trials)
    yield from by_the_loss(run)


def by_the_loss(run: Run) -> Iterator[Finding]:
    """What a loss changes about AUC against the plain one of the same trials, of every subgroup of
    the first axis, and over all images; then of the gap."""
    table = run.table("arm_differences")
    table = table[table["axis"].isin(["", run.request["axes"][0]])]
    for metric, what in {"auc": "change", "auc_gap": "change of the gap of AUC"}.items():
        for row in where(table, metric=metric).to_dict("records"):
            arm = f"{row['base']}, {row['loss']}, {row['speedup']:g}x"
            whom = f", {row['group'] or 'all images'}" if metric == "auc" else ""
            said = f"{what} by the loss, {arm}{whom}"
            yield finding(said, row, row["n_trials"])


def after_pruning(run: Run) -> Iterator[Finding]:
    """Fig. 7: AUC that is left, over all images and of the affected classes, each against the rest;
    of images with and without the artefact where there are some. Then what changed.

    Ends of a difference of two dependent numbers are taken from both intervals, of a mean of two
    from their means: wider than need be.
    """
    trials, variants = run.request["trials"], run.table("variants")
    means = lookup.table(run, "affected", "variant")
    groups = where(run.table("groups"), split="test", metric="auc", axis=f"class+{COLUMN}")
    for arm in variants[variants["chosen"].astype(bool)].itertuples():
        dense = arm.variant == "dense"
        at = "dense model" if dense else f"{arm.method}, {arm.speedup:g}x"
        rows = {"all images": auc_of(run, arm.variant, "")}
        for mean in where(means, variant=arm.variant).to_dict("records"):
            mine = {**mean, "n": auc_of(run, arm.variant, AFFECTED)["n"]}
            rows[f"{AFFECTED} ({mean['classes']})"], whole = mine, rows["all images"]
            minus = {
                end: mine[end] - whole[other]
                for end, other in zip(_CHANGE, (_CHANGE[0], *_CHANGE[:0:-1]), strict=True)
            }
            if not dense:
                said = f"change of AUC, {at}, {AFFECTED}"
                yield change(said, mine, trials)
                yield change(f"{said} minus all images", {**mine, **minus}, trials)
        for row in where(groups, variant=arm.variant).to_dict("records"):
            if row["group"].partition("+")[0] in affected(run):
                rows[f"{row['group']} artefact"] = row
        for group, row in rows.items():
            yield finding(f"AUC, {at}, {group}", row, 1 if dense else trials)
    yield from changes_of_auc(run)
    table = run.table("arm_differences").query("metric == 'auc' and axis == 'class'")
    table = table[table["group"].isin(affected(run))]
    for (base, loss, speedup), rows in table.groupby(["base", "loss", "speedup"]):
        mean = rows[["value", "low", "high"]].mean().to_dict() | {"n": rows["n"].sum()}
        said = f"change by the loss, {base}, {loss}, {speedup:g}x, {AFFECTED}"
        yield finding(said, mean, trials)


_CHANGE = ("delta", "delta_low", "delta_high")


# Fig. 4: how much of the loss of pruning each subgroup and class makes up, with the PW loss and
# without.


SHARE = "change of the share of the loss"


def changes_of_share(run: Run) -> Iterator[Finding]:
    """Mean change of the share over all batches, of a group's images of one class and of all."""
    table = shares(run, default_choice(run))
    if table.empty:
        return
    steps = table.groupby(["base", "trial"])["step"].transform("nunique")
    table = table.assign(change=table["change"] / steps)
    both = pd.concat([table.assign(label=-1), table])
    by_trial = both.groupby(["base", "group", "label", "trial"])["change"].sum()
    for (base, group, label), values in by_trial.groupby(["base", "group", "label"]):
        # CelebA's column is Blond_Hair, the paper's word is blond.
        name = "all classes" if label < 0 else run.data["classes"][label].removesuffix(" hair")
        batches = where(table, base=base)["step"].nunique()
        said = f"{SHARE}, {base}, {group}, {name}"
        yield mean_of(said, values, n=batches, seeds=len(values))


# Fig. 6: images with and without the yellow square, and how often it goes with which class.


SHOWN = 8
"""Pictures in a row."""


class Squares(Experiment):
    """What the change "artefact" does to the training images; no model is needed."""

    name = "artefact-images"
    paper = "PW loss"
    figure = "Fig. 6"
    question = "What does the artefact look like, and how far does it give the class away?"
    needs = "CIFAR-10 (--data PATH)"
    stand_in = "handwritten digits"

    def requests(self, ask: ExperimentAsk) -> list[Request]:
        return []

    def read(self, runs: Sequence[Run], ask: ExperimentAsk) -> Iterator[Finding]:
        """Shares of training images, with exact binomial intervals."""
        images = _images(ask)
        table = images.table[images.table["split"] == "train"]
        marked = (table[COLUMN] == WITH).to_numpy()
        # The class that goes with the square: the sixth, as dog in CIFAR-10.
        own = (table["label"] == min(5, len(images.classes) - 1)).to_numpy()
        unlike = differences({"images": "CIFAR-10"}, {"images": images.name.partition(", ")[0]})
        for said, hits, among, printed in (
            ("square in images of the class", marked & own, own, 0.98),
            ("square in images of other classes", marked & ~own, ~own, 0.02),
            ("the class, where there is a square", marked & own, marked, 0.845),
        ):
            count, n = int(hits.sum()), int(among.sum())
            ends = binomtest(count, n).proportion_ci()
            yield Finding(
                said,
                printed,
                "Sec. 4.6",
                count / n,
                ends.low,
                ends.high,
                n=n,
                seeds=1,
                differs=unlike,
            )

    def panels(
        self, runs: Sequence[Run], ask: ExperimentAsk, dark: bool = False
    ) -> Iterator[Panel]:
        """A row of training images with the square above a row without."""
        images = _images(ask)
        train = images.table["split"] == "train"
        rows = [
            np.flatnonzero(train & (images.table[COLUMN] == kind))[:SHOWN]
            for kind in (WITH, WITHOUT)
        ]
        wide = min(map(len, rows))
        picture = np.concatenate(
            [np.concatenate(list(images.read(places[:wide])), axis=1) for places in rows]
        )
        figure = blank(Choice("dense", "", 1.0, dark=dark), 260)
        figure.add_image(z=picture)
        figure.update_xaxes(visible=False)
        figure.update_yaxes(visible=False)
        answer = f"Above with the square, below without; {wide} training images each."
        table = images.table.groupby(["split", COLUMN]).size().rename("images").reset_index()
        yield Panel("squares", self.question, answer, figure, table, f"Images: {images.name}.")


def _images(ask: ExperimentAsk) -> ImageSet:
    """The images with the artefact; the model only says how large they are."""
    request = ImageRequest(
        ask.model or "resnet56",
        ask.data or "digits",
        ("class", COLUMN),
        changes=({"name": "artefact"},),
        max_images=ask.most,
    )
    return images_of(request)


# The figures of the paper: a question, what its requests hold, and what it prints.


ALONG = (groups_along_speedup, pw_difference)

ROWS = (
    # AutoBot with every switch of the PW loss (weights, corrected labels; in pruning, in
    # retraining, in both).
    FilterExperiment(
        name="ablation",
        figure="Fig. 8",
        question="Which part of the PW loss matters, and where?",
        dataset="celeba",
        quick_data="avatars",
        paper_model="resnet18",
        quick_speedups=(16.0,),
        methods=(
            "autobot",
            "autobot+pw",
            "autobot+weights@prune",
            "autobot+labels@prune",
            "autobot+weights",
            "autobot+labels",
            "autobot+weights@retrain",
            "autobot+labels@retrain",
        ),
        stated=stated(
            "Sec. 4.7",
            rises=("weights", "labels", "weights@retrain", "labels@retrain", "pw"),
            stays=("weights@prune", "labels@prune"),
            about="change by the loss, male",
        ),
        draws=(ablation, *ALONG),
    ),
    # A yellow square in 98 % of the dog class and 2 % of the others; one digit stands in for the
    # dog.
    FilterExperiment(
        name="artefact",
        figure="Fig. 7, artefact",
        question=(
            "Does pruning make a model lean more on an artefact, and does the PW loss prevent it?"
        ),
        dataset="cifar10",
        quick_data="digits:100",
        paper_model="resnet56",
        axes=("class", "artefact", "class+artefact"),
        retrains=True,
        quick_speedups=(2.0, 4.0),
        parts=({"changes": ({"name": "artefact"},)},),
        stated=stated(
            "Sec. 4.6",
            rises=("autobot", "taylor"),
            about=f"change by the loss, pw, {AFFECTED}",
        ),
        draws=(pw.affected, *ALONG),
        reads=after_pruning,
        printed=(
            Printed("Sec. 4.6", "resnet56", "", 0.9957),
            Printed("Sec. 4.6", "resnet56", AFFECTED, 0.9914),
        ),
    ),
    # Balanced; five times as many of the majority group; five times as many of the majority class.
    # Each subset with a model trained on it.
    FilterExperiment(
        name="balance-subsets",
        figure="Fig. 5",
        question=(
            "Is the harm of pruning explained by how many training images a group or class has?"
        ),
        dataset="celeba",
        # The balanced subset has four times as many images as the rarest cell.
        quick_data="avatars:30000",
        paper_model="resnet18",
        retrains=True,
        full_speedups=(8.0, 32.0, 128.0),
        quick_speedups=(8.0, 32.0),
        quick_images=None,
        methods=("autobot", "taylor"),
        parts=tuple(
            {
                "changes": ({"name": "balance", "subset": kind},),
                "title": f"balance-subsets: {kind.replace('-', ' ')}",
            }
            for kind in ("balanced", "more-of-group", "more-of-class")
        ),
        stated=stated("Sec. 4.4.1", rises=("",), about="change of the gap of AUC"),
        draws=(groups_along_speedup,),
        printed=tuple(
            Printed("Sec. 4.4.1", "resnet18", group, value, part)
            for group, values in (
                ("male", (0.9562, 0.9479, 0.9183)),
                ("non-male", (0.9713, 0.9732, 0.9580)),
            )
            for part, value in enumerate(values)
        ),
    ),
    # Blond and other faces, of men and of all others. The paper also has VGG-16.
    FilterExperiment(
        name="celeba",
        figure="Fig. 1",
        question=(
            "Does pruning make the model worse for the group with few examples, and does the PW"
            " loss prevent it?"
        ),
        dataset="celeba",
        quick_data="avatars",
        paper_model="resnet18",
        quick_speedups=(4.0, 16.0, 48.0),
        stated=(
            *stated("Sec. 4.2.1", "change by the loss, pw, autobot", rises=("male", "non-male")),
            *stated("Sec. 4.2.1", "change by the loss, pw, taylor, male", rises=("16x",)),
            *stated(
                "Sec. 4.2.1",
                "change of the gap of AUC",
                rises=("autobot", "taylor", "random"),
                stays=("autobot+pw",),
            ),
            *stated(
                "Sec. 4.2.1",
                "change of the gap of AUC by the loss, pw",
                falls=("autobot", "taylor"),
            ),
        ),
        draws=ALONG,
        printed=(
            Printed("Sec. 4.2.1", "resnet18", "male", 0.9639),
            Printed("Sec. 4.2.1", "resnet18", "non-male", 0.9794),
            Printed("Sec. 4.2.1", "vgg16", "male", 0.9679),
            Printed("Sec. 4.2.1", "vgg16", "non-male", 0.9825),
        ),
    ),
    # The paper also has EfficientNetV2-S; handwritten digits stand in for the images.
    FilterExperiment(
        name="cifar10",
        figure="Fig. 3",
        question="What does the PW loss do to overall AUC where no group is known to be at risk?",
        dataset="cifar10",
        quick_data="digits:100",
        paper_model="resnet56",
        axes=("class",),
        quick_speedups=(2.0, 4.0),
        stated=stated(
            "Sec. 4.2.3", "change by the loss, pw, all images", rises=("autobot", "taylor")
        ),
        draws=ALONG,
        printed=(
            Printed("Sec. 4.2.3", "resnet56", "", 0.9957),
            Printed("Sec. 4.2.3", "efficientnet_v2_s", "", 0.9995),
        ),
    ),
    # Skin lesions, trained on light skin, tested on medium and dark skin; the paper also has
    # EfficientNetV2-M. Avatars by skin tone stand in for them, though they are trained on all
    # tones.
    FilterExperiment(
        name="fitzpatrick17k",
        figure="Fig. 2",
        question=(
            "Does pruning harm skin tones that the model was not trained on, and does the PW loss"
            " help there?"
        ),
        dataset="fitzpatrick17k",
        quick_data="avatars",
        paper_model="resnet34",
        axes=("skin",),
        stated=(
            *stated("Sec. 4.2.2", "change by the loss, pw", rises=("autobot", "taylor, 4x")),
            *stated("Sec. 4.2.2", "change of the gap of AUC", stays=("",)),
        ),
        draws=ALONG,
        printed=(
            Printed("Sec. 4.2.2", "resnet34", "medium", 0.8190),
            Printed("Sec. 4.2.2", "resnet34", "dark", 0.7329),
            Printed("Sec. 4.2.2", "efficientnet_v2_m", "medium", 0.8516),
            Printed("Sec. 4.2.2", "efficientnet_v2_m", "dark", 0.7524),
        ),
    ),
    # The same 200 batches with and without PW.
    FilterExperiment(
        name="loss-share",
        figure="Fig. 4",
        question=(
            "Whose images make up the loss while pruning, and what does the PW loss change about"
            " that?"
        ),
        dataset="celeba",
        quick_data="avatars",
        paper_model="resnet18",
        full_speedups=(16.0,),
        quick_speedups=(16.0,),
        methods=("autobot", "autobot+pw", "taylor", "taylor+pw"),
        parts=({"loss_share": 200},),
        stated=(
            *stated("Sec. 4.3", f"{SHARE}, autobot", rises=("male, blond",)),
            *stated(
                "Sec. 4.3", f"{SHARE}, taylor", rises=("male, not blond",), falls=("male, blond",)
            ),
            *stated("Sec. 4.3", SHARE, rises=("male, all classes",)),
        ),
        draws=(pw.loss_share,),
        reads=changes_of_share,
    ),
    # 80 % of the training images of cat and dog are taken away; two digits stand in for them.
    FilterExperiment(
        name="underrepresentation",
        figure="Fig. 7, underrepresentation",
        question=(
            "Do classes with few training images pay for pruning, and does the PW loss help them?"
        ),
        dataset="cifar10",
        quick_data="digits:100",
        paper_model="resnet56",
        axes=("class",),
        retrains=True,
        quick_speedups=(2.0, 4.0),
        parts=({"changes": ({"name": "underrepresent"},)},),
        stated=(
            *stated(
                "Sec. 4.5", f"change by the loss, pw, {AFFECTED}", rises=("autobot", "taylor, 2x")
            ),
            *stated("Sec. 4.5", f"change of AUC, {AFFECTED} minus all images", falls=("",)),
        ),
        draws=(pw.affected, *ALONG),
        reads=after_pruning,
        printed=(
            Printed("Sec. 4.5", "resnet56", "", 0.9948),
            Printed("Sec. 4.5", "resnet56", AFFECTED, 0.9880),
        ),
    ),
    Squares(),
)
