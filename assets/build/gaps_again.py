"""The gaps of embedded audits of classifiers, computed again from the answers that they hold.

python -m assets.build.gaps_again

Answers of every model to every item are kept in a run, and gaps follow from them. So where only the
statistics of gaps changed, no model has to be trained again. All other numbers are computed again
too and must be those that are stored, to the last digit. What is written lies under its new id.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from engine.audit.tracks import request_from, track_of_run
from engine.classifiers.groups import Arm, GroupMeasure, arm_difference
from engine.classifiers.layout import IMAGES, TEXTS
from engine.classifiers.metrics import OVO
from engine.core.files import folder_whole
from engine.stats.student import benjamini_hochberg
from engine.store.runs import EMBEDDED, Run, Store, write_meta
from engine.store.tables import write_tables
from engine.tracks.fair_training.arms import arms_of
from engine.tracks.fair_training.tables import _lost_otherwise, by_seed
from engine.tracks.fair_training.tradeoff import degradation_gaps, tradeoff_table

KEYS = ["variant", "split", "axis", "metric"]
PAIR = {
    "image_classifiers": ("base", "loss", "speedup"),
    "text_classifiers": ("base", "score", "sparsity"),
    "fair_training": ("method", "sparsity"),
}
"""Columns of `variants` that name an arm in `arm_differences`."""


def main() -> None:
    for run_id in Store(EMBEDDED, read_only=True).ids():
        run = Run(EMBEDDED / "runs" / run_id)
        if run.meta["track"] in PAIR:
            rewrite(run)


def rewrite(run: Run) -> None:
    """The run under its new id, in place of the old one."""
    track, meta = run.meta["track"], run.meta
    plan = track_of_run(run).part("validate")(request_from(meta["request"] | {"track": track}))
    if plan.run_id == run.id:
        return
    tables = dict(again(run, plan.request))
    with folder_whole(EMBEDDED / "runs" / plan.run_id) as folder:
        shutil.copytree(run.path, folder, dirs_exist_ok=True)
        listed = {**meta["tables"], **write_tables(folder, tables)}
        said = {key: value for key, value in meta.items() if key not in ("rests_on", "schema")}
        write_meta(folder, {**said, "id": plan.run_id, "tables": listed}, run.rests_on)
    shutil.rmtree(run.path)
    print(f"{run.id} -> {plan.run_id}: {', '.join(tables)}")


def again(run: Run, request: Any) -> Iterator[tuple[str, pd.DataFrame]]:
    """The tables that hold gaps, with the gaps as they are now."""
    variants, arms = run.table("variants"), measured(run, request)
    results = pd.concat(list(rows_of(variants, arms)), ignore_index=True)
    yield "results", with_gaps(run.table("results"), results, KEYS)
    yield "arm_differences", differences(run, variants, arms)
    if run.has("without_degenerate"):
        parts = [arm.without_degenerate(name) for name, arm in arms.items()]
        found = pd.concat([part.results for part in parts if part is not None])
        yield "without_degenerate", with_gaps(run.table("without_degenerate"), found, KEYS)
    if run.has("tradeoff"):
        points = {arm: by_seed(arms[arm.pooled], arm.n_seeds) for arm in arms_of(request)}
        yield "tradeoff", tradeoff_table(request, list(points), points)


def measured(run: Run, request: Any) -> dict[str, Arm]:
    """Every variant by its id, the dense one first, from the answers that the run holds."""
    is_text = run.has("texts")
    items, key = (
        run.table("texts" if is_text else "images"),
        "text_id" if is_text else "image_id",
    )
    kept = run.table("predictions")
    columns = [name for name in kept if name.startswith("p_")]
    answers = {
        name: part.set_index(key).loc[items[key], columns].to_numpy(np.float64)
        for name, part in kept.groupby("variant")
    }
    variants = run.table("variants")
    seeds = variants[variants["seed"] >= 0].sort_values("seed").groupby("pooled")["variant"]
    trials = {str(name): [answers[one] for one in part] for name, part in seeds}
    measure = GroupMeasure(
        items,
        run.meta["data"]["classes"],
        request.axes,
        trials.pop("dense", None) or answers["dense"],
        items=TEXTS if is_text else IMAGES,
        multi_class=run.meta["request"].get("multi_class", OVO),
    )
    return {
        "dense": measure.dense_arm,
        **{name: measure.variant(mine) for name, mine in trials.items()},
    }


def rows_of(variants: pd.DataFrame, arms: dict[str, Arm]) -> Iterator[pd.DataFrame]:
    """Rows of `results` of every variant and every trial."""
    for name, arm in arms.items():
        yield arm.pooled(name).results
        own = variants[(variants["pooled"] == name) & (variants["seed"] >= 0)]
        if variants.columns.isin(["units"]).any() and name != "dense":
            yield degradation_gaps(arm, name)
            for one in own.itertuples():
                yield degradation_gaps(arm, one.variant, int(one.seed))
        for one in own.itertuples():
            yield arm.trial(int(one.seed), one.variant).results


def with_gaps(old: pd.DataFrame, new: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """The old table with its gaps as in the new one. All else that the new one holds must be
    equal."""
    found = old.merge(new, on=keys, how="left", suffixes=("_old", ""), indicator=True)
    assert len(found) == len(old) and found["_merge"].eq("both").to_numpy()[_gaps(old)].all()
    same = found[~_gaps(found) & (found["_merge"] == "both")]
    for name in new.columns.difference(keys):
        if pd.api.types.is_numeric_dtype(new[name]):
            np.testing.assert_allclose(same[f"{name}_old"], same[name], atol=1e-9, err_msg=name)
    at = np.flatnonzero(_gaps(old))
    table = old.copy()
    for name in new.columns.difference(keys):
        table.loc[table.index[at], name] = found[name].to_numpy()[at]
    return table.astype(old.dtypes)


def _gaps(table: pd.DataFrame) -> np.ndarray:
    return table["metric"].str.endswith("_gap").to_numpy()


def differences(run: Run, variants: pd.DataFrame, arms: dict[str, Arm]) -> pd.DataFrame:
    """The table `arm_differences` with its gaps as they are now, and q over them."""
    old, track = run.table("arm_differences"), run.meta["track"]
    names = {
        tuple(getattr(one, column) for column in PAIR[track]): one.variant
        for one in variants[variants["seed"] < 0].itertuples()
        if getattr(one, "role", "sparsity") == "sparsity"
    }
    own = {
        "image_classifiers": ["base", "loss", "speedup"],
        "text_classifiers": ["base", "score", "other", "sparsity"],
        "fair_training": ["method", "base", "sparsity"],
    }[track]
    parts = []
    for key, _ in old.groupby(own, sort=False):
        said = dict(zip(own, key, strict=True))
        theirs = {
            "image_classifiers": lambda one: {**one, "loss": "plain"},
            "text_classifiers": lambda one: {**one, "score": one["other"]},
            "fair_training": lambda one: {**one, "method": one["base"]},
        }[track](said)
        mine, other = (
            arms[names[tuple(one[column] for column in PAIR[track])]] for one in (said, theirs)
        )
        if track == "fair_training":
            n_seeds = int(old["n_trials"].iat[0])
            table = arm_difference(by_seed(mine, n_seeds), by_seed(other, n_seeds))
            table = pd.concat([table, _lost_otherwise(mine, other, n_seeds)])
        else:
            table = arm_difference(mine, other)
        parts.append(table.assign(**said))
    new = pd.concat(parts, ignore_index=True)[[*own, "axis", "metric", "group", "value", "low", "high", "p"]]
    table = with_gaps(old, new, [*own, "axis", "metric", "group"])
    if "q" in table:
        table["q"] = table.groupby("metric")["p"].transform(benjamini_hochberg)
    return table


if __name__ == "__main__":
    main()
