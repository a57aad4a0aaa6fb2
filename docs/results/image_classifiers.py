"""Change of ROC-AUC of every arm of the embedded audit of filters, and what the PW loss adds."""

from __future__ import annotations

import pandas as pd

from docs.results._cells import change, level, markdown, only
from engine.core.words import group_name, method_name
from engine.store.runs import Run


def table(run: Run) -> str:
    variants, groups = run.table("variants"), run.table("groups")
    axis = run.meta["request"]["axes"][0]
    mine = groups[
        (groups["axis"] == axis) & (groups["metric"] == "auc") & (groups["split"] == "test")
    ]
    chosen = variants[variants["chosen"]]
    speedups = sorted(chosen.loc[chosen["method"] != "dense", "speedup"].unique())
    least = min(
        mine["group"], key=lambda name: only(mine, variant="dense", group=name)["n_positive"]
    )
    other = next(name for name in mine["group"] if name != least)
    columns = [*((least, speedup) for speedup in speedups), (other, speedups[-1])]
    rows = [
        ["dense (AUC)", *(level(only(mine, variant="dense", group=name)) for name, _ in columns)]
    ]
    for method in dict.fromkeys(chosen.loc[chosen["method"] != "dense", "method"]):
        of = {
            row["speedup"]: row["variant"]
            for row in chosen[chosen["method"] == method].to_dict("records")
        }
        rows.append(
            [
                method_name(method),
                *(change(only(mine, variant=of[at], group=name)) for name, at in columns),
            ]
        )
    head = [
        "change of ROC-AUC [95 %]",
        *(f"{group_name(name)}, {speedup:g} ×" for name, speedup in columns),
    ]
    return "\n\n".join(
        [markdown(head, rows), _pw(run, axis, least, speedups), _targets(variants, speedups)]
    )


def _targets(variants: pd.DataFrame, speedups: list[float]) -> str:
    """How many trials left the FLOPs asked for within 0.1 %, and the worst miss."""
    trials = variants[variants["seed"] >= 0]
    off = trials["speedup"] / trials["achieved"] - 1
    rows = []
    for method in dict.fromkeys(trials["method"]):
        here = [trials[(trials["method"] == method) & (trials["speedup"] == at)] for at in speedups]
        rows.append(
            [
                method_name(method),
                *(
                    f"{one['met'].sum()} of {len(one)},"
                    f" {100 * max(off[one.index], key=abs):+.1f} %".replace("-", "−")
                    for one in here
                ),
            ]
        )
    return markdown(
        ["trials within 0.1 % of the FLOPs asked, worst miss", *(f"{at:g} ×" for at in speedups)],
        rows,
    )


def _pw(run: Run, axis: str, group: str, speedups: list[float]) -> str:
    """PW minus plain, for the group with fewest positives."""
    differences: pd.DataFrame = run.table("arm_differences")
    mine = differences[
        (differences["axis"] == axis)
        & (differences["metric"] == "auc")
        & (differences["group"] == group)
    ]
    rows = [
        [
            method_name(name),
            *(change(only(mine, base=name, loss="pw", speedup=at), "value") for at in speedups),
        ]
        for name in dict.fromkeys(mine["base"])
    ]
    return markdown(
        [f"PW minus plain, {group_name(group)}", *(f"{at:g} ×" for at in speedups)], rows
    )
