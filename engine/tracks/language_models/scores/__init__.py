"""Ways to score the heads of a language model: final classes, found by being here.

The contract of a score method, and the one shape all score tables have.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from engine.core.discover import members
from engine.core.errors import Fault, RequestError, unknown
from engine.core.types import POOLED, Decoding, Setting, Values
from engine.data.prompts.load import RESERVE
from engine.stats.clustered import benjamini_hochberg
from engine.tracks.language_models.context import PromptContext, Shard

COLUMNS = [
    "unit",
    "layer",
    "head",
    "score",
    "estimator",
    "axis",
    "seed",
    "value",
    "low",
    "high",
    "p",
    "q",
    "error",
    "freedom",
    "n",
    "ess",
    "k_hat",
    "note",
]
VALIDATION = "validation"
"""Scores never see a test prompt."""


@dataclass(frozen=True)
class ScoreJob:
    """What a method scores with: the context, the axes, the decoding seeds and the reading of
    bias."""

    context: PromptContext
    axes: tuple[str, ...]
    seeds: tuple[int, ...]
    reading: str = "group_means"
    n_boot: int = 1000
    options: Values = field(default_factory=dict)
    """Declared settings of the estimator that were set; `ScoreMethod.option` fills in the rest."""
    gammas: tuple[float, ...] = (0.3,)
    """Shares of heads that may be protected, and ..."""
    sparsities: tuple[float, ...] = (0.0, 0.05, 0.1, 0.2)
    """... shares that may be cut: what an adaptive estimator must get right."""
    splits: tuple[str, ...] = (VALIDATION,)
    """Whose prompts are scored on."""
    measuring: float = math.inf
    """Work that measuring the variants will be, in continuations (`Measurement.size`): what budgets
    are shares of."""
    read: dict[Any, np.ndarray] = field(default_factory=dict, compare=False, repr=False)
    """Columns of finished measurements that were read before, by their shards: an adaptive
    estimator asks often."""
    states: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)
    """What such an estimator decided, by what was asked: equal results, equal answers."""

    @property
    def asked(self) -> tuple[Hashable, ...]:
        """All that decisions rest on besides finished measurements."""
        known = tuple((name, values.tobytes()) for name, values in sorted(self.known.items()))
        return (
            id(self.context.keeper),
            self.seeds,
            self.splits,
            self.reading,
            self.measuring,
            self.gammas,
            self.sparsities,
            tuple(sorted(self.options.items())),
            known,
        )

    @property
    def total(self) -> int:
        return self.context.lm.n_layers * self.context.lm.n_heads

    known: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Pooled scores without an axis that were finished before (z_ppl), float [units]."""

    def fetch(self, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        return self.context.fetch(shards)

    def finished(self, shards: Sequence[Shard]) -> bool:
        """Whether all of them are kept already: then `fetch` computes nothing."""
        return all(self.context.kept(shard) for shard in shards)

    def work(self, shards: Iterable[Shard]) -> float:
        """Work of these measurements, finished or not, in continuations."""
        return sum(
            self.context.kind(shard.kind).size(self.context, shard)
            for shard in dict.fromkeys(shards)
        )

    def spares(self, axis: str) -> tuple[str, ...]:
        """Splits of further validation prompts of an axis, in order."""
        table = self.context.table
        splits = table.loc[table["axis"] == axis, "split"].unique()
        return tuple(
            sorted(
                (name for name in splits if name.startswith(RESERVE)),
                key=lambda name: (len(name), name),
            )
        )

    def with_seeds(self, seeds: Sequence[int]) -> ScoreJob:
        return replace(self, seeds=tuple(seeds))


class ScoreMethod(ABC):
    """One way to give every head a number: a final subclass in a file of this folder.

    Work is stated first (`shards`) and read later (`table`), so that it can run anywhere and
    resume. Neither loads torch when imported: what measures is a Measurement (folder measurements).
    """

    name: str
    """What users call it; the column `estimator`."""
    version: int = 1
    """Raise when it comes out differently: runs that used an older version are then computed anew.
    """
    score: str
    """Which number it gives; the column `score`."""
    highest_first: bool | None = None
    """Whether a selection, called as the score is, cuts the heads with the highest or the lowest
    values; None: no selection goes by this score alone."""
    uses: tuple[str, ...] = ()
    """Other estimators of the same score whose code computes some of its numbers: their versions
    are its own too."""
    settings: tuple[Setting, ...] = ()
    pilots: bool = False
    """Whether it runs a pilot, from which an audit predicts time and precision first."""

    def faults(self, decoding: Decoding, reading: str) -> list[Fault]:
        """Why it cannot score texts drawn like this, or bias read like this; asked before anything
        heavy loads."""
        return []

    def option(self, job: ScoreJob, name: str) -> Any:
        """A declared setting: as asked, else its default."""
        return job.options.get(
            name, {setting.name: setting.default for setting in self.settings}[name]
        )

    def seconds(
        self, job: ScoreJob, measured: pd.DataFrame, once: Mapping[str, float]
    ) -> tuple[float, float]:
        """Least and most seconds for one axis, predicted from its pilot; `once` is what each
        estimator takes to draw every prompt once and score all heads from it."""
        found = once.get(self.name, float("nan")) * len(job.seeds)
        return found, found

    @abstractmethod
    def shards(self, job: ScoreJob) -> list[Shard]:
        """Every measurement it needs, as far as finished ones show. Asked again until it names
        nothing new, so a method may look at what is finished (`job.context.keeper`) and ask for
        more; equal results, equal answers.
        """

    def effort(
        self, job: ScoreJob, uncounted: Callable[[Sequence[Shard]], Sequence[Shard]] = list
    ) -> float:
        """About how long what it will still ask for takes, in the unit of
        `MeasurementContext.effort`; for forecasts only. uncounted: those of some measurements that
        do not count as done."""
        return job.context.effort(uncounted(self.shards(job)))

    def looks(self, job: ScoreJob) -> list[Shard]:
        """What it still draws before it can say whether an axis will be ranked; none of it is
        wasted."""
        return []

    def unranked(self, job: ScoreJob) -> tuple[str, ...]:
        """Axes whose heads it will not rank, as far as finished measurements show."""
        return ()

    @abstractmethod
    def table(self, job: ScoreJob) -> pd.DataFrame:
        """A score table (COLUMNS), from finished shards."""

    def report(self, job: ScoreJob) -> Values:
        """What it decided and spent, JSON-able, for the run's record; from finished shards."""
        return {}


@cache
def score_methods() -> tuple[ScoreMethod, ...]:
    """Every method there is. Names are unique per score: `gradient` estimates two of them."""
    return tuple(members(sys.modules[__name__], ScoreMethod))


def estimators(score: str) -> tuple[str, ...]:
    """Names of the ways to estimate a score."""
    return tuple(method.name for method in score_methods() if method.score == score)


def method_for(score: str, estimator: str | None = None) -> ScoreMethod:
    """The method that gives a score; `estimator` chooses where there are several. Unknown names
    raise RequestError."""
    found = [method for method in score_methods() if method.score == score]
    if not found:
        raise RequestError(unknown("score", score, {method.score for method in score_methods()}))
    if len(found) == 1 and estimator is None:
        return found[0]
    chosen = [method for method in found if method.name == estimator]
    if not chosen:
        raise RequestError(unknown("estimator", estimator, [method.name for method in found]))
    return chosen[0]


def with_used(methods: Iterable[ScoreMethod]) -> list[ScoreMethod]:
    """These, and every method whose code computes some of their numbers, each once."""
    found = list(methods)
    for method in found:  # which grows meanwhile: what a method uses may use others
        used = [method_for(method.score, name) for name in method.uses]
        found += [one for one in used if one not in found]
    return found


def score_rows(
    job: ScoreJob, method: ScoreMethod, values: Sequence[float] | np.ndarray, **columns: object
) -> pd.DataFrame:
    """A score table from one value per head, in unit order; `columns` fills the rest, or it is NaN
    or empty. q follows from p, over all heads."""
    if "p" in columns:
        columns["q"] = benjamini_hochberg(np.asarray(columns["p"]))
    units, heads = np.arange(job.total), job.context.lm.n_heads
    table = pd.DataFrame({"unit": units, "layer": units // heads, "head": units % heads})
    table["score"], table["estimator"] = method.score, method.name
    table["value"] = np.asarray(values, dtype=float)
    numbers = dict.fromkeys(("low", "high", "p", "q", "error", "freedom", "ess", "k_hat"), np.nan)
    empty = {"axis": "", "seed": POOLED, "n": 0, "note": "", **numbers}
    for name, default in empty.items():
        table[name] = columns.get(name, default)
    return table[COLUMNS]


def no_scores() -> pd.DataFrame:
    """The score table of an audit that scored no head: COLUMNS, of their types."""
    words = dict.fromkeys(("score", "estimator", "axis", "note"), "str")
    whole = dict.fromkeys(("unit", "layer", "head", "seed", "n"), "int64")
    return pd.DataFrame(columns=COLUMNS, dtype=float).astype({**words, **whole})


def head_shards(job: ScoreJob, make: Callable[[tuple[int, ...]], list[Shard]]) -> list[Shard]:
    """The dense measurement and that of every single head off."""
    return make(()) + [shard for unit in range(job.total) for shard in make((unit,))]
