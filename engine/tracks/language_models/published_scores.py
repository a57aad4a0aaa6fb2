"""Published FASP head scores, taken with each head knocked out: CSV files (a row per head, axis and
seed), or the means over seeds that the published code reads (head_contributions.json)."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from engine.core.errors import Fault, RequestError
from engine.core.ids import exact_count
from engine.core.types import POOLED
from engine.data.prompts.load import read_utf8
from engine.report.charts import lookup
from engine.stats.reliability import (
    correlation,
    expected_in_axes,
    icc_c1,
    in_axes,
    repeats_of,
    top_heads,
)
from engine.store.runs import Run
from engine.tracks.language_models.panels.heads import pooled_scores
from engine.tracks.language_models.selection.base import RULES, protected, tied_at_boundary

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
    "Means over seeds, as published: they do not show whether one seed's scores come out again."
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


# head_contributions.json of FASP's published code: a number per head for every model, read and
# written.
#
# {MODEL: {"cont_to_AXIS_bias": [...], "cont_to_ppl": [...], more lists}}
#
# A list has one number per head, layer by layer: its places count heads from 0 (the published CSV
# files count from 1). The numbers are levels with that head removed, means over seeds. Lists of
# other names (norms, gradients) have scales that the published code does not say; they are neither
# read nor written. NaN: a head without a score (OPT-350M has one).


FILE = "head_contributions.json"
START, END, PPL = "cont_to_", "_bias", "cont_to_ppl"
SHAPE = f'{{"MODEL": {{"{START}AXIS{END}": [one number per head], "{PPL}": [...]}}}}'
COLUMNS = ("model", "axis", "head", "seed", "bias_after", "ppl_after")


def read_contributions(path: Path, n_heads: Mapping[str, int]) -> tuple[pd.DataFrame, list[Fault]]:
    """COLUMNS of every model of a file that has scores of bias, and all faults; head counts from 1,
    as in CSV files.

    n_heads: heads of known models. seed is POOLED: the file holds means over seeds and does not say
    over how many.
    """
    text, faults = read_utf8(path)
    if faults:
        return pd.DataFrame(), faults
    try:
        found = json.loads(
            text, parse_int=float
        )  # a whole number of any length is no reason to fail
    except (ValueError, RecursionError) as error:
        return pd.DataFrame(), [
            Fault(path.name, f"Not JSON ({str(error)[:200]}).", f"Its form is {SHAPE}.")
        ]
    if not isinstance(found, dict):
        return pd.DataFrame(), [
            Fault(path.name, f"A {type(found).__name__}, not models by name.", f"Use {SHAPE}.")
        ]
    if lists := [str(name) for name, part in found.items() if not isinstance(part, dict)]:
        what = f"{lists[0]!r} holds no lists by name; lists lie under the name of their model."
        return pd.DataFrame(), [
            Fault(path.name, what, f"Use {SHAPE}. Heads that were cut are a mask.json: `apply`.")
        ]
    scored = {model: part for model, part in found.items() if any(_axis_of(name) for name in part)}
    if not scored:
        what = "No model has scores of bias."
        return pd.DataFrame(), [
            Fault(path.name, what, f"Lists are named {START}AXIS{END}, as in {SHAPE}.")
        ]
    for model, part in scored.items():
        faults += _faults(f"{path.name}, {model}", part, n_heads.get(model))
    rows = [] if faults else [row for model, part in scored.items() for row in _rows(model, part)]
    return pd.DataFrame(rows, columns=list(COLUMNS)), faults


def contributions(run: Run) -> dict[str, dict[str, list[float]]]:
    """What a finished audit says, in the published form: the level that an effect leaves, dense
    minus z.

    The dense level is that of validation prompts where they were measured, else of test prompts;
    the order of heads does not depend on it. Only axes with a value for every head are written.
    RequestError where none has, or z_ppl not.
    """
    total, missing = lookup.total_heads(run), []
    lists: dict[str, list[float]] = {}
    for axis in run.meta["request"]["axes"]:
        metric = f"bias:{run.meta['request']['reading']}"
        if values := _levels(run, "z_bias", axis, metric, total):
            lists[f"{START}{axis}{END}"] = values
    ppl = _levels(run, "z_ppl", "", "perplexity", total)
    if not lists:
        missing.append(
            Fault(
                "head_contributions",
                "No axis has an effect on bias of every head.",
                "Ask for FASP.",
            )
        )
    if not ppl:
        missing.append(
            Fault(
                "head_contributions", "Not every head has an effect on perplexity.", "Ask for FASP."
            )
        )
    if missing:
        raise RequestError(missing)
    return {run.meta["model"]["name"]: {**lists, PPL: ppl}}


def written(run: Run) -> str:
    """The text of the file."""
    return json.dumps(contributions(run), allow_nan=False)


def _axis_of(name: str) -> str:
    """The axis that a list is about; "" where it is about none."""
    return name[len(START) : -len(END)] if name.startswith(START) and name.endswith(END) else ""


def _rows(model: str, part: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    axes = {axis: values for name, values in part.items() if (axis := _axis_of(name))}
    return [
        (model, axis, head, POOLED, bias, ppl)
        for axis, values in axes.items()
        for head, (bias, ppl) in enumerate(zip(values, part[PPL], strict=True), 1)
        if not math.isnan(bias) and not math.isnan(ppl)
    ]


def _faults(where: str, part: Mapping[str, Any], known: int | None) -> list[Fault]:
    """What is wrong with the lists of one model that are read."""
    read = {name: values for name, values in part.items() if _axis_of(name) or name == PPL}
    faults = (
        []
        if PPL in read
        else [Fault(where, f"{PPL} is missing.", "It says which heads are critical.")]
    )
    lengths = [len(values) for values in read.values() if isinstance(values, list)]
    expected = known or max(set(lengths), key=lengths.count, default=0)
    for name, values in read.items():
        faults += _list_faults(f"{where}, {name}", values, expected)
    return faults


def _list_faults(where: str, values: Any, expected: int) -> list[Fault]:
    if not isinstance(values, list) or not values:
        return [Fault(where, "Not a list of numbers.", "One number per head, layer by layer.")]
    if bad := [at for at, value in enumerate(values) if not _is_number(value)]:
        what = f"{len(bad)} values are not numbers, the first at place {bad[0]}."
        return [Fault(where, what, "Give every head a number; places count from 0.")]
    if _heads_instead(values, expected):
        what = "Different whole numbers only: numbers of heads, where a level per head is expected."
        return [Fault(where, what, "Heads that were cut are a mask.json, which `apply` replays.")]
    if len(values) == expected + 1:
        what = f"{len(values)} numbers for {expected} heads."
        return [
            Fault(
                where,
                what,
                "Places count heads from 0: leave out what stands before the first head.",
            )
        ]
    if len(values) != expected:
        return [
            Fault(
                where,
                f"{len(values)} numbers for {expected} heads.",
                "One number per head, layer by layer.",
            )
        ]
    return []


def _is_number(value: Any) -> bool:
    return isinstance(value, float) and not math.isinf(value)


def _heads_instead(values: list[float], expected: int) -> bool:
    """Whether a list names heads, counted from 0 or 1, and says nothing about each."""
    whole = all(
        float(value).is_integer() and 0 <= value <= max(expected, len(values)) for value in values
    )
    return whole and 1 < len(values) == len(set(values))


def _levels(run: Run, score: str, axis: str, metric: str, total: int) -> list[float]:
    """The level with each head removed, in the order of heads; empty where a head has no value or
    nothing is known."""
    table, results = pooled_scores(run, score, axis), run.table("results")
    dense = results[
        (results["variant"] == "dense") & (results["metric"] == metric) & (results["axis"] == axis)
    ]
    if dense.empty or len(table) != total or table["value"].isna().any():
        return []
    level = float(
        dense.set_index("split")["value"].sort_index(ascending=False).iat[0]
    )  # validation before test
    return [float(value) for value in level - table["value"]]


# What published head scores show: correlations between axes, shared top heads, and what FASP
# Algorithm 1 would cut.


def published_findings(
    scores: PublishedScores, gamma: float = 0.3, share: float = 0.2, ties: str = "index"
) -> dict[str, Any]:
    """Findings about one model, JSON-able; all head ids are 1-based.

    correlation: {axis: {axis: r}}, Pearson over heads of the means over seeds (FASP Fig. 4).
    top_heads: per axis the int(share x heads) whose removal leaves the lowest bias, most harmful
    first, perplexity not considered (FASP Fig. 3). in_axes: in how many of these lists a head is;
    in_axes_by_chance: heads expected in 0, 1, … lists if they were independent. selection: FASP
    Algorithm 1 with gamma and share. `tied`: protected heads that share their perplexity with an
    unprotected one, and per axis how many cuts the other rule for ties would change. icc:
    consistency of one seed per axis. repeats: its interval, the overlap of two seeds' top shares
    against chance, and the seeds needed for .8 (None: never). RequestError when gamma or share is
    outside [0, 1) or leaves too few heads.
    """
    _check(gamma, share)
    wide = scores.wide()
    tops = top_heads(wide, share)
    return {
        "model": scores.model,
        "n_heads": scores.n_heads,
        "seeds": scores.seeds,  # 0 where only their means were published
        "correlation": _nested(correlation(wide, "pearson")),
        "spearman": _nested(correlation(wide, "spearman")),
        "top_heads": tops,
        "in_axes": in_axes(tops),
        "in_axes_by_chance": [
            float(x) for x in expected_in_axes(exact_count(share, len(wide)), len(wide), len(tops))
        ],
        "selection": _selection(wide, scores.ppl_after(), gamma, share, ties),
        "icc": {str(axis): _number(_icc(scores.table, str(axis))) for axis in wide.columns},
        "repeats": {str(axis): _repeats(scores.table, str(axis), share) for axis in wide.columns},
        "notes": list(scores.notes),
    }


def all_findings(
    scores: Sequence[PublishedScores], gamma: float = 0.3, share: float = 0.2, ties: str = "index"
) -> dict[str, Any]:
    """Findings of one model as they are; of several as {"models": [findings, …]}."""
    found = [published_findings(one, gamma, share, ties) for one in scores]
    return found[0] if len(found) == 1 else {"models": found}


def _check(gamma: float, share: float) -> None:
    faults = [
        Fault(name, f"{value} is outside [0, 1).", "Published: gamma 0.3, share 0.2.")
        for name, value in (("gamma", gamma), ("share", share))
        if not 0 <= value < 1
    ]
    if not faults and gamma + share > 1:
        faults = [Fault("gamma + share", f"{gamma} + {share} is above 1.", "Lower one of them.")]
    if faults:
        raise RequestError(faults)


def _selection(
    wide: pd.DataFrame, ppl_after: pd.Series, gamma: float, share: float, rule: str
) -> dict[str, Any]:
    """FASP Algorithm 1: the critical heads stay, the most harmful of the others are cut.

    wide: bias per head (rows) and axis. ppl_after: perplexity without the head; NaN where it was
    not published.
    """
    n_cut = exact_count(share, len(wide))
    z_ppl = -ppl_after.fillna(
        -np.inf
    ).to_numpy()  # up to a constant, the perplexity of the whole model
    chosen, other = (
        protected(z_ppl, gamma, name) for name in (rule, next(one for one in RULES if one != rule))
    )
    heads, differ = _cuts(wide, ppl_after, chosen, n_cut), _cuts(wide, ppl_after, other, n_cut)
    tied = {
        "protected": tied_at_boundary(z_ppl, protected(z_ppl, gamma), range(len(z_ppl))),
        "cut_otherwise": {axis: len(set(heads[axis]) - set(differ[axis])) for axis in heads},
    }
    critical = sorted(int(head) for head in ppl_after.index[list(chosen)])
    return {
        "gamma": gamma,
        "share": share,
        "ties": rule,
        "critical": critical,
        "heads": heads,
        "tied": tied,
    }


def _cuts(
    wide: pd.DataFrame, ppl_after: pd.Series, chosen: Sequence[int], n_cut: int
) -> dict[str, list[int]]:
    """Heads (1-based) that are cut per axis when `chosen` (0-based) are protected."""
    critical = ppl_after.index[list(chosen)]
    free = wide[ppl_after.notna()].drop(index=critical)
    return {
        str(axis): [
            int(head)
            for head in (
                free[axis].dropna().sort_values(ascending=False, kind="stable").index[:n_cut]
            )
        ]
        for axis in free.columns
    }


def _repeats(table: pd.DataFrame, axis: str, share: float) -> dict[str, Any]:
    by_seed = -table[table["axis"] == axis].pivot(index="head", columns="seed", values="bias_after")
    if by_seed.shape[1] < 2:
        return {}
    found = repeats_of(by_seed, share)
    numbers = {
        "low": found.low,
        "high": found.high,
        "overlap": found.overlap.share,
        "by_chance": found.overlap.expected,
    }
    return {
        **{name: _number(value) for name, value in numbers.items()},
        "seeds_needed": found.needed,
    }


def _icc(table: pd.DataFrame, axis: str) -> float:
    by_seed = table[table["axis"] == axis].pivot(index="head", columns="seed", values="bias_after")
    return icc_c1(by_seed.to_numpy())


def _nested(matrix: pd.DataFrame) -> dict[str, dict[str, float | None]]:
    return {
        str(row): {str(col): _number(matrix.loc[row, col]) for col in matrix.columns}
        for row in matrix.index
    }


def _number(value: float) -> float | None:
    """JSON has no NaN."""
    return None if math.isnan(value) else float(value)
