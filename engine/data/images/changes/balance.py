"""Training subsets with chosen balance of class and group (Meyer and Wong 2023, Sec. 4.4.1 and Fig.
5)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from engine.core.errors import Fault, RequestError, unknown
from engine.core.types import Setting
from engine.data.images.changes.base import ImageChange, draws
from engine.data.images.load import CLASS, ImageSet

SUBSETS = ("balanced", "more-of-group", "more-of-class")
TIMES = 5


class Balance(ImageChange):
    """As many training images of every class x group as the smallest has; the other two subsets add
    to that one.

    "more-of-group": five times as many of the largest group, in every class. "more-of-class": five
    times as many of the largest class, in every group. Validation and test stay whole.
    """

    name = "balance"
    settings = (
        Setting(
            "subset",
            "choice",
            "balanced",
            "Which balance the training images get.",
            choices=SUBSETS,
        ),
        Setting("group", "choice", "", "Group column to balance; empty: the first."),
        Setting("times", "integer", TIMES, "How many times as many of the larger side.", 2, 100),
    )
    of_groups = ("group",)

    def change(
        self, images: ImageSet, seed: int, *, subset: str, group: str, times: int
    ) -> ImageSet:
        """Nested: with one seed every image of "balanced" is in the others. Raises RequestError for
        an empty cell."""
        column = self._column(images, group)
        train = images.table[images.table["split"] == "train"]
        counts = train.groupby(["label", column]).size().unstack(fill_value=0)
        counts = counts.reindex(range(len(images.classes)), fill_value=0)
        wanted = _wanted(images, counts, column, subset, times)
        order = pd.Series(draws(images, "balance", seed))
        keep = [np.flatnonzero(images.table["split"] != "train")]
        for (label, value), rows in train.groupby(["label", column]).groups.items():
            keep.append(
                order[rows].sort_values(kind="stable").index[: wanted.loc[label, value]].to_numpy()
            )
        rows = np.sort(np.concatenate(keep))
        n = int(wanted.to_numpy().sum())
        note = f"Training images by class and {column}: subset “{subset}”, {n:,} of {len(train):,}."
        if subset != "balanced" and wanted.to_numpy().max() < times * wanted.to_numpy().min():
            note += (
                f" There are too few for {times} times as many: all there are were taken, equally"
                " in each cell."
            )
        by = {"change": self.name, "subset": subset, "group": column, "times": times, "seed": seed}
        return images.keeping(rows, by, note)

    def _column(self, images: ImageSet, group: str) -> str:
        columns = [name for name in images.groups if name != CLASS]
        if not columns:
            fix = "Name a group column when the images are loaded."
            raise RequestError(
                Fault(
                    f"change {self.name}", "The images have no group column besides the class.", fix
                )
            )
        if group and group not in columns:
            raise RequestError(unknown(f"change {self.name}, group", group, columns))
        return group or columns[0]


def _wanted(
    images: ImageSet, counts: pd.DataFrame, column: str, subset: str, times: int
) -> pd.DataFrame:
    """Images to take, one row per label and one column per group, int. Raises RequestError where a
    cell has none.

    counts: images there are, in the same rows and columns.
    """
    empty = [
        f"{images.classes[label]}, {group}"
        for label, group in counts.stack().index
        if not counts.at[label, group]
    ]
    if empty or counts.shape[1] < 2:
        what = (
            f"No training image is {'; '.join(empty)}."
            if empty
            else f"{column} has one value only."
        )
        raise RequestError(
            Fault(f"change {Balance.name}", what, "Choose a column whose groups have every class.")
        )
    wanted = pd.DataFrame(int(counts.to_numpy().min()), index=counts.index, columns=counts.columns)
    if subset == "more-of-group":
        large = counts.sum().idxmax()
        wanted[large] = min(times * int(wanted.to_numpy().min()), int(counts[large].min()))
    if subset == "more-of-class":
        large = counts.sum(axis=1).idxmax()
        wanted.loc[large] = min(times * int(wanted.to_numpy().min()), int(counts.loc[large].min()))
    return wanted
