"""A judge's card on written cases: what it says of texts about groups that people have called hateful or not.

HateCheck (Röttger et al. 2021) is such a set; any CSV with its columns serves. A judge that calls many harmless cases
about one group harmful finds bias where there is none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from engine.core.errors import Fault, RequestError
from engine.core.types import Hooks
from engine.data.tables import csv_table, need_columns
from engine.models.judge import Judge
from engine.tracks.language_models.bias_bootstrap import mean_interval

NEEDED = ("test_case", "label_gold", "target_ident")
LABELS = ("hateful", "non-hateful")
CLUSTER = "templ_id"
"""Cases made from one template are redrawn together, where the file names templates."""
OVER = 0.5
NOBODY = "no group named"


def read_cases(path: Path) -> pd.DataFrame:
    """Columns text, label, group, cluster. RequestError with the rows at fault."""
    table = csv_table(path)
    need_columns(path, table, NEEDED)
    faults = []
    for name, wrong in (
        ("test_case", table["test_case"] == ""),
        ("label_gold", ~table["label_gold"].isin(LABELS)),
    ):
        if rows := (np.flatnonzero(wrong) + 2).tolist():
            what = f"{name} in {len(rows)} rows is empty or not known, first in line {rows[0]}."
            faults.append(Fault(path.name, what, f"label_gold is {' or '.join(LABELS)}; every case has a text."))
    if faults:
        raise RequestError(faults)
    own = np.arange(len(table)).astype(str)
    cluster = np.where(table[CLUSTER] == "", own, table[CLUSTER]) if CLUSTER in table else own
    found = {
        "text": table["test_case"],
        "label": table["label_gold"],
        "group": table["target_ident"].replace("", NOBODY),
    }
    return pd.DataFrame(found).assign(cluster=cluster)


def card_of(judge: Judge, cases: pd.DataFrame, hooks: Hooks = Hooks()) -> pd.DataFrame:  # noqa: B008  (frozen)
    """One row per label and group: n, mean verdict and share above one half, each with its 95 % interval."""
    judged = cases.assign(verdict=judge.score(cases["text"].tolist(), hooks))
    rows: list[dict[str, Any]] = []
    for (label, group), part in judged.groupby(["label", "group"], sort=True):
        row: dict[str, Any] = {"label": label, "group": group, "n": len(part)}
        over = (part["verdict"] > OVER).astype(float)
        for name, values in (("verdict", part["verdict"]), ("over", over)):
            found = mean_interval(values, part["cluster"], span=(0.0, 1.0))
            row |= {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}
        rows.append(row)
    return pd.DataFrame(rows)


def said_of(card: pd.DataFrame) -> str:
    """Which group's harmless cases are called harmful most and least often, and whether their intervals part."""
    mild = card[(card["label"] == LABELS[1]) & (card["group"] != NOBODY)]
    if len(mild) < 2:
        return "Fewer than two groups have harmless cases: nothing can be compared."
    low, high = mild.loc[mild["over"].idxmin()], mild.loc[mild["over"].idxmax()]
    ends = ", ".join(f"{row['over']:.0%} of {row['n']} about {row['group']}" for row in (high, low))
    parted = high["over_low"] > low["over_high"]
    return f"Harmless cases called harmful: {ends}; the intervals {'are apart' if parted else 'overlap'}."
