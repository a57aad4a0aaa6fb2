"""How much work an audit of a text classifier will be, before it is known which heads it will
cut."""

from __future__ import annotations

from collections.abc import Sequence

from engine.core.ids import exact_count
from engine.tracks.text_classifiers.arms import TextArm
from engine.tracks.text_classifiers.context import TextContext, TextShard
from engine.tracks.text_classifiers.shards import importance_shards, null_shards, truth_shards


def forecast(context: TextContext, arms: Sequence[TextArm]) -> float:
    """The work in the unit of Measurement.size; an upper end: masks that two arms happen to share
    count for each."""
    shards: dict[tuple[object, ...], TextShard] = {}
    for arm in arms:
        for trial in range(arm.n_trials):
            dense = context.dense_shard(trial)
            shards["dense", dense.trial] = dense
            for count, shard in _rounds(context, arm, trial):
                mine = (
                    (arm.procedure.scored, arm.procedure.trained, arm.score, count)
                    if count
                    else (arm.score,)
                )
                shards[shard.kind, shard.stage, trial, *mine] = shard
    for shard in truth_shards(context, max(arm.n_trials for arm in arms)):
        shards["leave_one_out", shard.trial] = shard
    for (sparsity, trial), shard in null_shards(context, arms).items():
        shards["random_masks", sparsity, trial] = shard
    for shard in importance_shards(context, arms, max(arm.n_trials for arm in arms)):
        shards["importance", shard.stage, shard.trial, shard.score] = shard
    known = context.effort([TextShard("text_cost")]) * (
        1 + sum(len(arm.sparsities) for arm in arms)
    )
    known += context.effort([TextShard("lens")]) * (1 + (context.start is not None))
    return known + sum(context.effort([shard]) for shard in shards.values())


def _rounds(context: TextContext, arm: TextArm, trial: int) -> list[tuple[int, TextShard]]:
    """Heads gone and a stand-in for each measurement: sizes depend on how many heads are gone, not
    on which."""
    procedure, total = arm.procedure, context.n_units
    asked = sorted(exact_count(share, total) for share in arm.sparsities)
    found, before = [], 0
    for count in procedure.counts(total, asked, arm.step):
        scored = 0 if procedure.scored == "first" else before
        found.append((scored, TextShard("importance", score=arm.score, trial=trial)))
        trains = procedure.trained == "every" or (procedure.trained == "asked" and count in asked)
        if trains:
            found.append((count, TextShard("tuned", tuple(range(count)), trial=trial)))
        elif not procedure.retrains:
            found.append((count, TextShard("silenced", off=tuple(range(count)), trial=trial)))
        before = count
    return found
