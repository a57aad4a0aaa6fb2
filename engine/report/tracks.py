"""The screens of the tracks, found by name; pages and panels ask the run's track and name none."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from engine.audit import tracks as entries
from engine.core import words
from engine.core.types import Values
from engine.report import phrasing
from engine.report.charts.panel import Choice, Panel
from engine.report.palette import Style
from engine.store.runs import Run

# What a track declares: its units, slider, measures, panels and what it hands out. Data where
# data will do.


Make = Callable[[Run, Choice], Panel]
Some = Callable[[Run, Choice], Panel | Iterable[Panel]]
"""One panel, or those that are there."""


def nothing_said(*_: Any) -> str:
    """For what a kind of audit has nothing to say of."""
    return ""


def given(there: Callable[..., bool], make: Make) -> Some:
    """A panel only of runs where that is there."""
    return lambda run, choice: (make(run, choice),) if there(run, choice) else ()


@dataclass(frozen=True)
class Level:
    """How much is cut: the slider of every page, an axis of many charts.

    `column` of the variants table (asked) and `realised` (what came out); `asked` of the request
    lists what was wanted.
    """

    key: str
    """The key of the widget, and the parameter in the address."""
    noun: str
    many: str
    help: str
    first: Callable[[Sequence[float]], float]
    """Where a reader starts, of the finished levels; never picked by result."""
    column: str = "sparsity"
    realised: str = "realised"
    asked: str = "sparsities"
    none: float = 0.0
    """The level of the dense model."""
    title: str = "Sparsity (share of heads cut)"
    axis: str = "share of heads cut"
    say: Callable[[float], str] = phrasing.percent
    is_ratio: bool = False
    """A factor, drawn on a logarithmic axis; else a share from 0 on."""


@dataclass(frozen=True)
class Measure:
    """A metric of the results table and how its numbers are written."""

    metric: str
    per_axis: bool = True
    few: str = "prompts"
    """What there are too few of where there is no interval."""
    names_group: bool = False
    """The row's `group` is worth naming: which subgroup it is about."""
    said: str = ""
    """Its name inside a sentence, where that is shorter."""
    null_label: str = ""
    """Its null band in a chart, where that is another than the track's."""
    null_means: str = ""
    """What it means that the dense model is inside it, where that is another thing than the track
    says."""
    of_what: str = ""
    """What it is measured on, where that is something else than the track's items."""

    def of(self, axis: str) -> str:
        """The measure with the axis that it is of, where it is of one."""
        return f"{self.name} of {axis}" if self.per_axis else self.name

    @property
    def word(self) -> words.Word:
        return words.gathered("METRICS")[self.metric]

    @property
    def name(self) -> str:
        return self.said or self.word.name

    @property
    def title(self) -> str:
        """The title of a chart's axis, with the good direction."""
        return f"{self.name} ({self.word.better} is better)"

    @property
    def most(self) -> float:
        """By how much an item moves a group at most: of a share, 1; inf where it is no share."""
        return math.inf if self.metric == "perplexity" or self.metric.endswith("auc") else 1.0

    @property
    def better(self) -> str:
        """What phrasing.direction gives when the change is for the better."""
        return "fell" if self.word.better == "lower" else "rose"

    @property
    def worse(self) -> str:
        return "rose" if self.word.better == "lower" else "fell"

    @property
    def sign(self) -> int:
        """1 or −1: times this, a smaller value is better."""
        return 1 if self.word.better == "lower" else -1

    @property
    def _is_perplexity(self) -> bool:
        return self.metric == "perplexity"

    def number(self, value: float) -> str:
        return phrasing.number(value, self._is_perplexity)

    def signed(self, value: float) -> str:
        """A change of it; below four decimals it is 0."""
        return phrasing.signed(value * (abs(value) >= 0.00005), self._is_perplexity)

    def span(self, low: float, high: float) -> str:
        shown = max(abs(low), abs(high)) >= 0.00005
        return phrasing.span(low * shown, high * shown, self._is_perplexity, self.few)

    def with_interval(self, row: Values, suffix: str = "") -> str:
        """Value and interval of a row whose columns end in `suffix`."""
        value, low, high = (row[f"{name}{suffix}"] for name in ("value", "low", "high"))
        return phrasing.with_interval(value, low, high, self._is_perplexity, self.few)

    def brief(self, row: Values) -> str:
        """A change with its interval where several are listed, e.g. "−0.094 (−0.140 to −0.048)"."""
        if phrasing.is_noise(row):
            return f"no clear change, ±{self.number(phrasing.half_width(row))}"
        span = self.span(row["delta_low"], row["delta_high"])
        return f"{self.signed(row['delta'])} ({span}{phrasing.doubt(row)})"

    def change(self, row: Values) -> str:
        return phrasing.change(row, self._is_perplexity, self.few)

    def null_said(self, row: Values) -> str:
        """The null band as a line of a hover; "" where there is none."""
        return (
            f"null band {self.span(row['null_low'], row['null_high'])}"
            if math.isfinite(row["null_high"])
            else ""
        )


@dataclass(frozen=True)
class Null:
    """What is said of null bands: what chance alone would give of a harm."""

    means: str = ""
    """What it means when the dense model's harm is inside its null band; "" where it means nothing
    for a cut."""
    label: str = "null band: what chance alone would give"
    """The band in a chart."""
    group_label: str = ""
    """A second band in a chart, that of columns group_null_*; "" where there is none."""
    made: str = ""
    """How the band is made, in a sentence."""


@dataclass(frozen=True)
class Reading:
    """One way to read harm and quality: the same measures in a headline, on the Pareto chart, along
    the slider."""

    name: str
    harm: Measure
    gap: Measure
    """Between worst-off and best-off; what levelling down is about."""
    worst: Measure
    best: Measure
    quality: Measure
    group: Measure
    """What is measured per subgroup behind them, in the groups table."""
    label: str = ""
    """Its name in the switch between readings, where the quality alone does not tell them apart."""
    mean: Measure | None = None
    """What is measured per subgroup, over all of them; None where that is the quality."""
    also: str = ""
    """A reading whose losses a verdict tells and weighs too."""

    @property
    def cards(self) -> tuple[Measure, ...]:
        """Numbers beside a verdict, of which the first three that were measured are shown."""
        return self.harm, self.worst, self.best, self.quality


@dataclass(frozen=True)
class FrontView:
    """What the Pareto chart can be read from: a split, and whether variants that are not reported
    are points too."""

    label: str
    split: str
    everything: bool
    said: str


@dataclass(frozen=True)
class Chance:
    """What chance alone would have cut: points behind the variants of the Pareto chart, and what
    they say of a method.

    points: columns value (harm) and value_q (quality), a row per cut; may be empty, where only
    `said` is told.
    """

    points: pd.DataFrame
    name: str
    said: str


@dataclass(frozen=True)
class Ahead:
    """A variant that nobody measured, as rows to lay beside those of the run's tables (by name;
    `variants` among them, marked in a column `predicted`). `said` says what it is predicted from
    and how well that went here so far.
    """

    variant: str
    tables: Mapping[str, pd.DataFrame]
    said: str
    seconds: float
    """What measuring it takes, about; NaN where nobody can say."""


Units = tuple[int, ...]
"""Flat units, from 0, ascending."""


@dataclass(frozen=True)
class Row:
    """Units of one layer in the order in which a score would cut them, the first to go first."""

    name: str
    units: Units


@dataclass(frozen=True)
class Bench:
    """What the page Bench shows of a kind of audit whose units can be switched off by hand.

    picture: every unit and what is known of it, those that are off marked, and where `protects`
    those that a reader protects; a click names one. ahead: what is predicted of a set; None where
    nothing can be, and `nothing` says why.
    tried: a set that was measured on `first`, None where it was not; said: how many sets were
    tried. units: reads what is pasted, or a mask.json; written: as it reads them. cut_of: the units
    of a row of the variants table, None for one that stands for several cuts. as_method: what the
    chosen method cuts, others in place of those that are protected.
    kept: what a kept set is called, "" where it was not kept.
    """

    picture: Callable[..., Panel]
    ahead: Callable[[Run, Choice, Units], Ahead | None]
    nothing: Callable[[Run, Choice], str]
    tried: Callable[[Run, Choice, Units], Panel | None]
    said: Callable[[Run, Choice], str]
    who: Make
    units: Callable[[Run, str | Path], Units]
    written: Callable[[Run, Units], str]
    cut_of: Callable[[Run, Values], Units | None]
    as_method: Callable[[Run, Choice, Sequence[int]], Units]
    name: Callable[[Run, int], str]
    """A unit, in a list."""
    example: str
    """How units are written, where some are pasted."""
    first: Callable[[Run], str]
    """What a set is tried on before it is measured: "validation prompts"."""
    last: str
    """What the last word is had on: "test prompts"."""
    first_split: Callable[[Run], str]
    seconds: Callable[[Run], float] = lambda run: math.nan
    """About what measuring a set takes; NaN where nobody can say."""
    about: str = ""
    """What must be known of every set, such as that nothing is trained again."""
    protects: bool = True
    """Whether a reader may protect some, which `as_method` then leaves on."""
    rows: Callable[[Run, Choice], Sequence[Row]] | None = None
    """The layers, of which so many can be switched off; None where units are few enough for a list.
    """
    ordered: Callable[[Run, Choice], str] = nothing_said
    """By what the units of the `rows` are ordered: "by the scores of AutoBot, mean over trials"."""


@dataclass(frozen=True)
class Ways:
    """How a variant is said that cuts no unit and stands in the dense model's place as a model of
    its own. Of a variant that cuts units, and of a method that does, all say "". A track without
    such ways leaves it as it is.

    instead: what stands there, in a sentence. made: what the model became, in a word or two beside
    "Dense": "Rounded to int8". label: a card's first sentence without its stop. saves: what it does
    to the size, as a sentence's beginning, from rows of the costs (variant, dense, mine).
    size_note: what must be read with its costs (variant, mine). untimed: why measured time says
    nothing of it, as the end of a sentence.
    """

    instead: Callable[..., str] = nothing_said
    made: Callable[..., str] = nothing_said
    label: Callable[..., str] = nothing_said
    saves: Callable[..., str] = nothing_said
    size_note: Callable[..., str] = nothing_said
    untimed: Callable[..., str] = nothing_said
    title: Callable[[str], str] = nothing_said
    """What the level of a method is, above the slider, where it is no share of units."""
    uncut: tuple[str, ...] = ()
    """Methods that cut nothing and still give models of their own."""
    own_levels: Callable[[str], bool] = lambda method: False
    """Whether the levels of a method are its own, and not those that the run was asked for."""
    axis: Callable[[Run], str] = nothing_said
    """The title of an axis along which all levels of a run lie that has such variants."""
    weighed: Callable[[Run], tuple[Make, ...]] = lambda run: ()
    """Charts that weigh cuts against them; none where the run has no others."""


@dataclass(frozen=True)
class Prediction:
    """What is said of a level before it is measured.

    stops: (run, method, axis) -> levels that a reader may ask for beyond the finished ones,
    ascending. ahead: what is predicted at one of them; None where nothing can be.
    """

    stops: Callable[[Run, str, str], Sequence[float]]
    ahead: Callable[[Run, Choice], Ahead | None]


@dataclass(frozen=True)
class Charts:
    """Charts by where they are shown; a folded one that files shall hold too is named in `of_axis`
    or `of_run` as well."""

    groups: Make
    """Who pays, by subgroup: small on Summary, and in Present."""
    harm: Make
    """Along the amount of the cut, as the next: page Trade-off."""
    quality: Make
    folded: tuple[Make, ...]
    """Below "More about it" on Summary."""
    of_axis: tuple[Some, ...]
    """What an export says about one axis, in reading order."""
    of_run: tuple[Some, ...]
    """What an export says about the whole run."""
    repeats: tuple[Make, ...] = ()
    """Of the page about reliability: the first alone, then two beside each other, then the rest."""
    judged: tuple[Make, ...] = ()
    """What other judges say of its texts; empty where no model writes any."""
    extras: Callable[[Run, Choice, bool], Iterable[Extra]] = lambda run, choice, offensive: ()
    """Tables of the report after an axis' panels; offensive: whether texts are shown."""


@dataclass(frozen=True)
class Comparison:
    """How audits of this kind are laid side by side on Compare."""

    binding: Mapping[str, str]
    """Settings that decide whether numbers of two audits may be compared, and why."""
    parts: tuple[tuple[str, str], ...]
    """Parts of run.json that were given from outside, each with the field that holds its hash."""
    counted: tuple[str, str]
    """A setting: its name, and the part of run.json whose `counts` it shows."""
    measures: str = ""
    """Names what is measured on what; kinds of audit with the same name are laid side by side."""


@dataclass(frozen=True)
class Front:
    """What the Pareto chart shows of a kind of audit."""

    question: Callable[[Run, Choice], str]
    views: Mapping[str, FrontView]
    marks: str
    """Columns of the variants table, apart by blanks, the method first: there every variant is a
    row."""
    at_level: bool = False
    """Whether only means at the chosen level compete: among all, the least cut always wins."""
    chance: Callable[[Run, Choice], Chance | None] = lambda run, choice: None
    """Cuts by chance alone at this choice; None where none are measured."""
    draw: Callable[[Values], str] = nothing_said
    """Which of several selections by chance a variant is, e.g. ", draw 1"."""


@dataclass(frozen=True)
class Flags:
    """How charts mark variants with which something is wrong."""

    of: Callable[[Values], str] = nothing_said
    """What is wrong with a variant; "" where nothing is."""
    symbol: str = "x"
    said: str = ""
    """What the marks are, in a sentence."""


@dataclass(frozen=True)
class Screens:
    """How pages read for a kind of audit, where they differ."""

    pages: tuple[str, ...]
    """Pages that not every kind of audit has, the most telling first. Where two kinds name a page,
    it shows both through what is declared here."""
    tabs: Mapping[str, tuple[str, ...]]
    """Of the pages that several kinds have, the tabs in reading order: FILE.NAME, the file in
    pages/tabs."""
    questions: Mapping[str, str] = field(default_factory=dict)
    """Titles of this kind's own pages, and of others that read differently here."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """Names of pages in the navigation that are others than everywhere."""


@dataclass(frozen=True)
class Handout:
    """What the Export page says about files that differ by track."""

    mask: str
    apply: str
    """The command that replays a mask; {name} is the file."""
    checkpoint: str
    checkpoint_wait: str
    loading: str
    """Markdown: how the saved weights are loaded, with what run.json says of the {model}."""
    standing: str = ""
    """What is written of a variant that stands in the dense model's place and has no mask; "" where
    there are none."""
    texts: str = "Off: the report and the tables hold no text a model wrote."
    """What stays out of the files until asked for, where a run holds texts."""
    foreign: tuple[Foreign, ...] = ()
    """Files in the forms of other programs."""


@dataclass(frozen=True)
class Foreign:
    """A file in the form of another program, made from a finished run: `name` is the word for
    `export --what`.

    `write` gives its text, or raises RequestError where the run does not hold what it needs.
    """

    name: str
    title: str
    about: str
    file: str
    mime: str
    write: Callable[[Run], str]


@dataclass(frozen=True)
class Maps:
    """What the page about heads shows of a kind of audit whose heads have an importance at several
    stages.

    `scores` and `groups` of a run are what a reader chooses from ("" is all texts); `panels` take
    them as `score` and `group`. `selectable` are those of which a head can be picked; `numbers` is
    the table about one head.
    """

    scores: Callable[[Run, Choice], Sequence[str]]
    groups: Callable[[Run, Choice], Sequence[str]]
    name: Callable[[str], str]
    """A score in words."""
    wide: tuple[Make, ...]
    beside: tuple[Make, Make]
    selectable: tuple[Make, ...]
    numbers: Callable[[Run, int], pd.DataFrame]


@dataclass(frozen=True)
class Changed:
    """Examples of what changes when a unit is off: columns label, prompt, before, before_note,
    after, after_note; texts as the model wrote them, unescaped. `said`: what is off and how these
    were picked, or why there are none.
    """

    table: pd.DataFrame
    said: str


@dataclass(frozen=True)
class Effects:
    """What the page about heads shows where every head has an effect on bias and on quality. The
    picture of what was cut and protected and a map of each, which ring the head that they get as
    `unit`. About one head: its card, whose table holds two columns of text, all its numbers, and
    examples of what changes without it.
    """

    picture: Make
    bias: Make
    quality: Make
    card: Callable[[Run, Choice, int], Panel]
    numbers: Callable[[Run, int], pd.DataFrame]
    changed: Callable[[Run, Choice, int], Changed]
    ranked: Callable[[Run, Choice], Sequence[int]]
    """The units in the order in which a reader goes from head to head."""
    first: tuple[str, ...] = ()
    """Names of the facts of the card that stand open beside the maps; the others are folded. Empty:
    all."""


@dataclass(frozen=True)
class Published:
    """Published scores of heads, shown without an audit: what the files are, how they are read, and
    what the pages about reliability and about heads show of them."""

    about: str
    read: Callable[[Sequence[Path]], Any]
    reliability: Callable[[Any, Choice], Iterable[Panel]]
    across: Callable[[Any, Choice, str], Iterable[Panel]]
    """What the page about heads shows of several axes, with the kind of correlation: "pearson" or
    "spearman"."""


@dataclass(frozen=True)
class Shelf:
    """What is here to start from: one table of the library, columns Name, From, Note."""

    title: str
    table: pd.DataFrame
    note: str = ""
    models: bool = False
    """Its names are models that can be audited."""


@dataclass(frozen=True)
class Benchmarks:
    """Published tests that the variants of an audit are measured on beside its own measure, if
    asked.

    names: those that a run was measured on. known: all there are, title by name; wants: what file a
    name reads. panel and changed: (run, choice, name) -> what it says of the chosen variant, and
    the items whose answer changed.
    """

    names: Callable[[Run], Sequence[str]]
    known: Callable[[], Mapping[str, str]]
    wants: Callable[[str], str]
    panel: Callable[..., Panel]
    changed: Callable[..., Changed]
    intervals: Callable[[Values | None], str]
    """What the interval of a row of the results is, where it is of such a test; else ""."""
    files: Callable[[Run], Mapping[str, str]] = lambda run: {}
    """Which file of each benchmark a run was measured on, with its digest, by title."""


@dataclass(frozen=True)
class Flips:
    """Answers of the uncut model and of a cut one to the same items with the same random numbers.

    table: a row per answer. Its columns are group ("" for none), before and after (whether it is
    bad), unit (the item that both answered) and word (names what moves together; `by` is what).
    Where known there are template (what else moves together, across words), other (another answer,
    as bad) and sure (how sure the uncut model was).
    items: what is counted. bad, good: what those did that flipped. again: how the uncut model gave
    several answers before the cut, "" where it gave one. note: what the answers are.
    """

    table: pd.DataFrame
    items: str
    bad: str
    good: str
    by: str
    again: str
    note: str


@dataclass(frozen=True)
class Extra:
    """A table of the report that is no panel, for instance example texts."""

    question: str
    table: pd.DataFrame
    note: str


@dataclass(frozen=True)
class Telling:
    """The plain words in which a verdict (`engine.report.verdict`) tells this kind of audit; it
    decides what is said. Names of groups come quoted and unescaped."""

    does: Callable[[Run, Values], str]
    """What was done to the model: "Cutting 9 of 48 heads"."""
    groups: Callable[[Run, str], str]
    """The groups of an axis in a few words; said to be invented only where that is known: "four
    invented nationalities"."""
    harm: Callable[[Run, Choice], str]
    """What should be small: "the gap in accuracy between “a” and “b”"."""
    chance: str = "chance alone"
    """What a null band is made of, for a sentence that says what it would give."""
    beyond: Callable[[Run, Choice, Values], str] = nothing_said
    """What else than a difference between groups may be behind a harm that chance alone does not
    explain, of a row of the results; "" where nothing is known."""
    more: Callable[[Run, Choice, Values], str] = nothing_said
    """One more sentence that belongs to the verdict on a variant; "" where there is none."""
    beside: Callable[[Run, Choice, Values], list[tuple[str, str]]] = lambda run, choice, variant: []
    """What else clearly rose, to somebody's harm, that no reading holds: in short, and in full."""
    unusable: Callable[[Run, Values], str] = nothing_said
    """The sentence in place of a verdict on a variant that is no model any more; "" for every
    other."""
    unlearned: Callable[[Run], str] = nothing_said
    """The sentence in place of every verdict where the uncut model has not learned its task; ""
    where it has."""


@dataclass(frozen=True)
class Nouns:
    """What sentences call the things that an audit of this kind is about."""

    about: str
    """For lists: "attention heads of a language model"."""
    one: str
    many: str
    """The unit that is cut: "head", "heads"."""
    item: str
    items: str
    """What a measurement is made on: "prompt", "prompts"."""
    whole: str = "dense model"
    """The model before the cut."""
    repeat: str = "trial"
    """One of several models of an arm, where there are several."""
    reworded: Callable[[str], str] = lambda text: text
    """A text of the track's vocabulary, whose units may be called otherwise in this run."""


@dataclass(frozen=True)
class Methods:
    """How the methods of an audit are shown and told."""

    style: Callable[..., Style]
    """Colour, symbol and dash of (method, dark=False), the same in every chart."""
    definition: Callable[[str], str]
    """What a method does, one sentence; "" where it is not known."""
    order: Callable[[Iterable[str]], list[str]]
    """Methods in the order a reader should meet them."""
    compared: Callable[[Sequence[str], str], list[str]] = lambda methods, chosen: list(methods)
    """The run's methods that every comparison shows beside the chosen one."""
    not_built: str = "Not finished for this axis"
    """Why a method of the run may have no variant for an axis."""
    line_labels: bool = True
    """Whether lines of charts are named at their ends; else in a legend, where there are many with
    long names."""


def cut_of(run: Run, variant: Values) -> str:
    """How many units of all were cut."""
    return f"{variant['n_cut']:.0f} of {run.n_units} {track_of(run).nouns.many}"


@dataclass(frozen=True)
class Variants:
    """How rows of the variants table are said."""

    label: Callable[[Values], str]
    """In words: "FASP, 20 % cut"."""
    amount: Callable[[Run, Values], str]
    """How much was cut, asked and realised: "6 of 32 heads (18.8 %; asked 20 %)"."""
    reached: Callable[[Run, Values], str]
    """How much was cut, for the hover of a point in a chart."""
    columns: str
    """Columns in charts' tables, apart by blanks; the method first."""
    mark: Callable[[Values], str]
    """What sets one apart from others with its label, e.g. ", γ = 0.3"; else ""."""
    cut_of: Callable[[Run, Values], str] = cut_of
    """How many units of all, for a hover."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """Of columns that are called otherwise here than by `engine.report.schema`."""


@dataclass(frozen=True)
class Readings:
    """Ways to read harm and quality."""

    names: tuple[str, ...]
    """The first is the usual one."""
    of: Callable[[str], Reading]
    details: Callable[[str], tuple[Measure, ...]]
    """Everything measured about one variant, for a table."""
    own: Callable[[Run], tuple[str, ...]] | None = None

    def offered(self, run: Run) -> tuple[str, ...]:
        """Those of this run that a reader may switch between."""
        return self.own(run) if self.own else self.names


@dataclass(frozen=True)
class Evidence:
    """What numbers rest on, and how far they reach."""

    data: Callable[[Run], str]
    """What the run was measured on, in a few words: "avatars by skin". Names of users are
    unescaped."""
    measured_on: Callable[[Run, Values | None, str], str]
    """How a number of a split was measured: on how many of what, how often, judged by which
    model."""
    intervals: str
    """What the intervals are."""
    too_few: Mapping[str, str]
    """Verdicts of the groups table in a sentence."""
    caveat: Callable[[Run, Choice, Values | None], str]
    """How it was measured."""
    notes: Callable[[Run], list[str]]
    """What must be known about the run before any chart of it is read."""
    limits: Callable[..., list[str]]
    """What a report of (run, short=False) cannot say; in short, what a model card cannot say."""
    settings: Callable[[Run], list[tuple[str, Any]]] = lambda run: []
    """Settings that were decided by the run itself."""


@dataclass(frozen=True, eq=False)
class Track:
    """A kind of audit, as data. It stands in `track.py` of its folder in engine.tracks, which the
    folder's `__init__` names."""

    name: str
    nouns: Nouns
    level: Level
    methods: Methods
    variants: Variants
    readings: Readings
    evidence: Evidence
    screens: Screens
    charts: Charts
    front: Front
    comparison: Comparison
    handout: Handout
    telling: Telling
    """The plain words of its verdicts."""
    flips: Callable[[Run, Choice, int | None], Flips | None]
    """The answers before and after a cut, of one trial or all of them; None where none were
    kept."""
    null: Null
    """What is said of null bands."""
    flags: Flags = Flags()
    maps: Maps | Effects | None = None
    """What the page about heads shows; None where the units are no heads."""
    ways: Ways = Ways()
    """Ways to make the model smaller other than cutting units."""
    bench: Bench | None = None
    """How units are switched off by hand; None where they cannot be."""
    of_run: Callable[[Run], Track] | None = None
    """This kind of audit with the words of one run, whose units may have a name of their own."""


@cache
def tracks() -> Mapping[str, Track]:
    """Every track by name. Found at the first call, not at import: a track's file imports the
    panels it is made of."""
    return {name: entry.part("screen") for name, entry in entries.tracks().items()}


def track_name(meta: Mapping[str, object]) -> str:
    """The name of a run's track, from its run.json."""
    return entries.track_of_meta(meta).name


def track_of(run: Run) -> Track:
    """The track of a run, in the run's own words. RequestError for one that this version does not
    know."""
    track = tracks()[track_name(run.meta)]
    return track.of_run(run) if track.of_run else track


def terms_of(run: Run) -> Mapping[str, str]:
    """Words of its vocabulary and what they mean."""
    track = track_of(run)
    found = words.terms(track.name)
    return {name: track.nouns.reworded(text) for name, text in found.items()}


def prediction_of(run: Run) -> Prediction | None:
    """What is said of levels of a run that nobody measured; None where nothing can be."""
    found: Prediction | None = entries.track_of_run(run).given("prediction")
    return found


def benchmarks_of(run: Run) -> Benchmarks | None:
    """Published tests that its variants can be measured on; None where there are none."""
    found: Benchmarks | None = entries.track_of_run(run).given("benchmarks")
    return found


def question(page: str, run: Run | None) -> str:
    """A page's title: what the run's track calls it, else what it is called everywhere, or by
    another track that it shows."""
    known = [words.gathered("PAGES"), *(track.screens.questions for track in tracks().values())]
    if run:
        own = track_of(run)
        known = [own.screens.questions, words.of_track(own.name, "PAGES"), *known]
    return next(titles[page] for titles in known if page in titles)
