"""A judge's card on written cases: what it says of texts about groups that people have called
hateful or not.

HateCheck (Röttger et al. 2021) is such a set; any CSV with its columns serves. A judge that calls
many harmless cases about one group harmful finds bias where there is none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from engine.core.errors import Fault, RequestError
from engine.core.seeds import rng
from engine.data.tables import csv_table, need_columns
from engine.models.judge import Judge
from engine.tracks.language_models.bias_bootstrap import mean_interval

NEEDED = ("test_case", "label_gold", "target_ident")
LABELS = ("hateful", "non-hateful")
CLUSTER = "templ_id"
"""Cases made from one template are redrawn together, where the file names templates."""
OVER = 0.5
DRAWS = 999
"""Exchanges of groups between cases."""
OF_CHANCE = 0.05
NOBODY = "no group named"


def read_cases(path: Path) -> pd.DataFrame:
    """Columns text, label, group, cluster; notes in its `attrs`. RequestError with the rows at
    fault."""
    csv = csv_table(path)
    table = csv.cells
    need_columns(path, table, NEEDED)
    faults = []
    for name, wrong in (
        ("test_case", table["test_case"] == ""),
        ("label_gold", ~table["label_gold"].isin(LABELS)),
    ):
        if rows := (np.flatnonzero(wrong) + 2).tolist():
            what = f"{name} in {len(rows)} rows is empty or not known, first in line {rows[0]}."
            faults.append(
                Fault(
                    path.name, what, f"label_gold is {' or '.join(LABELS)}; every case has a text."
                )
            )
    if faults:
        raise RequestError(faults)
    own = np.arange(len(table)).astype(str)
    cluster = np.where(table[CLUSTER] == "", own, table[CLUSTER]) if CLUSTER in table else own
    group, notes = csv.spelled("target_ident")
    found = {
        "text": table["test_case"],
        "label": table["label_gold"],
        "group": group.replace("", NOBODY),
    }
    cases = pd.DataFrame(found).assign(cluster=cluster)
    cases.attrs["notes"] = (*csv.notes, *notes)
    return cases


def card_of(judge: Judge, cases: pd.DataFrame) -> pd.DataFrame:
    """One row per label and group: n, mean verdict and share above one half, each with its 95 %
    interval."""
    judged = cases.assign(verdict=judge.score(cases["text"].tolist()))
    judged = judged.assign(over=(judged["verdict"] > OVER).astype(float))
    rows: list[dict[str, Any]] = []
    for (label, group), part in judged.groupby(["label", "group"], sort=True):
        row: dict[str, Any] = {"label": label, "group": group, "n": len(part)}
        for name in ("verdict", "over"):
            found = mean_interval(part[name], part["cluster"], span=(0.0, 1.0))
            row |= {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}
        rows.append(row)
    card = pd.DataFrame(rows)
    card.attrs["by_chance"] = _by_chance(
        judged[(judged["label"] == LABELS[1]) & (judged["group"] != NOBODY)]
    )
    return card


def _by_chance(mild: pd.DataFrame) -> float:
    """How often groups exchanged between cases, inside a template where templates name several
    groups, are as far apart in the share called harmful, most from least: p, corrected for having
    looked at all groups. NaN of fewer than two.
    """
    group, names = pd.factorize(mild["group"], sort=True)
    if len(names) < 2:
        return float("nan")
    cluster, over = pd.factorize(mild["cluster"])[0], mild["over"].to_numpy()
    if mild.groupby("cluster")["group"].nunique().max() < 2:
        cluster = np.zeros_like(cluster)
    count, generator = np.bincount(group), rng("cases", len(mild))
    order = np.argsort(cluster, kind="stable")

    def apart(values: np.ndarray) -> float:
        return float(np.ptp(np.bincount(group, values) / count))

    own, reached = apart(over), 0
    for _ in range(DRAWS):
        moved = np.empty_like(over)
        moved[order] = over[np.argsort(cluster + generator.random(len(over)), kind="stable")]
        reached += apart(moved) >= own - 1e-9
    return (1 + reached) / (1 + DRAWS)


def said_of(card: pd.DataFrame) -> str:
    """Which group's harmless cases are called harmful most and least often, and how often chance
    parts any two groups as far."""
    mild = card[(card["label"] == LABELS[1]) & (card["group"] != NOBODY)]
    if len(mild) < 2:
        return "Fewer than two groups have harmless cases: nothing can be compared."
    low, high = mild.loc[mild["over"].idxmin()], mild.loc[mild["over"].idxmax()]
    ends = ", ".join(f"{row['over']:.0%} of {row['n']} about {row['group']}" for row in (high, low))
    p = card.attrs["by_chance"]
    verdict = "more than chance" if p <= OF_CHANCE else "not told apart from chance"
    told = (
        f"the most and the least of {len(mild)} groups are as far apart in {p:.3f} of exchanges of"
        " groups"
    )
    return f"Harmless cases called harmful: {ends}; {told}: {verdict}."
