"""Published FASP head scores, taken with each head knocked out: CSV files (a row per head, axis and
seed), or the means over seeds that the published code reads (head_contributions.json)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from engine.core.errors import Fault, RequestError
from engine.core.types import POOLED
from engine.data.prompts.table import read_utf8
from engine.tracks.language_models.head_contributions import FILE, read_contributions

REQUIRED = ("Group", "Bias", "Model", "Head id", "Seed", "PPL")
SHAPES = {
    "distilgpt2": (6, 12),
    "gpt2": (12, 12),
    "EleutherAI/gpt-neo-125M": (12, 12),
    "EleutherAI/gpt-neo-1.3B": (24, 16),
    "EleutherAI/gpt-neo-2.7B": (32, 20),
    "EleutherAI/gpt-j-6B": (28, 16),
    "facebook/opt-350m": (24, 16),
    "meta-llama/Llama-2-7b-chat-hf": (32, 32),
}
"""Layers and heads per layer of the models that have published scores."""
MOST_HEADS = 100_000
"""More heads than any model has: a wrong column."""

MEANS_ONLY = (
    "Means over seeds, as published: whether one seed's scores come out again cannot be told from"
    " them."
)


@dataclass(frozen=True)
class PublishedScores:
    """Scores of one model. `table` columns: head (1-based int), axis, seed (int; POOLED: a mean
    over seeds), bias_after, ppl_after (floats).

    bias_after and ppl_after are the levels with the head removed: the lower bias_after, the more
    harmful the head.
    shape: layers, heads per layer; None for a model that is not in SHAPES. Only the validation
    split is kept.
    """

    model: str
    table: pd.DataFrame
    n_heads: int
    shape: tuple[int, int] | None
    notes: tuple[str, ...] = ()

    def wide(self) -> pd.DataFrame:
        """Score of each head per axis: minus the mean over seeds of bias_after, which is z_bias up
        to a constant.

        Index: head (1-based); columns: axes, sorted.
        """
        means = self.table.groupby(["head", "axis"])["bias_after"].mean().unstack()
        return -means.reindex(self._ids())

    def ppl_after(self) -> pd.Series:
        """Mean perplexity with each head removed, index head (1-based)."""
        return self.table.groupby("head")["ppl_after"].mean().reindex(self._ids())

    @property
    def seeds(self) -> int:
        """Seeds that are told apart; 0 where only their means were published."""
        return int(self.table.loc[self.table["seed"] != POOLED, "seed"].nunique())

    def _ids(self) -> pd.Index:
        """Every head of the model, also those without a score (they are NaN and never selected)."""
        return pd.RangeIndex(1, self.n_heads + 1, name="head")


def load_published(paths: Sequence[str | Path]) -> tuple[PublishedScores, ...]:
    """Read score files, one result per model in order of appearance; files of one model are put
    together.

    Raises RequestError with every fault of every file.
    """
    if not paths:
        raise RequestError(
            Fault("scores", "No file is named.", "Name at least one file of head scores.")
        )
    parts, faults = [], []
    for path in map(Path, paths):
        part, more = _read_means(path) if path.suffix.casefold() == ".json" else _read(path)
        parts.append(part)
        faults += more
    if faults:
        raise RequestError(faults)
    table = pd.concat(parts, ignore_index=True)
    if twice := _in_both(table):
        what = f"{', '.join(twice)}: in a CSV file seed by seed, and in {FILE} as a mean."
        raise RequestError(Fault("scores", what, "Name one of the two files."))
    repeated = table.duplicated(["model", "head", "axis", "seed"])
    if repeated.any():
        row = table[repeated].iloc[0]
        what = (
            f"{int(repeated.sum())} rows are repeated, e.g. head {row['head']}, {row['axis']}, seed"
            f" {row['seed']}."
        )
        raise RequestError(
            Fault(f"scores of {row['model']}", what, "Give every head, axis and seed once.")
        )
    return tuple(
        _one_model(str(name), table[table["model"] == name]) for name in table["model"].unique()
    )


def _read_means(path: Path) -> tuple[pd.DataFrame, list[Fault]]:
    """The same columns as `_read`, from means over seeds."""
    return read_contributions(
        path, {model: layers * heads for model, (layers, heads) in SHAPES.items()}
    )


def _in_both(table: pd.DataFrame) -> list[str]:
    """Models of which means would be mixed with the seeds behind them."""
    kinds = (table["seed"] == POOLED).groupby(table["model"]).nunique()
    return sorted(str(model) for model in kinds[kinds > 1].index)


def _read(path: Path) -> tuple[pd.DataFrame, list[Fault]]:
    """Columns model, head, axis, seed, bias_after, ppl_after of one file, validation split only."""
    text, faults = read_utf8(path)
    if faults:
        return pd.DataFrame(), faults
    try:
        # "None" in the column Method is a word, not a missing value.
        raw = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
    except (pd.errors.ParserError, ValueError) as error:
        return pd.DataFrame(), [
            Fault(path.name, f"Not a CSV table ({str(error)[:200]}).", "Check the file.")
        ]
    if missing := [name for name in REQUIRED if name not in raw.columns]:
        fix = f"Needed: {', '.join(REQUIRED)}."
        return pd.DataFrame(), [Fault(path.name, f"Columns missing: {', '.join(missing)}.", fix)]
    if "Split" in raw.columns and (raw["Split"] == "valid").any():
        raw = raw[raw["Split"] == "valid"]
    # Rows without a head belong to the model with nothing, or many heads, removed.
    raw = raw[~raw["Head id"].isin(["", "None", "nan"])]
    if not len(raw):
        return pd.DataFrame(), [
            Fault(path.name, "No row names a head.", "Use a file of single-head removals.")
        ]
    table = pd.DataFrame({"model": raw["Model"].map(_model_name), "axis": raw["Group"]})
    names = {"head": "Head id", "seed": "Seed", "bias_after": "Bias", "ppl_after": "PPL"}
    for name, column in names.items():
        table[name] = pd.to_numeric(raw[column], errors="coerce")
    faults = _number_faults(path.name, table)
    return (table, faults) if faults else (table.astype({"head": int, "seed": int}), [])


def _number_faults(name: str, table: pd.DataFrame) -> list[Fault]:
    faults = []
    for column in ("head", "seed", "bias_after", "ppl_after"):
        values = table[column].to_numpy(dtype=float)
        bad = ~np.isfinite(values)
        if column in ("head", "seed"):
            with np.errstate(invalid="ignore"):
                bad |= values != np.round(values)
        if column == "head":
            bad |= ~(values >= 1)
        if bad.any():
            kind = "whole numbers from 1" if column == "head" else "numbers"
            faults.append(
                Fault(
                    f"{name}, {column}",
                    f"{int(bad.sum())} values are not {kind}.",
                    "Correct the file.",
                )
            )
    if not faults and table["head"].max() > MOST_HEADS:
        what = f"Head {table['head'].max():.0f}: no model has so many."
        faults.append(Fault(f"{name}, head", what, "Ids count heads from 1, layer by layer."))
    for model, rows in table.groupby("model"):
        layers, heads = SHAPES.get(str(model), (0, 0))
        if layers and rows["head"].max() > layers * heads:
            what = f"Head {rows['head'].max():.0f} of {model}, which has {layers * heads}."
            faults.append(Fault(f"{name}, head", what, "Ids count heads from 1, layer by layer."))
    return faults


def _model_name(name: str) -> str:
    """Published files write some names with "_" for "/"."""
    return next((known for known in SHAPES if known.replace("/", "_") == name), name)


def _one_model(model: str, rows: pd.DataFrame) -> PublishedScores:
    shape = SHAPES.get(model)
    n_heads = shape[0] * shape[1] if shape else int(rows["head"].max())
    seeds = rows["seed"].nunique()
    notes = [MEANS_ONLY] if (rows["seed"] == POOLED).all() else []
    for axis, part in rows.groupby("axis", sort=True):
        scored = part["head"].nunique()
        if scored < n_heads:
            notes.append(f"{axis}: {scored} of {n_heads} heads have a score.")
        if absent := scored * seeds - len(part):
            notes.append(
                f"{axis}: {absent} of {scored * seeds} head and seed pairs are missing; means use"
                " the rest."
            )
    table = rows[["head", "axis", "seed", "bias_after", "ppl_after"]]
    return PublishedScores(
        model,
        table.sort_values(["axis", "head", "seed"], ignore_index=True),
        n_heads,
        shape,
        tuple(notes),
    )
