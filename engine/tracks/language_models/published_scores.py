"""Published FASP head scores, taken with each head knocked out: CSV files (a row per head, axis and
seed), or the means over seeds that the published code reads (head_contributions.json)."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from engine.audit.fields import attempt
from engine.core.errors import Fault, RequestError, refusal
from engine.core.types import POOLED, Values, exact_count
from engine.data.tables import text_of
from engine.stats.reliability import (
    correlation,
    expected_in_axes,
    icc_c1,
    in_axes,
    repeats_of,
    top_heads,
)
from engine.store.runs import Run, where
from engine.tracks.language_models.panels.heads import pooled_scores
from engine.tracks.language_models.selection import RULES, protected, tied_at_boundary

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

    def by_seed(self, axis: str) -> pd.DataFrame:
        """Scores of one axis, rows = heads (1-based), columns = seeds."""
        rows = self.table[self.table["axis"] == axis]
        return -rows.pivot(index="head", columns="seed", values="bias_after")


def load_published(paths: Sequence[str | Path]) -> tuple[PublishedScores, ...]:
    """Read score files, one result per model in order of appearance; files of one model are put
    together.

    Raises RequestError with every fault of every file.
    """
    faults = []
    if not paths:
        faults = [Fault("scores", "No file is named.", "Name at least one file of head scores.")]
    parts = [attempt(partial(_read, Path(path)), faults) for path in paths]
    if faults:
        raise RequestError(faults)
    table = pd.concat(parts, ignore_index=True)
    # models of which means would be mixed with the seeds behind them
    kinds = (table["seed"] == POOLED).groupby(table["model"]).nunique()
    if twice := sorted(map(str, kinds.index[kinds > 1])):
        what = f"{', '.join(twice)}: in a CSV file seed by seed, and in {FILE} as a mean."
        raise refusal("scores", what, "Name one of the two files.")
    repeated = table.duplicated(["model", "head", "axis", "seed"])
    if repeated.any():
        row = table[repeated].iloc[0]
        what = (
            f"{int(repeated.sum())} rows are repeated, e.g. head {row['head']}, {row['axis']}, seed"
            f" {row['seed']}."
        )
        raise refusal(f"scores of {row['model']}", what, "Give every head, axis and seed once.")
    return tuple(_one_model(str(name), rows) for name, rows in table.groupby("model", sort=False))


def _read(path: Path) -> pd.DataFrame:
    """`COLUMNS` of one file, of the validation split only. RequestError with all its faults."""
    read = _contributions if path.suffix.casefold() == ".json" else _of_csv
    return read(path.name, text_of(path))


def _of_csv(name: str, text: str) -> pd.DataFrame:
    try:
        # "None" in the column Method is a word, not a missing value.
        raw = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
    except (pd.errors.ParserError, ValueError) as error:
        what = f"Not a CSV table ({str(error)[:200]})."
        raise refusal(name, what, "Check the file.") from error
    if missing := [column for column in REQUIRED if column not in raw.columns]:
        fix = f"Needed: {', '.join(REQUIRED)}."
        raise refusal(name, f"Columns missing: {', '.join(missing)}.", fix)
    if "Split" in raw.columns and (raw["Split"] == "valid").any():
        raw = raw[raw["Split"] == "valid"]
    # Rows without a head belong to the model with nothing, or many heads, removed.
    raw = raw[~raw["Head id"].isin(["", "None", "nan"])]
    if not len(raw):
        raise refusal(name, "No row names a head.", "Use a file of single-head removals.")
    plain = {known.replace("/", "_"): known for known in SHAPES}  # "_" for "/" in some names
    table = pd.DataFrame({"model": raw["Model"].replace(plain), "axis": raw["Group"]})
    names = {"head": "Head id", "seed": "Seed", "bias_after": "Bias", "ppl_after": "PPL"}
    for column, theirs in names.items():
        table[column] = pd.to_numeric(raw[theirs], errors="coerce")
    if faults := _number_faults(name, table):
        raise RequestError(faults)
    return table.astype({"head": int, "seed": int})


def _number_faults(name: str, table: pd.DataFrame) -> list[Fault]:
    faults, numbers = [], table[["head", "seed", "bias_after", "ppl_after"]]
    bad = ~np.isfinite(numbers)
    for column in ("head", "seed"):
        bad[column] |= numbers[column] != numbers[column].round()
    bad["head"] |= ~(numbers["head"] >= 1)
    for column, count in bad.sum().items():
        kind = "whole numbers from 1" if column == "head" else "numbers"
        if count:
            what = f"{count} values are not {kind}."
            faults.append(Fault(f"{name}, {column}", what, "Correct the file."))
    where, fix = f"{name}, head", "Ids count heads from 1, layer by layer."
    if not faults and table["head"].max() > MOST_HEADS:
        what = f"Head {table['head'].max():.0f}: no model has so many."
        faults.append(Fault(where, what, fix))
    for model, largest in table.groupby("model")["head"].max().items():
        known = math.prod(SHAPES.get(str(model), (math.inf,)))
        if largest > known:
            what = f"Head {largest:.0f} of {model}, which has {known}."
            faults.append(Fault(where, what, fix))
    return faults


def _one_model(model: str, rows: pd.DataFrame) -> PublishedScores:
    shape, seeds = SHAPES.get(model), rows["seed"].nunique()
    n_heads = math.prod(shape) if shape else int(rows["head"].max())
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
    columns = ["head", "axis", "seed", "bias_after", "ppl_after"]
    table = rows[columns].sort_values(["axis", "head", "seed"], ignore_index=True)
    return PublishedScores(model, table, n_heads, shape, tuple(notes))


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


def _contributions(name: str, text: str) -> pd.DataFrame:
    """Every model that has scores of bias; head counts from 1, as in CSV files. seed is POOLED: the
    file holds means over seeds and does not say over how many."""
    try:
        # a whole number of any length is no reason to fail
        found = json.loads(text, parse_int=float)
    except (ValueError, RecursionError) as error:
        what = f"Not JSON ({str(error)[:200]})."
        raise refusal(name, what, f"Its form is {SHAPE}.") from error
    if not isinstance(found, dict):
        what = f"A {type(found).__name__}, not models by name."
        raise refusal(name, what, f"Use {SHAPE}.")
    if lists := [str(model) for model, part in found.items() if not isinstance(part, dict)]:
        what = f"{lists[0]!r} holds no lists by name; lists lie under the name of their model."
        raise refusal(name, what, f"Use {SHAPE}. Heads that were cut are a mask.json: `apply`.")
    scored = {model: part for model, part in found.items() if any(map(_axis_of, part))}
    if not scored:
        what = "No model has scores of bias."
        raise refusal(name, what, f"Lists are named {START}AXIS{END}, as in {SHAPE}.")
    faults = [
        fault
        for model, part in scored.items()
        for fault in _faults(f"{name}, {model}", model, part)
    ]
    if faults:
        raise RequestError(faults)
    rows = [row for model, part in scored.items() for row in _rows(model, part)]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def contributions(run: Run) -> dict[str, dict[str, list[float]]]:
    """What a finished audit says, in the published form: the level that an effect leaves, dense
    minus z.

    The dense level is that of validation prompts where they were measured, else of test prompts;
    the order of heads does not depend on it. Only axes with a value for every head are written.
    RequestError where none has, or z_ppl not.
    """
    metric = f"bias:{run.request['reading']}"
    every = {
        f"{START}{axis}{END}": _levels(run, "z_bias", axis, metric) for axis in run.request["axes"]
    }
    lists = {name: values for name, values in every.items() if values}
    ppl = _levels(run, "z_ppl", "", "perplexity")
    missing = [] if lists else ["No axis has an effect on bias of every head."]
    missing += [] if ppl else ["Not every head has an effect on perplexity."]
    if missing:
        raise RequestError([Fault("head_contributions", what, "Ask for FASP.") for what in missing])
    return {run.model["name"]: {**lists, PPL: ppl}}


def written(run: Run) -> str:
    """The text of the file."""
    return json.dumps(contributions(run), allow_nan=False)


def _axis_of(name: str) -> str:
    """The axis that a list is about; "" where it is about none."""
    return name[len(START) : -len(END)] if name.startswith(START) and name.endswith(END) else ""


def _rows(model: str, part: Values) -> list[tuple[Any, ...]]:
    axes = {axis: values for name, values in part.items() if (axis := _axis_of(name))}
    return [
        (model, axis, head, POOLED, bias, ppl)
        for axis, values in axes.items()
        for head, (bias, ppl) in enumerate(zip(values, part[PPL], strict=True), 1)
        if not math.isnan(bias) and not math.isnan(ppl)
    ]


def _faults(where: str, model: str, part: Values) -> list[Fault]:
    """What is wrong with the lists of one model that are read."""
    read = {name: values for name, values in part.items() if _axis_of(name) or name == PPL}
    faults = []
    if PPL not in read:
        faults.append(Fault(where, f"{PPL} is missing.", "It says which heads are critical."))
    lengths = [len(values) for values in read.values() if isinstance(values, list)]
    known = math.prod(SHAPES.get(model, (0,)))
    expected = known or max(set(lengths), key=lengths.count, default=0)
    said = {name: _wrong(values, expected) for name, values in read.items()}
    return faults + [Fault(f"{where}, {name}", *wrong) for name, wrong in said.items() if wrong]


def _wrong(values: Any, expected: int) -> tuple[str, str] | None:
    """What is wrong with one list, and what to do; None where nothing is."""
    each = "One number per head, layer by layer."
    if not isinstance(values, list) or not values:
        return "Not a list of numbers.", each
    if bad := [
        at
        for at, value in enumerate(values)
        if not (isinstance(value, float) and not math.isinf(value))
    ]:
        what = f"{len(bad)} values are not numbers, the first at place {bad[0]}."
        return what, "Give every head a number; places count from 0."
    if _heads_instead(values, expected):
        what = "Different whole numbers only: numbers of heads, where a level per head is expected."
        return what, "Heads that were cut are a mask.json, which `apply` replays."
    what = f"{len(values)} numbers for {expected} heads."
    if len(values) == expected + 1:
        return what, "Places count heads from 0: leave out what stands before the first head."
    return None if len(values) == expected else (what, each)


def _heads_instead(values: list[float], expected: int) -> bool:
    """Whether a list names heads, counted from 0 or 1, and says nothing about each."""
    whole = all(
        float(value).is_integer() and 0 <= value <= max(expected, len(values)) for value in values
    )
    return whole and 1 < len(values) == len(set(values))


def _levels(run: Run, score: str, axis: str, metric: str) -> list[float]:
    """The level with each head removed, in the order of heads; empty where a head has no value or
    nothing is known."""
    table = pooled_scores(run, score, axis)
    dense = where(run.table("results"), variant="dense", metric=metric, axis=axis)
    total = run.n_units
    if dense.empty or len(table) != total or table["value"].isna().any():
        return []
    by_split = dense.set_index("split")["value"].sort_index(ascending=False)
    return (float(by_split.iat[0]) - table["value"]).tolist()  # validation before test


# What published head scores show: correlations between axes, shared top heads, and what FASP
# Algorithm 1 would cut.


def published_findings(
    scores: PublishedScores, gamma: float = 0.3, share: float = 0.2, ties: str = "index"
) -> Values:
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
    tops, total = top_heads(wide, share), len(wide)
    chance = expected_in_axes(exact_count(share, total), total, len(tops))
    by_seed = {str(axis): scores.by_seed(axis) for axis in wide.columns}
    return {
        "model": scores.model,
        "n_heads": scores.n_heads,
        "seeds": scores.seeds,  # 0 where only their means were published
        "correlation": _nested(correlation(wide, "pearson")),
        "spearman": _nested(correlation(wide, "spearman")),
        "top_heads": tops,
        "in_axes": in_axes(tops),
        "in_axes_by_chance": list(map(float, chance)),
        "selection": _selection(wide, scores.ppl_after(), gamma, share, ties),
        "icc": {axis: _number(icc_c1(table.to_numpy())) for axis, table in by_seed.items()},
        "repeats": {axis: _repeats(table, share) for axis, table in by_seed.items()},
        "notes": list(scores.notes),
    }


def all_findings(
    scores: Sequence[PublishedScores], gamma: float = 0.3, share: float = 0.2, ties: str = "index"
) -> Values:
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
) -> Values:
    """FASP Algorithm 1: the critical heads stay, the most harmful of the others are cut.

    wide: bias per head (rows) and axis. ppl_after: perplexity without the head; NaN where it was
    not published.
    """
    n_cut = exact_count(share, len(wide))
    # up to a constant, the perplexity of the whole model
    z_ppl = -ppl_after.fillna(-np.inf).to_numpy()
    chosen = {name: protected(z_ppl, gamma, name) for name in RULES}
    cuts = {name: _cuts(wide, ppl_after, units, n_cut) for name, units in chosen.items()}
    heads, (differ,) = cuts[rule], [cuts[name] for name in RULES if name != rule]
    tied = {
        "protected": tied_at_boundary(z_ppl, chosen["index"], range(len(z_ppl))),
        "cut_otherwise": {axis: len(set(heads[axis]) - set(differ[axis])) for axis in heads},
    }
    return {
        "gamma": gamma,
        "share": share,
        "ties": rule,
        "critical": sorted(ppl_after.index[list(chosen[rule])].tolist()),
        "heads": heads,
        "tied": tied,
    }


def _cuts(
    wide: pd.DataFrame, ppl_after: pd.Series, chosen: Sequence[int], n_cut: int
) -> dict[str, list[int]]:
    """Heads (1-based) that are cut per axis when `chosen` (0-based) are protected."""
    free = wide[ppl_after.notna()].drop(index=ppl_after.index[list(chosen)])
    ordered = {
        str(axis): column.dropna().sort_values(ascending=False, kind="stable")
        for axis, column in free.items()
    }
    return {axis: column.index[:n_cut].tolist() for axis, column in ordered.items()}


def _repeats(by_seed: pd.DataFrame, share: float) -> Values:
    """by_seed: heads x seeds."""
    if by_seed.shape[1] < 2:
        return {}
    found = repeats_of(by_seed, share)
    numbers = {
        "low": found.low,
        "high": found.high,
        "overlap": found.overlap.share,
        "by_chance": found.overlap.expected,
    }
    said = {name: _number(value) for name, value in numbers.items()}
    return {**said, "seeds_needed": found.needed}


def _nested(matrix: pd.DataFrame) -> dict[str, dict[str, float | None]]:
    return {
        str(row): {str(column): _number(value) for column, value in values.items()}
        for row, values in matrix.to_dict("index").items()
    }


def _number(value: float) -> float | None:
    """JSON has no NaN."""
    return None if math.isnan(value) else float(value)
