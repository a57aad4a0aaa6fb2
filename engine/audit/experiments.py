"""What an experiment is: one figure or table of a paper as requests, and what their runs say beside
what it prints.

A track keeps its experiments in its folder `experiments`: files with a tuple `ROWS`, found by being
there.
"""

from __future__ import annotations

import importlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache, reduce
from typing import Any

import pandas as pd
from scipy.special import stdtrit

from engine.audit.request import Request
from engine.core.discover import members
from engine.core.errors import Fault, chosen
from engine.core.types import Values
from engine.stats.clustered import TAILS
from engine.store.runs import Run

NAN = math.nan
PAPER, PUBLISHED = "paper", "published"
"""Protocols of an experiment: as the paper says, as its published code does."""


@dataclass(frozen=True)
class ExperimentAsk:
    """How an experiment is to be run; what is None or empty is the experiment's own.

    data: where the paper's data lie; None takes embedded ones, which needs `quick`. quick: a size
    for two CPU cores.
    corpus, validation_corpus: text for perplexity, and one for scores and γ alone. levels: how much
    is cut, in the track's own measure. most: items per split. train: how a dense model is fitted
    first. protocol: as the paper says, or as its published code does where they differ.
    """

    data: str | None = None
    model: str | None = None
    weights: str | None = None
    corpus: str | None = None
    validation_corpus: str | None = None
    judge: str | None = None
    quick: bool = False
    trials: int | None = None
    first_seed: int = 0
    levels: tuple[float, ...] = ()
    most: int | None = None
    train: dict[str, Any] | None = None
    device: str = "auto"
    protocol: str = PAPER

    def over(self, request: Any, **names: str) -> Any:
        """The request with what was asked for instead; `names`: our word -> the request's, e.g.
        levels="sparsities"."""
        found = {theirs: getattr(self, ours) for ours, theirs in names.items()}
        given = {name: value for name, value in found.items() if value not in (None, ())}
        return replace(request, first_seed=self.first_seed, device=self.device, **given)


RISES, FALLS, STAYS, NOT_ABOVE = "rises", "falls", "stays", "not above 0"
AS_STATED, AGAINST, UNTOLD, OPEN = "as stated", "against it", "cannot be told", "not against it"
"""Beside what a text states; OPEN: it names no rise, and ours may be none."""


@dataclass(frozen=True)
class Stated:
    """A direction that the text of a paper states where it prints no number.

    about: "change of AUC, autobot, male", parts that a finding's `what` must have, in any order.
    """

    about: str
    says: str
    where: str

    def told(self, one: Finding) -> Finding:
        """The finding with what the paper says of it."""
        parts = set(one.what.replace(": ", ", ").split(", "))
        if math.isfinite(one.paper) or not parts.issuperset(self.about.split(", ")):
            return one
        return replace(one, says=self.says, where=self.where)


def stated(where: str, about: str, **of: Sequence[str]) -> tuple[Stated, ...]:
    """What a section says rises, falls, stays or is not_above 0, of parts of what is `about`."""
    return tuple(
        Stated(
            ", ".join(filter(None, (about, part))),
            NOT_ABOVE if says == "not_above" else says,
            where,
        )
        for says, parts in of.items()
        for part in parts
    )


@dataclass(frozen=True)
class Finding:
    """One number of ours beside the paper's; NaN where there is none.

    says: the direction that the paper's text states instead of a number, "" for none.
    where: the figure, table or section of `paper` or `says`. low, high: our 95 % interval.
    null_low, null_high: our null band. n: what it was measured on. differs: what is not as in the
    paper.
    """

    what: str
    paper: float = NAN
    where: str = ""
    ours: float = NAN
    low: float = NAN
    high: float = NAN
    null_low: float = NAN
    null_high: float = NAN
    n: float = NAN
    seeds: float = NAN
    differs: str = ""
    says: str = ""

    @property
    def agrees(self) -> str:
        """Whether the interval agrees with what the paper says; "" where it says nothing."""
        if not self.says or not math.isfinite(self.ours):
            return ""
        seen = RISES if self.low > 0 else FALLS if self.high < 0 else STAYS
        if seen == STAYS:
            none = self.says in (STAYS, NOT_ABOVE) and math.isfinite(self.low)
            return OPEN if none else UNTOLD
        same = self.says == seen or (self.says == NOT_ABOVE and seen == FALLS)
        return AS_STATED if same else AGAINST


COLUMNS = (*(field.name for field in fields(Finding)), "agrees")


class Experiment(ABC):
    """One figure or table of a paper. Each is a row of `ROWS` in some file of a track's folder
    `experiments`."""

    name: str
    paper: str
    """The paper, short: the same word as in the table of methods."""
    figure: str
    """ "Fig. 3", "Table 6.2": with `paper`, named by one experiment only."""
    question: str
    protocols: tuple[str, ...] = (PAPER,)
    """Which protocols it knows."""
    stated: tuple[Stated, ...] = ()
    """What the paper's text says of numbers that it does not print."""

    @property
    @abstractmethod
    def needs(self) -> str:
        """Data and weights at the paper's scale."""

    @property
    @abstractmethod
    def stand_in(self) -> str:
        """What `quick` uses instead."""

    @abstractmethod
    def requests(self, ask: ExperimentAsk) -> Sequence[Request]:
        """All audits it needs, ready to be checked and run; those that other experiments need too
        are equal to theirs.

        None where nothing is computed, or published numbers are read.
        """

    @abstractmethod
    def read(self, runs: Sequence[Run], ask: ExperimentAsk) -> Iterable[Finding]:
        """What the finished requests say, in their order, beside what the paper prints."""

    def table(self, runs: Sequence[Run], ask: ExperimentAsk) -> pd.DataFrame:
        """All that is read, with what the paper states of it, as a table with COLUMNS."""
        return table_of(
            reduce(lambda found, stated: stated.told(found), self.stated, one)
            for one in self.read(runs, ask)
        )

    @abstractmethod
    def panels(self, runs: Sequence[Run], ask: ExperimentAsk, dark: bool = False) -> Iterator[Any]:
        """The charts that answer it, as engine.report.charts.panel.Panel."""

    def faults(self, ask: ExperimentAsk) -> list[Fault]:
        """What is missing: the paper's data, where `quick` does not take embedded ones instead."""
        faults = []
        if ask.protocol not in self.protocols:
            what = f"only the paper's protocol is known for {self.figure} of {self.paper}."
            faults.append(Fault("--protocol", what, "Leave it out."))
        if not ask.quick and ask.data is None:
            what = f"{self.figure} of {self.paper} needs {self.needs}."
            faults.append(
                Fault(
                    "--data", what, f"Give it with --data, or --quick: that uses {self.stand_in}."
                )
            )
        return faults

    @property
    def computes(self) -> bool:
        """Whether there is anything to compute."""
        return True


@dataclass(frozen=True, eq=False)
class Sketch(Experiment):
    """A drawing without data: listed, so that no figure is missed."""

    name: str
    paper: str
    figure: str
    question: str
    needs = "nothing"
    stand_in = "nothing"

    @property
    def computes(self) -> bool:
        return False

    def requests(self, ask: ExperimentAsk) -> list[Request]:
        return []

    def read(self, runs: Sequence[Run], ask: ExperimentAsk) -> Iterable[Finding]:
        return []

    def panels(self, runs: Sequence[Run], ask: ExperimentAsk, dark: bool = False) -> Iterator[Any]:
        return iter(())

    def faults(self, ask: ExperimentAsk) -> list[Fault]:
        return []


def finding(what: str, row: Values, seeds: float = NAN, scale: float = 1.0, **more: Any) -> Finding:
    """A Finding from a row of a results or groups table: its value, interval, null band and n."""
    names = ("value", "low", "high", "null_low", "null_high")
    return _finding(what, row, names, scale, seeds=seeds, **more)


def change(what: str, row: Values, seeds: float = NAN, scale: float = 1.0, **more: Any) -> Finding:
    """A Finding from a row's change against the dense model."""
    names = ("delta", "delta_low", "delta_high")
    return _finding(what, row, names, scale, seeds=seeds, **more)


def mean_of(what: str, values: pd.Series, **more: Any) -> Finding:
    """A Finding of the mean of independent numbers, with Student's interval; of one number none."""
    half = stdtrit(values.count() - 1, TAILS[1]) * values.sem()
    ours = values.mean()
    return Finding(what, ours=ours, low=ours - half, high=ours + half, **more)


def _finding(what: str, row: Values, names: Sequence[str], scale: float, **more: Any) -> Finding:
    ours = ("ours", "low", "high", "null_low", "null_high")
    values = (scale * float(row.get(name, NAN)) for name in names)
    more |= dict(zip(ours, values, strict=False))
    return Finding(what, n=float(row.get("n", NAN)), **more)


def differences(paper: Mapping[str, object], ours: Mapping[str, object]) -> str:
    """What is not as in the paper, in words: {"model": "GPT-2"} against {"model": "demo-gpt2"}.

    None is what the paper does not state.
    """
    unlike = [
        f"{name} {ours[name]}, not {'stated there' if paper[name] is None else paper[name]}"
        for name in paper
        if name in ours and str(ours[name]) != str(paper[name])
    ]
    return "; ".join(unlike)


def table_of(findings: Iterable[Finding]) -> pd.DataFrame:
    """Findings as a table with COLUMNS; what the paper neither prints nor states stands nowhere."""
    rows = [asdict(one) | {"agrees": one.agrees} for one in findings]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    table.loc[table["paper"].isna() & table["says"].eq(""), "where"] = ""
    return table


@cache
def experiments() -> Mapping[str, Experiment]:
    """Every experiment of every track by name, in the order of tracks and files."""
    from engine.audit.tracks import tracks

    found: dict[str, Experiment] = {}
    for track in tracks().values():
        package = importlib.import_module(f"{track.package}.experiments")
        found |= {one.name: one for one in members(package, Experiment)}
    return found


def experiment_named(name: str) -> Experiment:
    """The experiment, or RequestError with the known names."""
    return chosen("experiment", name, experiments())
