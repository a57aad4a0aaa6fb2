"""Do the numbers of a text run follow from its stored answers? Metrics, means and tickets are
computed again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import accuracy_score, matthews_corrcoef

from engine.classifiers.verification import again_from_answers, again_from_tried, pooled_are_means
from engine.store.runs import Run
from engine.tracks.text_classifiers.winning_tickets import MIN_SEEDS, ROUNDING

TOLERANCE = 1e-6


def recomputed(run: Run) -> list[dict[str, Any]]:
    """One check per metric, the means, and the winning tickets by their definition."""
    texts = run.table("texts").set_index("text_id")
    stored = run.table("predictions")
    trials = (
        stored[stored["variant"] != "dense"] if (stored["variant"] == "dense#0").any() else stored
    )
    checks = again_from_answers(run.table("results"), trials, texts, "text_id")
    return [
        *checks,
        *again_from_tried(run, "text_id"),
        pooled_are_means(run),
        _tickets(run, stored, texts),
    ]


def _tickets(run: Run, stored: pd.DataFrame, texts: pd.DataFrame) -> dict[str, Any]:
    """full mean <= subnetwork mean + its standard deviation, from the answers of every seed."""
    levels = run.table("ticket_levels")
    levels, variants = levels[levels["axis"] == ""], run.table("variants")
    values = {
        str(name): _value(run, part, texts) for name, part in stored.groupby("variant", sort=False)
    }
    several = [value for name, value in values.items() if name.startswith("dense#")]
    full = float(np.mean(several or [values["dense"]]))
    wrong = 0
    for row in levels.itertuples():
        mine = variants[(variants["method"] == row.method) & (variants["sparsity"] == row.sparsity)]
        mine = mine[mine["seed"] >= 0]
        seeds = [values[name] for name in mine["variant"]]
        spread = np.std(seeds, ddof=1) if len(seeds) > 1 else np.nan
        again = _models(run, mine) >= MIN_SEEDS and full <= np.mean(seeds) + spread + ROUNDING
        wrong += int(
            bool(again) != bool(row.matching) or abs(np.mean(seeds) - row.mean) > TOLERANCE
        )
    what = f"{len(levels)} ticket verdicts follow from the stored answers ({wrong} do not)"
    return {"what": what, "ok": wrong == 0}


def _models(run: Run, seeds: pd.DataFrame) -> int:
    """How many different models the seeds came to: a fixed full model with the same heads masked is
    one."""
    tuned = seeds["retrained"] | run.meta["model"]["retuned"]
    return len(set(zip(seeds["cut"], seeds["seed"].where(tuned, -1), strict=True)))


def _value(run: Run, part: pd.DataFrame, texts: pd.DataFrame) -> float:
    truth = texts.loc[part["text_id"], "label"].to_numpy()
    answers = part[[name for name in part if name.startswith("p_")]].to_numpy(dtype=float)
    guess = answers.argmax(axis=1)
    matthews = run.meta["data"]["metric"] == "matthews"
    return float(matthews_corrcoef(truth, guess) if matthews else accuracy_score(truth, guess))
