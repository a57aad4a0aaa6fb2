"""Fig. 4: how much of the loss of pruning each subgroup and class makes up, with the PW loss and
without."""

from __future__ import annotations

from collections.abc import Iterator

from engine.audit.experiments import Finding
from engine.report.contents import default_choice
from engine.store.runs import Run
from engine.tracks.image_classifiers.panels.loss_share import shares


def changes_of_share(run: Run) -> Iterator[Finding]:
    """Mean change of the share over all batches and trials; between its smallest and largest in a
    trial."""
    table = shares(run, default_choice(run))
    if table.empty:
        return
    by_trial = table.groupby(["base", "trial", "group", "label"])["change"].mean()
    for (base, group, label), values in by_trial.groupby(["base", "group", "label"]):
        name = run.meta["data"]["classes"][int(label)]
        said = f"change of the share of the loss, {base}, {group}, {name} (range over trials)"
        batches = int(table["step"].max()) + 1
        yield Finding(
            said,
            ours=float(values.mean()),
            low=float(values.min()),
            high=float(values.max()),
            n=batches,
            seeds=len(values),
        )
