"""What published bias benchmarks say of log-likelihoods: formulas as published, found by being
here.

Each is a function of sums over items, so that redrawing items is redrawing sums.

Every metric has features, [items, columns], and a value of their sums over any set of items.
Swapped features are those of the same answers with the roles exchanged (stereotype and
anti-stereotype). With them a coin per cluster gives what the metric would be if the model had no
preference between the roles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Self

import numpy as np
import pandas as pd

from engine.core.discover import named
from engine.core.errors import Fault, unknown
from engine.core.files import in_full, is_special
from engine.core.types import Setting, Values
from engine.data.benchmarks.base import WHERE, readers

PREFIX = "benchmark:"
"""Begins the names of metrics in the results of a run: benchmark:crows_pairs."""


@dataclass(frozen=True, eq=False)
class Scored:
    """A benchmark's items and what one model makes of them: logp (nats) and tokens by role, [items]
    each."""

    items: pd.DataFrame
    logp: Mapping[str, np.ndarray]
    tokens: Mapping[str, np.ndarray]

    @classmethod
    def of_rows(cls, items: pd.DataFrame, roles: pd.Series, table: pd.DataFrame) -> Self:
        """table: logp and tokens of every text, whose role `roles` says; items: one row each."""
        parts = {role: table[(roles == role).to_numpy()] for role in roles.unique()}
        logp, tokens = (
            {role: part[name].to_numpy(dtype=float) for role, part in parts.items()}
            for name in ("logp", "tokens")
        )
        return cls(items, logp, tokens)

    def per_token(self, role: str) -> np.ndarray:
        """Mean log-likelihood of a token, [items]."""
        return self.logp[role] / np.maximum(self.tokens[role], 1)

    def of(self, keep: np.ndarray) -> Scored:
        """Some of the items; keep [items] bool."""
        logp, tokens = (
            {role: one[keep] for role, one in part.items()} for part in (self.logp, self.tokens)
        )
        return Scored(self.items[keep].reset_index(drop=True), logp, tokens)


Features = Callable[[Scored], np.ndarray]


@dataclass(frozen=True)
class Metric:
    """One number of a benchmark.

    features: [items, columns] of the items; value: of their sums [..., columns], [...]; least,
    most: what it can be. signed: what the value is the size of, if it is one's. of: the column
    whose sum is how many items it is a share of, None for all; step: how far one of them moves it.
    ideal: where there is no bias, NaN where that has no answer. exchanges: whether it is a
    preference between the first two roles, whose exchange says what chance would give. per_group:
    whether it is told per group, too.
    """

    name: str
    title: str
    about: str
    features: Features
    value: Callable[[np.ndarray], np.ndarray]
    ideal: float = float("nan")
    least: float = 0.0
    most: float = 1.0
    exchanges: bool = False
    per_group: bool = True
    signed: Callable[[np.ndarray], np.ndarray] | None = None
    of: int | None = None
    step: float = 1.0


class ScoredBenchmark:
    """What one benchmark asks, measures and cannot say. Final subclasses are found by being here.

    metrics: the headline first, the distance from where there is no bias, smaller is better; then
    published numbers.
    """

    name: str
    title: str
    question: str
    rule: str
    """How likelihoods become answers."""
    limits: str
    """What is known to be wrong with the benchmark, or not to be told by it."""
    source: str
    group: str
    """What its groups are: "kind of bias"."""
    item: str
    """What one item is called: "pair"."""
    items: str
    roles: Mapping[str, str]
    """What each text of an item is called."""
    measured_by: str = "choice_logps"
    """The measurement that its numbers are made of."""
    sure: str = "nats per token"
    """The unit in which the likeliest answer is ahead of the next; "" where answers are not
    compared so."""

    flips: tuple[str, str] = ("became biased", "recovered")
    """What answers do that become `harmful`, and those that no longer are."""

    metrics: tuple[Metric, ...]

    def harmful(self, scored: Scored) -> np.ndarray:
        """Whether an answer is the one to be wary of, [items] bool. Usually the first role."""
        return np.asarray(self.answers(scored) == next(iter(self.roles)))

    def answers(self, scored: Scored) -> np.ndarray:
        """The role that the model finds likeliest, or prefers by the published rule, [items] of
        str. Usually of the first two roles the likelier."""
        one, other, *_ = self.roles
        return np.where(scored.logp[one] > scored.logp[other], one, other)

    def alike(self, scored: Scored) -> np.ndarray:
        """Whether the first two roles read the same to the model, as where it does not know the
        words that differ, [items] bool."""
        one, other, *_ = self.roles
        return scored.logp[one] == scored.logp[other]

    def exchanged(self, scored: Scored) -> Scored:
        """As if the model preferred the second role wherever it prefers the first."""
        one, other, *_ = self.roles
        names = {one: other, other: one}
        logp, tokens = (
            {role: part[names.get(role, role)] for role in part}
            for part in (scored.logp, scored.tokens)
        )
        return Scored(scored.items, logp, tokens)

    @property
    def headline(self) -> Metric:
        return self.metrics[0]

    @property
    def main(self) -> Metric:
        """The published number that the headline is about."""
        return self.metrics[1]


@cache
def scored_benchmarks() -> Mapping[str, ScoredBenchmark]:
    """Every benchmark that can be scored, by name."""
    return dict(sorted(named(__name__, ScoredBenchmark).items()))


def share_of(sums: np.ndarray) -> np.ndarray:
    """The first column over the last; NaN of nothing. [..., columns] -> [...]"""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(sums[..., -1] > 0, sums[..., 0] / sums[..., -1], np.nan)


def from_half(sums: np.ndarray) -> np.ndarray:
    """share − ½."""
    return share_of(sums) - 0.5


def likelier(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """1 where the one is larger, 0 where the other is, ½ where neither is, [items] float64."""
    return (1 + np.sign(one - other)) / 2


def counted(*columns: np.ndarray) -> np.ndarray:
    """Columns beside each other, with a column of ones at the end, [items, columns + 1] float64."""
    found = [np.asarray(column, dtype=float) for column in columns]
    return np.stack([*found, np.ones(len(found[0]))], axis=1)


# How bias benchmarks are asked for: NAME=PATH, several times; read, checked, and told apart from
# what a run has.


EXAMPLE = "crows_pairs=/data/crows_pairs_anonymized.csv"


BENCHMARK_PATHS = "Published benchmarks beside the texts, by path"


def benchmark_settings() -> tuple[Setting, ...]:
    """Every benchmark as a line of the form: its path."""
    titles = {name: one.title for name, one in scored_benchmarks().items()}
    return tuple(
        Setting(name, "text", "", f"Path of {reader.about}, as published.", label=titles[name])
        for name, reader in readers().items()
    )


def named_paths(where: str, words: Sequence[str], faults: list[Fault]) -> dict[str, str]:
    """["bbq=folder"] -> {"bbq": "/…/folder"}; paths in full, for a job's process may start
    elsewhere."""
    found: dict[str, str] = {}
    for item in words:
        name, equals, path = (part.strip() for part in item.partition("="))
        if not (name and equals and path):
            faults.append(
                Fault(where, f"{item[:200]!r} is no NAME=PATH.", f"Write for example {EXAMPLE}.")
            )
        elif name in found:
            faults.append(
                Fault(
                    where,
                    f"{name} is named twice.",
                    "Name a folder where a benchmark has several files.",
                )
            )
        else:
            found[name] = (
                path if name in readers() and readers()[name].is_name(path) else in_full(path)
            )
    return found


def benchmark_faults(asked: Values) -> list[Fault]:
    """Names that are not known, and values that are no paths; the files are read later."""
    faults = [unknown(WHERE, name, readers()) for name in asked if name not in readers()]
    for name, path in asked.items():
        if not isinstance(path, str) or not path:
            faults.append(Fault(f"{WHERE} {name}", f"{path!r} is not allowed.", "Give a path."))
        elif is_special(path):
            faults.append(
                Fault(
                    f"{WHERE} {name}",
                    f"{path[:200]!r} is neither a file nor a folder.",
                    "Name one.",
                )
            )
    return faults
