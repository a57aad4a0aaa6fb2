"""Fig. 6: images with and without the yellow square, and how often it goes with which class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.stats import binomtest

from engine.audit.experiments import Experiment, ExperimentAsk, Finding, differences
from engine.audit.request import Request
from engine.classifiers.images.request import images_of
from engine.data.images.changes import COLUMN, WITH, WITHOUT
from engine.data.images.load import ImageSet
from engine.report.charts.panel import Choice, Panel, blank
from engine.store.runs import Run
from engine.tracks.image_classifiers.request import ImageRequest

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
        own = (table["label"] == _class(images)).to_numpy()
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
    data = ask.data or "digits"
    model = ask.model or "resnet56"
    return images_of(
        ImageRequest(
            model, data, ("class", COLUMN), changes=({"name": "artefact"},), max_images=ask.most
        )
    )


def _class(images: ImageSet) -> int:
    """The class that goes with the square: the sixth, as dog in CIFAR-10."""
    return min(5, len(images.classes) - 1)
