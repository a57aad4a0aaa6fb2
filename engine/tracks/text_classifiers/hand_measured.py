"""What the full models of an audit answer with heads off that a person chose, and what these
answers are worth."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from engine.audit.session import Executor, Grown, timed
from engine.core.types import Hooks, rng
from engine.report.hand_sets import MOST_TRIED, HandSet, rows_of
from engine.resident.warm import Warm
from engine.store.runs import Run, Store, pack, unpack, where
from engine.tracks.text_classifiers.arms import dense_trials
from engine.tracks.text_classifiers.context import TEST, TextContext, TextShard
from engine.tracks.text_classifiers.measurements.importance import answers_under
from engine.tracks.text_classifiers.run import AUDIT, TextAudit
from engine.tracks.text_classifiers.tables import Measures

APART = 1e-3
"""Largest difference of a probability that the same model may show on other hardware."""


def _bytes_of(context: TextContext) -> int:
    """About what it takes: the model it starts from, and as many with weights of their own as are
    held at a time."""
    return 3 * context.any_model.n_parameters * context.any_model.dtype.itemsize


def measured_heads(
    grown: Grown, store: Store, hooks: Hooks, executor: Executor, warm: Warm | None
) -> tuple[TextAudit, HandSet]:
    """The set on its split's texts, in every seed's full model, with that model's own answers."""
    kept = f"full models of {grown.run.id} {store.root}"
    audit = AUDIT.reopened(grown.plan, store, hooks, executor, warm, kept, _bytes_of)
    context, chosen = audit.context, grown.variants[0]
    units, is_test = chosen.units, grown.split == TEST
    trials = dense_trials(context, audit.request.trials)
    notes = _restored(context, grown.run, trials)
    audit.finish("fine-tune the full model", trials)
    texts, dense, answers = (_on_test if is_test else _tried)(audit, trials, units, grown.split)
    with timed(audit.progress, "statistics", "groups and intervals"):
        given = dense if context.settings.retune else dense[min(dense)]
        measures = Measures(context.texts, texts, grown.axes, given, grown.split)
        rows = rows_of(
            measures.dense().pooled("dense"), measures.variant(answers), chosen.name, answers
        )
        costs = _costs(audit, units, chosen.name) if is_test else pd.DataFrame()
    if is_test:
        notes += _apart(grown.run, dense, texts)
    columns = {
        "retrained": False,
        "cut": json.dumps(list(units)),
        "parameters": context.parameters_after(units),
        "ticket": "",
    }
    return audit, HandSet(texts, dense, answers, rows, columns, costs, notes=tuple(notes))


def _on_test(
    audit: TextAudit, trials: list[TextShard], units: tuple[int, ...], split: str
) -> tuple[Any, Any, Any]:
    """Test texts, and the answers to them by seed, before and with the heads off: kept as those of
    any arm are."""
    context = audit.context
    silenced = [TextShard("silenced", off=units, trial=shard.trial) for shard in trials]
    audit.finish("measure", silenced)
    dense, answers = (
        dict(zip((shard.trial for shard in found), context.exact(found), strict=True))
        for found in (trials, silenced)
    )
    return context.table(split), dense, answers


def _tried(
    audit: TextAudit, trials: list[TextShard], units: tuple[int, ...], split: str
) -> tuple[Any, Any, Any]:
    """The same of some texts of another split; not kept as measurements: it takes seconds."""
    context, dense, answers = audit.context, {}, {}
    texts = tried_texts(context, split)
    first, second = context.pairs(texts)
    with timed(audit.progress, "measure", f"{len(texts)} {split} texts"):
        for shard in trials:
            model, masks = context.model_of(shard), ((), units)
            both = answers_under(model, first, second, masks, context.hooks.check)
            dense[shard.trial], answers[shard.trial] = both.astype(np.float64)
    return texts, dense, answers


def tried_texts(context: TextContext, split: str) -> pd.DataFrame:
    """Texts of a split, at most MOST_TRIED, drawn once and for all."""
    table = context.table(split)
    if len(table) <= MOST_TRIED:
        return table
    places = rng("tried texts", context.settings.first_seed, split).permutation(len(table))[
        :MOST_TRIED
    ]
    return table.iloc[np.sort(places)].reset_index(drop=True)


def _costs(audit: TextAudit, units: tuple[int, ...], name: str) -> pd.DataFrame:
    """What the model costs with these heads cut for real, timed in turn with the full one."""
    shard = TextShard("text_cost", off=units)
    audit.finish("measure cost", [shard])
    return audit.context.fetch([shard])[0].assign(variant=name)


def _restored(context: TextContext, run: Run, trials: list[TextShard]) -> list[str]:
    """Full models whose weights the run kept are taken from there rather than fine-tuned again;
    notes of the others.

    What is kept in the store is then what the audit measured: the same model under the same key.
    """
    missing = [shard for shard in trials if not context.kept(shard)]
    if not context.settings.retune or not missing:
        return []
    same_device = (
        str(run.meta["provenance"]["device"]).split(":")[0]
        == str(context.any_model.device).split(":")[0]
    )
    has = run.has("weights") and same_device
    weights = run.table("weights") if has else pd.DataFrame({"variant": []})
    for shard in missing:
        mine = where(weights, variant=f"dense#{shard.trial}")
        if len(mine):
            context.keeper.put(context.key(shard), _as_tuned(context, run, shard, mine))
    again = sum(not context.kept(shard) for shard in missing)
    said = "The full model of {} was fine-tuned again: the audit kept no weights of it."
    return [said.format(f"{again} of {len(trials)} seeds")] if again else []


def _as_tuned(
    context: TextContext, run: Run, shard: TextShard, weights: pd.DataFrame
) -> pd.DataFrame:
    """The measurement "tuned" of a full model, put together from the run's tables."""
    arrays = {
        f"weights/{name}": value
        for name, value in unpack(weights.drop(columns="variant"))[0].items()
    }
    name = f"dense#{shard.trial}"
    curve = where(run.table("curves"), variant=name)
    if len(curve):
        columns = {"epoch": "step", "loss": "loss", "rate": "rate"}
        arrays |= {f"curve/{key}": curve[column].to_numpy() for key, column in columns.items()}
    answers = _stored(run, name, context.table(TEST)).astype(np.float32)
    plain = {"parameters": context.any_model.n_parameters, "max_logit_difference": 0.0}
    return pack({"probabilities": answers, **arrays}, plain)


def _stored(run: Run, variant: str, texts: pd.DataFrame) -> np.ndarray:
    """What the audit's model answered to the texts, [texts, classes]."""
    rows = where(run.table("predictions"), variant=variant).set_index("text_id")
    return rows.loc[texts["text_id"]].filter(regex="^p_").to_numpy()


def _apart(run: Run, dense: Mapping[int, np.ndarray], texts: pd.DataFrame) -> list[str]:
    """What must be said of full models that answer otherwise than in the audit: changes are against
    them."""
    several, notes = len(dense) > 1, []
    for seed, answers in dense.items():
        was = _stored(run, f"dense#{seed}" if several else "dense", texts)
        others = int((was.argmax(axis=1) != answers.argmax(axis=1)).sum())
        apart = float(np.abs(was - answers).max())
        if apart > APART:
            notes.append(
                f"Seed {seed}: the full model fine-tuned here differs from the audit's, because "
                "machines and versions round differently. Probabilities differ by up to "
                f"{apart:.2g}, the named class for {others} of {len(texts)} test texts. Changes "
                "are measured from the model fine-tuned here."
            )
    return notes
