"""Which test images or texts changed class when a classifier was cut: per subgroup, and one by one
for a gallery."""

from __future__ import annotations

import numpy as np
import pandas as pd

from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.lookup import CLASS_AXIS, DENSE, trials_of
from engine.report.charts.panel import Choice
from engine.report.tracks import Flips, track_of
from engine.store.runs import Run

GALLERY_ORDER = ("wrong", "other", "right")
"""What happened to an image or text whose predicted class changed. The second, wrong either way,
needs three classes."""


def key_of(run: Run) -> str:
    """The column that names what was measured on, an image or a text."""
    return f"{track_of(run).nouns.item}_id"


def keeps_answers(run: Run) -> bool:
    """Whether the run kept what its models answered to each image or text."""
    return run.has("predictions") and run.has(track_of(run).nouns.items)


def changes(run: Run, variant: str) -> pd.DataFrame:
    """One row per test image or text: its columns, true class, class before and after (indices) and
    kind ("" where the same). Also how sure each model was of the class it chose."""
    return _changes(run, variant, _answers(run, variant))


def _answers(run: Run, *variants: str) -> pd.DataFrame:
    """Of these models, and of those that they were cut from."""
    return run.part("predictions", {"variant": [DENSE, *map(_uncut, variants), *variants]})


def _changes(run: Run, variant: str, table: pd.DataFrame) -> pd.DataFrame:
    items, key, own = lookup.frame(run, track_of(run).nouns.items), key_of(run), _uncut(variant)
    dense = own if (table["variant"] == own).any() else DENSE
    columns = [name for name in table.columns if name.startswith("p_")]
    found = items.copy(deep=False)
    for side, name in (("before", dense), ("after", variant)):
        mine = table[table["variant"] == name].set_index(key)[columns].reindex(items[key])
        answers = mine.to_numpy(dtype=float)
        known = np.isfinite(answers).all(axis=1)
        found[side] = np.where(known, np.nan_to_num(answers).argmax(axis=1), -1)
        found[f"sure_{side}"] = np.nan_to_num(answers).max(axis=1)
    found = found[(found["before"] >= 0) & (found["after"] >= 0)]
    truth, before, after = (found[name] for name in ("label", "before", "after"))
    kind = np.select(
        [before == after, before == truth, after == truth], ["", "wrong", "right"], default="other"
    )
    return found.assign(kind=kind).reset_index(drop=True)


def _uncut(variant: str) -> str:
    """The dense model that a seed's variant was cut from, where each seed trained its own."""
    return f"{DENSE}#{variant.rpartition('#')[2]}"


def groups_of_images(run: Run, table: pd.DataFrame, axis: str) -> pd.Series:
    """The subgroup of every image or text on an axis: a column, the class itself, or parts joined
    by "+".

    Read from the run by id: what `changes` adds to the table can have the name of a user's column.
    """
    classes, key = run.data["classes"], key_of(run)
    items = lookup.frame(run, track_of(run).nouns.items).set_index(key)
    parts, table = [], items.loc[table[key]].set_index(table.index)
    for part in axis.split("+"):
        if part in table:
            parts.append(table[part].astype(str))
        elif part == CLASS_AXIS:
            parts.append(table["label"].map(lambda label: classes[int(label)]))
        else:
            return pd.Series("", index=table.index)
    joined = parts[0] if len(parts) == 1 else parts[0].str.cat(parts[1:], sep=" + ")
    return table[axis].astype(str) if axis in table else joined


def flips(run: Run, choice: Choice, trial: int | None) -> Flips | None:
    """Answers of one trial or seed, or of all behind a choice, that became wrong or right."""
    trials = trials_of(run, choice)
    trials = trials if trial is None else trials[trials["seed"] == trial]
    if trials.empty or not keeps_answers(run):
        return None
    names = trials["variant"].tolist()
    answers = _answers(run, *names)
    found = pd.concat([_changes(run, name, answers) for name in names], ignore_index=True)
    key, classes = key_of(run), run.data["classes"]
    table = pd.DataFrame(
        {
            "group": groups_of_images(run, found, choice.measured),
            "before": found["before"] != found["label"],
            "after": found["after"] != found["label"],
            **({"other": found["kind"] == "other"} if len(classes) > 2 else {}),
            "unit": found[key],
            "word": found[key],
            "sure": found["sure_before"],
        }
    )
    nouns, known = track_of(run).nouns, lookup.frame(run, "variants")["variant"]
    return Flips(
        table,
        "answers" if len(names) > 1 else nouns.items,
        "became wrong",
        "became right",
        nouns.items,
        "trained again" if known.isin(map(_uncut, names[1:])).any() else "",
        f"{phrasing.count(len(names), nouns.repeat)}, answers to the same {nouns.items}.",
    )


def gallery(
    run: Run, choice: Choice, trial: int = 0, group: str = "", kind: str = ""
) -> pd.DataFrame:
    """Changed images or texts of one subgroup and kind ("" for all): those with a picture first,
    newly wrong before newly right, the surest answers first.

    Columns: those of the images or texts, group, before, after, sure_before, sure_after, kind, png
    (None where there is none).
    """
    trials = trials_of(run, choice)
    mine = trials[trials["seed"] == trial]
    if mine.empty:
        return pd.DataFrame(columns=[key_of(run), "kind", "png"])
    table = changes(run, mine["variant"].iat[0])
    table = table.assign(group=groups_of_images(run, table, choice.measured))
    table = table[(table["kind"] != "") & ((table["kind"] == kind) | (kind == ""))]
    table = table[(table["group"] == group) | (group == "")]
    pictures = (
        lookup.frame(run, "thumbs").set_index("image_id")["png"]
        if run.has("thumbs")
        else pd.Series(dtype=object)
    )
    table = table.assign(png=table[key_of(run)].map(pictures))
    order = table.assign(
        none=table["png"].isna(), place=table["kind"].map(list(GALLERY_ORDER).index)
    )
    order = order.sort_values(
        ["none", "place", "sure_after", key_of(run)], ascending=[True, True, False, True]
    )
    return order.drop(columns=["none", "place"]).reset_index(drop=True)
