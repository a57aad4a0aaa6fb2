"""What a reader must know before reading any chart of a tickets run."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from engine.audit.text_request import TextPlan
from engine.metrics.text_bench import TEST, TRAIN, TextBench
from engine.metrics.tickets import MIN_SEEDS


def truncated(bench: TextBench) -> dict[str, int]:
    """Texts per split that are longer than the model reads, and were cut short."""
    model, found = bench.any_model, {}
    for split in (TRAIN, TEST):
        texts, second = bench.pairs(bench.table(split))
        found[split] = int((model.lengths(texts, second) > model.max_length).sum())
    return found


def text_warnings(plan: TextPlan, bench: TextBench, tables: dict[str, pd.DataFrame], notes: Sequence[str]) -> list[str]:
    """Sentences, most general first."""
    texts = plan.texts
    found = [texts.stand_in] if texts.stand_in else []
    found += [*texts.notes, *bench.any_model.notes, *_full(plan), *_lengths(plan, bench), *notes]
    found += [*_groups(tables["groups"]), *_trials(tables["variants"])]
    if plan.request.trials < MIN_SEEDS:
        found.append(f"Only {plan.request.trials} seed(s): nothing is called a ticket below {MIN_SEEDS}.")
    return list(dict.fromkeys(found))


def _full(plan: TextPlan) -> list[str]:
    """Where the full model comes from, and what that means for the comparison."""
    if plan.retune:
        recipe = plan.request.recipe
        what = f"{recipe.epochs} epochs at {recipe.rate:g}, batches of {recipe.batch}"
        return [f"The full model of every seed was fine-tuned by this audit ({what})."]
    found = ["The full model is one fixed model, so seeds vary the subnetworks only."]
    if not plan.model.classes:
        order = ", ".join(f"{place} = {name}" for place, name in enumerate(plan.texts.classes))
        found.append(f"The model does not name its outputs; they are taken as {order}.")
    return found


def _lengths(plan: TextPlan, bench: TextBench) -> list[str]:
    return [
        f"{n} {split} texts are longer than {plan.max_length} tokens; only that much of them is read."
        for split, n in truncated(bench).items() if n
    ]  # fmt: skip


def _groups(groups: pd.DataFrame) -> list[str]:
    """Groups that get no verdict, by axis."""
    dense = groups[(groups["variant"] == "dense") & (groups["metric"] == "auc") & (groups["verdict"] != "")]
    verdicts = dense["verdict"].str.replace("images", "texts")
    named = dense.assign(said=[f"{row.group} ({said}, n = {row.n:.0f})" for row, said in
                               zip(dense.itertuples(), verdicts, strict=True)])  # fmt: skip
    return [f"{axis}: no verdict on {', '.join(rows['said'])}." for axis, rows in named.groupby("axis")]


def _trials(variants: pd.DataFrame) -> list[str]:
    """Degenerate models."""
    trials = variants[variants["seed"] >= 0]
    n = int(trials["degenerate"].sum())
    return [f"{n} of {len(trials)} models predict one class only; they are marked."] if n else []
