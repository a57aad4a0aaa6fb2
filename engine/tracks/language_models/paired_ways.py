"""Two ways to make a model smaller, prompt by prompt: the difference of their biases, with its
interval and its null.

Every way writes to the same prompts under the same noise, so what the two share falls out of the
difference. Null: of every prompt a coin says which of the two ways wrote which texts, as if both
wrote alike.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pandas as pd

from engine.core.errors import PruneAuditError
from engine.core.seeds import rng
from engine.report.charts import lookup
from engine.stats.fdr import benjamini_hochberg
from engine.stats.student import MISSED, smallest_effect
from engine.store.runs import Run
from engine.tracks.language_models.benchmark_tables import tail
from engine.tracks.language_models.bias import combine, evaluate
from engine.tracks.language_models.bias_intervals import BiasErrors, with_toxicity

N_NULL = 999
COLUMNS = [
    "variant",
    "delta",
    "delta_low",
    "delta_high",
    "null_low",
    "null_high",
    "null_p",
    "null_q",
    "detectable",
]


@lookup.remembered("generations", "prompts")
def differences(
    run: Run, reference: str, others: tuple[str, ...], axis: str, reading: str
) -> pd.DataFrame:
    """Bias of every other variant minus that of the reference, on test prompts: one row each,
    `COLUMNS`.

    delta with its interval; null_low, null_high, null_p: what exchanging the two gives; null_q:
    Benjamini-Hochberg over the rows; detectable: the difference that the interval would have found
    in four of five repeats, at .05 over the number of rows. Variants whose texts were not kept, or
    are of other prompts, have no row.
    """
    verdicts = _verdicts(run, axis, (reference, *others))
    rows: list[dict[str, object]] = []
    if reference in verdicts:
        errors = BiasErrors(verdicts[reference])
        for name in others:
            with suppress(PruneAuditError):  # other prompts or seeds: nothing to pair
                rows += (
                    [{"variant": name, **_row(errors, verdicts[name], reading)}]
                    if name in verdicts
                    else []
                )
    table = pd.DataFrame(
        rows, columns=[name for name in (*COLUMNS, "error", "freedom") if name != "null_q"]
    )
    found = table.assign(null_q=benjamini_hochberg(table["null_p"].to_numpy(dtype=float)))
    if len(table):
        error, freedom = (found[name].to_numpy(dtype=float) for name in ("error", "freedom"))
        found["detectable"] = smallest_effect(error, freedom, MISSED / len(table))
    return found[COLUMNS]


def _verdicts(run: Run, axis: str, names: tuple[str, ...]) -> dict[str, pd.DataFrame]:
    """The judged texts of these variants with the columns of their prompts, by variant."""
    where = {"split": [lookup.REPORTED], "axis": [axis]}
    drawn = run.part(
        "generations", {**where, "variant": names}, ["prompt_id", "toxicity", "variant"]
    )
    prompts = run.part("prompts", where, ["prompt_id", "subgroup", "template", "descriptor"])
    both = drawn.merge(prompts, on="prompt_id", validate="many_to_one")
    return {str(name): part.reset_index(drop=True) for name, part in both.groupby("variant")}


def _row(errors: BiasErrors, other: pd.DataFrame, reading: str) -> dict[str, float]:
    theirs = errors.toxicities(other)
    found = errors.changes(theirs[:, None], reading)
    value = float(found.value[0])
    null = _exchanged(errors, errors.dense, theirs, reading)
    low, high = np.percentile(null, [2.5, 97.5])
    ends = {
        name: float(getattr(found, part)[0])
        for name, part in (
            ("delta_low", "low"),
            ("delta_high", "high"),
            ("error", "error"),
            ("freedom", "freedom"),
        )
    }
    return {
        "delta": value,
        **ends,
        "null_low": float(low),
        "null_high": float(high),
        "null_p": tail(null, value),
    }


def _exchanged(
    errors: BiasErrors, mine: np.ndarray, theirs: np.ndarray, reading: str
) -> np.ndarray:
    """Difference of the biases where coins exchange the two ways' mean toxicities [prompts] each:
    [N_NULL]."""
    moved = rng("paired ways", len(mine)).integers(0, 2, (N_NULL, len(mine))) * (theirs - mine)
    return _biases(errors, theirs - moved, reading) - _biases(errors, mine + moved, reading)


def _biases(errors: BiasErrors, values: np.ndarray, reading: str) -> np.ndarray:
    """Bias of each row of values [draws, prompts]: [draws]."""
    layout = errors.layout
    if reading == "paired_prompts":
        return np.array([evaluate(with_toxicity(layout, row), reading) for row in values])
    weights = np.eye(len(layout.subgroups))[layout.subgroup] * errors.rows[:, None]
    return combine(values @ weights, weights.sum(axis=0), reading)
