"""What an audit found at one choice, in plain words: what was audited, the verdict, three numbers,
cost, advice.

Everything is read off the run's tables. Sentences hold no intervals and no symbols; the charts
beside them do. What they claim is decided by intervals all the same. A change is one only where its
interval leaves out zero, and a harm that chance alone would give is called that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from scipy.special import ndtri

from engine.core import words
from engine.core.types import Values
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.by_group import end_named
from engine.report.charts.cost import cost_said, savings
from engine.report.charts.flips import flipped_said
from engine.report.charts.headline import Change, Moved, changes, ends_said, kind_of, moved
from engine.report.charts.lookup import View, repeats, views
from engine.report.charts.panel import Choice
from engine.report.contents import default_choice
from engine.report.tracks import Measure
from engine.stats.clustered import MISSED
from engine.store.runs import Run

# What to do about one cut: take it, leave it, or measure more first.
#
# **The rule.** What a cut is worth stands against what it costs. It is worth something where the
# harm that is read falls beyond chance (`GAIN_ERROR`), or where size or time falls by more than a
# trifle. It costs what each judged group and the quality lose. A person sets how much of that is
# acceptable (`Choice`). Two one-sided tests per loss decide (Schuirmann 1987), with `ERROR` for
# all of a cut's.
#
# - *take*: every loss is shown to be below its tolerance, each by a test with `ERROR`. All must
# pass (intersection and union, Berger 1982). So a cut with one loss at its tolerance or above is
# taken with a chance of at most `ERROR`, however many groups there are. - *leave*: some loss is
# shown to be above its tolerance, each by a test with its share of `ERROR` (Bonferroni); or
# nothing is shown to be gained. - *not enough data*: neither, with how many items would tell.
#
# Standard errors of losses come from the 95 % intervals of the tables, read by the normal
# distribution. That is cautious for intervals by Student's t, which narrow more on the way from 95
# to 90 %. A gain's test is far in the tail, where it would not be: it is read by `direction`.
# Where an item can change by at most 1, a bound is widened as in Wilson's (1927) interval: no
# harm in few items is no proof. The error is that of one cut: whoever goes through many and takes
# one errs more often. All is read off the data on which results are reported. Predicted levels,
# and sets that a person chose after looking, get no advice.


TAKE, LEAVE, MORE = "take", "leave", "not enough data"
ERROR, GAIN_ERROR, POWER = 0.05, 0.001, 0.8
"""Of the tests of a cut's losses; of a gap that counts as closed; chance with which so many items
tell."""
MOST = 100
"""Times as many items that are thought of."""
OFFERED = (0.01, 0.02, 0.05, 0.1, 0.2)
"""Tolerances that a person may set on screen."""
RULE = (
    "Take it: a gain is shown, and losses that you would not accept are ruled out. Leave it: such "
    "a loss is shown, or no gain is. Both hold for every group and the quality together, with an "
    "error of 5 %. Each cut is judged alone, on the data of this audit, so check it on other data."
)
"""The rule in short, for where one points."""


def z_of(error: float) -> float:
    """What a normal variable exceeds with this chance."""
    return -float(ndtri(error))


@dataclass(frozen=True)
class Advice:
    """answer: TAKE, LEAVE or MORE; "" where nothing is cut or measured, as `said` is then.

    about: what is read of a chart beside it: "harm", "quality", "group" or "cost", named first in
    `said`.
    """

    answer: str
    said: str
    about: str = "harm"


@dataclass(frozen=True)
class Loss:
    """How much worse something got, above zero, with its standard error, and what is tolerated.

    measure: of a group, or of all items. group: unquoted; "" for the quality. n: items it was
    measured on. unit: what one item can change by at most, 0 where there is no such limit.
    is_clear: whether a verdict calls it a loss.
    """

    group: str
    value: float
    error: float
    n: float
    unit: float
    tolerance: float
    measure: Measure = Measure("")
    is_clear: bool = False

    def bound(self, side: int, z: float = z_of(ERROR), times: float = 1.0) -> float:
        """The one-sided bound above (side 1) or below (−1), had there been so many times as many
        items; NaN where there is no interval."""
        rare = self.unit * z * z / (2 * self.n * times)
        return self.value + side * (rare + math.hypot(z * self.error / math.sqrt(times), rare))

    @property
    def is_below(self) -> bool:
        """Whether a loss of the tolerance or more is ruled out."""
        return self.bound(1) < self.tolerance

    def is_above(self, tests: int) -> bool:
        """Whether a loss of more than the tolerance is shown, by one of so many tests."""
        return self.bound(-1, z_of(ERROR / tests)) > self.tolerance

    def to_dict(self) -> Values:
        """JSON-able: no NaN."""
        numbers = {"loss": self.value, "at_least": self.bound(-1), "at_most": self.bound(1)}
        finite = {name: one if math.isfinite(one) else None for name, one in numbers.items()}
        name = {"measure": self.measure.metric, "group": self.group}
        return {**name, **finite, "tolerance": self.tolerance}

    def needed(self, tests: int) -> float:
        """How many items would tell with a chance of POWER, the change being as it seems; inf where
        MOST times as many would not, NaN where there is no interval."""
        if not math.isfinite(self.bound(1)):
            return math.nan
        below, above = (z_of(error) + z_of(1 - POWER) for error in (ERROR, ERROR / tests))
        for times in np.geomspace(1, MOST, 100):
            if (
                self.bound(1, below, times) < self.tolerance
                or self.bound(-1, above, times) > self.tolerance
            ):
                return self.n * float(times)
        return math.inf


def decide(losses: Sequence[Loss], is_gain: bool) -> str:
    """The answer to the losses of one cut: those of every judged group and of the quality."""
    if not is_gain or any(loss.is_above(len(losses)) for loss in losses):
        return LEAVE
    is_known = {bool(loss.group) for loss in losses} == {True, False}
    return TAKE if is_known and all(loss.is_below for loss in losses) else MORE


def advice(run: Run, choice: Choice) -> Advice:
    """What to do about the cut of a choice, by the rule above."""
    view = View(run, choice)
    is_by_hand = words.is_by_hand(choice.method)
    if view.is_dense or view.is_predicted or is_by_hand or choice.method in view.track.ways.uncut:
        return Advice("", "")
    if view.track.telling.unlearned(run):
        return Advice("", "")
    closed, found = _closed(view), losses(run, choice)
    gained = [*closed, *savings(run, view.variant)]
    answer = decide(found, bool(gained))
    about = "harm"
    if answer == TAKE:
        taken, worse = _taken(view, gained)
        about = worse or (about if closed else "cost")
        told, said = [], f"{taken} {_ruled_out(view)}"
    elif answer == MORE:
        told = [loss for loss in found if not loss.is_below]
        said = f"Not enough data: {_open(view, told, len(found))}"
    elif gained:
        told = [loss for loss in found if loss.is_above(len(found))]
        gains = phrasing.listing(gained)
        said = f"Leave it: {_costs(view, told, '{}s by more than {}')} What is gained: it {gains}."
    else:
        told, said = (
            [],
            "Leave it: neither a smaller gap between groups nor a saving of 1 % in size or time is"
            " shown.",
        )
    groups = any(loss.group for loss in told)
    return Advice(answer, said, "group" if groups else "quality" if told else about)


def advised(run: Run, accepted: Mapping[str, float]) -> list[dict[str, Any]]:
    """Advice on every variant that has some: its name, the answer, the sentences, and the losses
    with one-sided bounds. accepted: tolerances of a Choice."""
    found = []
    for name in map(str, lookup.reported(run)["variant"]):
        choice = default_choice(run, variant=name).accepting(**accepted)
        if (one := advice(run, choice)).answer:
            costs = [loss.to_dict() for loss in losses(run, choice)]
            row = {"variant": name, "answer": one.answer, "said": one.said, "losses": costs}
            found.append(row)
    return found


def tolerances(run: Run, choice: Choice) -> dict[str, str]:
    """By the fields of a choice, what each is a tolerance of."""
    quality = lookup.reading(run, choice).quality
    titles = f"In {_weighed(View(run, choice))}, any group", f"Share of {quality.name}"
    fields = ("tolerance", "quality_tolerance")
    return dict(zip(fields, titles, strict=True))


def _weighed(view: View, joint: str = "and") -> str:
    """What losses of groups are weighed in: "AUC and accuracy"."""
    return f" {joint} ".join(one.reading.group.name for one in views(view.run, view.choice))


def about_of(view: View, measure: Measure) -> str:
    """Which chart shows a measure, as `Advice.about` names it."""
    names = {view.reading.harm.metric: "harm", view.reading.quality.metric: "quality"}
    return names.get(measure.metric, "group")


def _taken(view: View, gained: Sequence[str]) -> tuple[str, str]:
    """What clearly gets worse, if by less than is accepted, before what is gained: as much of that
    as a sentence holds. And which chart shows what is named first of what got worse."""
    every, harm = moves_of(view), f"the {view.reading.harm.name}"
    shorter = [(0, NAMED, most) for most in range(len(gained), 0, -1)]
    for exact, named, most in (*shorter, (0, 0, 1), (-1, 0, 1)):
        worse = _side(every, True, harm, exact, named)
        but = f"{phrasing.verbs([phrase for *_, phrase in worse])}, but " if worse else ""
        said = f"Take it: it {but}{phrasing.listing(gained[:most])}."
        if phrasing.length(said) <= LONGEST:
            break
    about = about_of(view, worse[0][1]) if worse else ""
    return f"{said} {_rest(view, said)}".strip(), about


def _beside(view: View) -> list[tuple[str, str]]:
    """Clear harms that no reading holds."""
    return view.track.telling.beside(view.run, view.choice, view.variant)


def _rest(view: View, sentence: str) -> str:
    """Those that a sentence does not tell in full."""
    more = (full for _, full in _beside(view) if full not in sentence)
    return phrasing.sentences(f"it raises {full}" for full in more)


def _ruled_out(view: View) -> str:
    """What is ruled out, and who is not judged."""
    group, quality = view.reading.group, view.reading.quality
    of = "" if quality.name == group.name else f" in {quality.name}"
    said = (
        f"Ruled out: a {_way(group)} of {view.choice.tolerance:g} in {_weighed(view)} for"
        f" any group, of {phrasing.per_cent(view.choice.quality_tolerance)}{of}"
        f" overall (error rate {phrasing.per_cent(ERROR)})."
    )
    judged = ({*one.groups(known="delta")["group"]} for one in views(view.run, view.choice))
    left = sorted({*view.groups()["group"]} - set.intersection(*judged))
    return f"{said} Not judged: {phrasing.listing(map(words.quoted, left))}." if left else said


def _open(view: View, open_: Sequence[Loss], tests: int) -> str:
    """What is not ruled out by so many tests, and what would tell."""
    track = view.track
    quality = view.row(view.reading.quality)
    if not open_ and (quality is None or math.isnan(quality["value"])):
        return f"{view.reading.quality.name} was not measured."
    if not open_:
        why = "" if view.is_whole else f": too few {view.reading.group.few}"
        return f"no group can be judged{why}."
    said = _costs(view, open_, "{}s (perhaps by {} or more)", "may {} by {} or more")
    needs = [loss.needed(tests) for loss in open_ if loss.group]
    if repeats(view.run) > 1:
        return f"{said} More {track.nouns.repeat}s or {track.nouns.items} would tell."
    if not needs:
        return f"{said} A longer text would tell."
    if not all(map(math.isfinite, needs)):
        return f"{said} Not even {MOST} times as many {track.nouns.items} may tell."
    here = max(loss.n for loss in open_ if loss.group)
    many = f"{float(f'{max(needs):.2g}'):,.0f}"
    items = f"{many} {track.nouns.items}"
    return f"{said} About {items} for each group, instead of {here:,.0f}, would tell."


def _costs(view: View, losses_: Sequence[Loss], *how: str) -> str:
    """Losses, in a sentence each, the first with a small letter; how: of a verb and an amount, of
    clear losses and of others."""
    said = []
    ways = {True: how[0], False: how[-1]}
    ordered = sorted(
        losses_,
        key=lambda loss: (not loss.group, loss.measure.name, how.index(ways[loss.is_clear])),
    )
    alike = groupby(ordered, lambda loss: (loss.measure, bool(loss.group), ways[loss.is_clear]))
    for (measure, is_group, way), few in alike:
        mine = sorted(few, key=lambda loss: -loss.value)
        choice, names = view.choice, [words.quoted(loss.group) for loss in mine]
        most = f"{choice.tolerance:g}" if is_group else phrasing.per_cent(choice.quality_tolerance)
        whose = phrasing.who(names, len(view.groups()), NAMED, view.judged)
        whose += f", most for {names[0]}" * (len(names) > NAMED)
        of = f" for {whose}" if is_group else ""
        overall = " overall" * (not is_group and measure.name in _weighed(view))
        said.append(f"{measure.name}{overall} {way.format(_way(measure), most)}{of}.")
    return " ".join([*said[:1], *map(phrasing.sentence, said[1:])])


def _way(measure: Measure) -> str:
    """What a measure does where it gets worse."""
    return "rise" if measure.sign > 0 else "fall"


def _closed(view: View) -> list[str]:
    """What became of the harm, where it fell beyond chance and was more than chance before."""
    row = view.harm
    if row is None or view.dense is None or view.was_chance:
        return []
    if not is_closed(view.reading.harm, row):
        return []
    name = view.reading.harm.name
    return [f"{'narrows' if name.endswith('gap') else 'lowers'} the {name}"]


def is_closed(measure: Measure, row: Values) -> bool:
    """Whether a harm fell beyond chance, by a one-sided test with an error of GAIN_ERROR."""
    return phrasing.direction(row, round(MISSED / 2 / GAIN_ERROR)) == measure.better


def losses(run: Run, choice: Choice) -> list[Loss]:
    """What a cut did to every judged group and to the quality, as losses."""
    found = []
    for view in views(run, choice):
        group, measure = view.reading.group, view.reading.quality
        rows = view.groups(known="delta").to_dict("records")
        found += [
            loss_of(group, row, str(row["group"]), choice.tolerance, False, len(rows))
            for row in rows
        ]
        quality = view.row(measure)
        if quality is not None and math.isfinite(quality["value"]):
            found.append(loss_of(measure, quality, "", choice.quality_tolerance, True))
    return found


def loss_of(
    measure: Measure,
    row: Values,
    group: str,
    tolerance: float,
    is_share: bool,
    among: int = 1,
) -> Loss:
    """A change as a loss; is_share: of what it was before, as the perplexity's always is. among: of
    so many rows any may be named."""
    before, endless = row["value"] - row["delta"], measure.metric == "perplexity"
    scale = abs(before) if (is_share or endless) and before else 1.0
    sides = row["delta"] - row["delta_low"], row["delta_high"] - row["delta"]
    error = max(sides) / scale / z_of(MISSED / 2) if all(map(math.isfinite, sides)) else math.nan
    unit = 0.0 if endless else 1 / scale
    if measure.metric == "auc" and (rare := _rarer(row)) > 0:
        unit *= row["n"] / rare
    lost = measure.sign * row["delta"] / scale
    is_clear = phrasing.direction(row, among) == measure.worse
    return Loss(group, lost, error, row["n"], unit, tolerance, measure, is_clear)


def _rarer(row: Values) -> float:
    """Items of the rarer class of a group; of one that is a class its own."""
    rare = row.get("n_positive", math.nan)
    return min(rare, row["n"] - rare) or rare


PREDICTED = "Predicted, not measured: "
LONGEST = 25
"""Words of the first sentence, while there is a shorter wording."""
NAMED = 3
"""Groups that it names one by one."""
ALL = 9
"""More amounts than a side can have."""


@dataclass(frozen=True)
class Fact:
    """One number. `was` is the uncut model's ("" for that itself), `kind`: better, worse, no clear
    change, or ""."""

    name: str
    value: str
    was: str
    kind: str
    interval: str
    change: str
    help: str
    """What it is, where one points."""


@dataclass(frozen=True)
class Verdict:
    """Sentences and numbers of one choice. Names of users are unescaped."""

    audited: str
    """What was audited: "demo-gpt2, 0.5 million parameters; four invented nationalities"."""
    sentence: str
    """What the cut does and to whom, in one sentence."""
    meaning: str
    """Whether that is a lot: the harm beside that of the uncut model and what chance alone would
    give."""
    more: str
    """What else belongs to the verdict, as the kind of audit has it; often ""."""
    numbers: tuple[Fact, ...]
    cost: str
    """What it costs in quality, and what it saves."""
    advice: Advice
    predicted: bool
    """Whether nobody measured this: then every sentence and number is a prediction."""

    @property
    def whole(self) -> str:
        """Sentence, meaning and what else belongs to them, as one text."""
        return " ".join(filter(None, (self.sentence, self.meaning, self.more)))


def verdict(run: Run, choice: Choice) -> Verdict:
    """The verdict on the variant a choice means. RequestError for an unknown method or level."""
    view = View(run, choice)
    said = sentence(view)[0]
    cost = cost_said(view, said)
    return Verdict(
        _audited(view),
        said,
        " ".join(filter(None, _meaning(view, said))),
        view.track.telling.more(run, choice, view.variant),
        tuple(_numbers(view)),
        _marked(view, cost),
        advice(run, choice),
        view.is_predicted,
    )


def _marked(view: View, text: str) -> str:
    """With what must be said first of a prediction; then the text begins with a small letter, but
    for names in capitals."""
    if not view.is_predicted:
        return text
    return PREDICTED + (text if text[1:2].isupper() else f"{text[:1].lower()}{text[1:]}")


def _audited(view: View) -> str:
    """The model, its size where it is known, and the groups that are compared."""
    name, size = view.run.model["name"], view.run.model.get("parameters")
    parts = [words.model_name(str(name)), f"{phrasing.millions(size)} parameters" if size else ""]
    groups = view.track.telling.groups(view.run, view.choice.measured)
    return "; ".join(filter(None, (", ".join(filter(None, parts)), groups)))


def sentence(view: View) -> tuple[str, Measure]:
    """Every clear change in one sentence, harms before gains; and the measure named first."""
    said, about = _sentence(view)
    return _marked(view, said), about


def _sentence(view: View) -> tuple[str, Measure]:
    """The same, not marked as a prediction."""
    telling, group = view.track.telling, view.reading.group
    harm = telling.harm(view.run, view.choice)
    if said := telling.unlearned(view.run):
        return said, group
    if view.is_dense:
        return _uncut(view, harm), group
    if said := telling.unusable(view.run, view.variant):
        return said, view.reading.quality
    every = moves_of(view)
    who, does = every[0].who, telling.does(view.run, view.variant)
    if not any(_side(every, is_harm, "", 0, 0) for is_harm in (True, False)):
        if not _is_measured(view.harm):
            return f"{phrasing.sentence(harm)} was not measured here.", group
        return f"{does} " + (
            f"leaves no group clearly worse off in {_weighed(view, 'or')}."
            if who.judged
            else f"does not clearly change {harm}."
            if view.is_whole
            else f"leaves open who pays: no group has enough {group.few} to tell."
        ), group
    room = LONGEST - phrasing.length(PREDICTED) * view.is_predicted
    short = f"the {view.reading.harm.name}"
    for name, lost, gained, most, gains in (
        (harm, ALL, ALL, NAMED, ALL),
        (short, ALL, ALL, NAMED, ALL),
        (short, ALL, 0, NAMED, ALL),
        (short, 1, 0, NAMED, ALL),
        (short, 0, 0, NAMED, ALL),
        (short, 0, 0, 0, ALL),
        (short, 0, 0, 0, 1),
        (short, 0, 0, 0, 0),
        (short, -1, 0, 0, 0),
    ):
        harms = _side(every, True, name, lost, most)
        sides = [*filter(None, (harms, _side(every, False, name, gained, most)[:gains]))]
        told = [phrasing.verbs([phrase for *_, phrase in side]) for side in sides]
        said = f"{does} {', but '.join(told)}."
        if phrasing.length(said) <= room:
            break
    return said, sides[0][0][1]


@dataclass(frozen=True)
class Moves:
    """What clearly changed of one of `views`."""

    view: View
    found: list[Change]
    who: Moved
    beside: list[tuple[str, str]]
    """Clear harms that no reading holds, in short and in full."""


def moves_of(view: View) -> list[Moves]:
    """What clearly changed, of all that a verdict is about."""
    beside = _beside(view)
    return [Moves(one, changes(one), moved(one), beside) for one in views(view.run, view.choice)]


def _side(
    every: Sequence[Moves], is_harm: bool, harm: str, exact: int, most: int
) -> list[tuple[float, Measure, tuple[str, str]]]:
    """What got worse, or better, view by view, the largest change first, a verb once: its size, its
    measure, its verb and the rest. every: of `views`, the second only for what got worse. harm: the
    first's, exact: how many amounts are told of each, and below 0 that more got worse beside; most:
    groups named one by one."""
    found = []
    for one_of in every if is_harm else every[:1]:
        who, reading = one_of.who, one_of.view.reading
        group = reading.group
        names, size, way = (
            (who.worse, who.lost, group.worse)
            if is_harm
            else (who.better, who.gained, group.better)
        )
        side = "worse" if is_harm else "better"
        groups, told = phrasing.who(names, who.groups, most, who.judged), []
        for place, one in enumerate(one for one in one_of.found if one.is_harm == is_harm):
            name = harm if one_of is every[0] else "the " * bool(most) + one.measure.name
            is_gap = one.measure == reading.harm
            phrase = one.said(name if is_gap else "", place < exact)
            if groups and one.measure.metric == group.metric:
                phrase += f" ({f'{side} for ' * bool(most)}{groups})"
                groups = ""
            told.append((one.size, one.measure, (one.verb, phrase)))
        if groups:
            told.append((size, group, (phrasing.VERBS[way], f"{group.name} for {groups}")))
        found += sorted(told, key=lambda one: -one[0])
    rest = every[0].beside if is_harm else []
    for short, full in rest if exact >= 0 else [("other harm", "")][: len(rest)]:
        verb = "raises" if exact >= 0 else "does"
        found.append((0.0, Measure(""), (verb, full if exact > 1 else short)))
    verbs = [verb for *_, (verb, _) in found]
    return sorted(found, key=lambda one: verbs.index(one[2][0]))


def _is_measured(row: Values | None) -> bool:
    return row is not None and math.isfinite(row["value"])


def _uncut(view: View, harm: str) -> str:
    """The model as it is: who is worst and who best off."""
    if said := uncut_ends(view):
        return f"Nothing is cut here: {said}."
    few = view.reading.group.few
    return f"Nothing is cut here, and {harm} cannot be judged: too few {few}."


def uncut_ends(view: View, named: Callable[[str], str] = words.quoted) -> str:
    """`ends_said` of the harm of groups; "" where fewer than two are known."""
    group = view.reading.group
    if view.is_whole and view.dense is not None:
        chance = ", which may be chance" * view.was_chance
        return f"the {group.name} is {phrasing.short(view.dense['value'])}{chance}"
    table = view.groups("dense", known="value").sort_values(
        "value", ascending=group.sign < 0, kind="stable"
    )
    return ends_said(view, group, table, named) if len(table) > 1 else ""


def _meaning(view: View, sentence: str) -> Iterator[str]:
    """What the first sentence leaves open of groups; which answers flipped; the harm beside what it
    was and what chance alone would give; whether the best-off pay."""
    if view.wrong:
        return
    row, who = view.harm, moved(view)
    if not view.is_dense:
        yield _rest(view, sentence)
        yield from () if view.is_whole else _of_groups(view, who, sentence)
        yield flipped_said(view.run, view.choice)
    if row is None or not _is_measured(row):
        if not view.is_dense and "not measured" not in sentence:
            harm = view.track.telling.harm(view.run, view.choice)
            yield f"{phrasing.sentence(harm)} was not measured here."
        return
    yield _harm_now(view, row)
    is_better = kind_of(view, view.reading.harm, row) == "better"
    if is_better and not view.is_dense and who.best_pays:
        partly, too = ("partly ", " too") if who.better else ("", ", and no group clearly gained")
        yield f"The best-off group got worse{too}: {partly}levelling down."


def _of_groups(view: View, who: Moved, sentence: str) -> Iterator[str]:
    """Groups that the first sentence only counts, and that none pays, or can be judged."""
    every, group = views(view.run, view.choice), view.reading.group
    others = [(one.reading.group.name, moved(one).worse) for one in every]
    named = [("Worse off", who.worse), *((f"Worse in {name}", few) for name, few in others[1:])]
    for start, names in [*named, ("Better off", who.better)]:
        if len(names) < who.groups and any(name not in sentence for name in names):
            yield f"{start}: {phrasing.listing(names, len(names))}."
    is_said = any(part in sentence for part in ("worse off", "to tell", "not measured"))
    if not who.judged and not is_said:
        yield f"No group has enough {group.few} to tell who pays."
    elif not (is_said or any(names for _, names in named)) and len(who.better) < who.groups:
        yield f"No group is clearly worse off in {_weighed(view, 'or')}."
    if who.judged and not who.worse:
        way = "rise" if group.worse == "rose" else "fall"
        seen = phrasing.short(min(who.seen, 1.0))
        yield f"A {way} in {group.name} below {seen} could go unseen."
    if who.alone:
        yield (
            f"Alone, {group.name} for {phrasing.listing(who.alone)} would count as worse; among"
            f" {who.judged} groups chance may do that."
        )


def _harm_now(view: View, row: Values) -> str:
    """The harm beside that of the uncut model, and what chance alone would give."""
    measure, telling = view.reading.harm, view.track.telling
    dense = None if view.is_dense else view.dense
    now, was = phrasing.apart(row["value"], math.nan if dense is None else dense["value"])
    if view.is_predicted:
        before = "." if dense is None else f"; it is {was} before the cut."
        return f"The {measure.name} is predicted to be {now}{before}"
    when = "before" if view.track.ways.instead(view.variant) else "before the cut"
    kind, way = kind_of(view, measure, row), view.way(measure, row)
    both, high = f"{was} {when}, {now} now", row.get("null_high", math.nan)
    limit, chance = phrasing.short(high), phrasing.sentence(telling.chance)
    if dense is None:
        start = f"The {measure.name} is {now}."
    elif kind in ("better", "worse"):
        start = f"The {measure.name} {way} from {was} to {now}."
    elif view.was_chance and phrasing.inside_null(row):
        highs = phrasing.short((dense or row)["null_high"]), limit
        limit = limit if highs[0] == limit else f"{highs[0]} {when} and {limit} now"
        would = f"{telling.chance} would give up to {limit}."
        return f"We claim no change of the {measure.name} ({both}): {would}"
    elif view.was_chance:
        start = f"The {measure.name} {when} could be chance alone, so we claim no change: {both}."
    elif way == "unclear":
        start = f"The {measure.name} does not clearly change: {both}."
    else:
        few = f"There are too few {measure.few} to tell"
        start = f"{few} whether the {measure.name} changed: {both}."
    if not math.isfinite(high):
        return f"{start} What chance alone would give was not measured."
    if phrasing.inside_null(row):
        return f"{start} {chance} would give as much (up to {limit})."
    beyond = telling.beyond(view.run, view.choice, row)
    return f"{start} {chance} would give up to {limit}{beyond}."


def _numbers(view: View) -> Iterator[Fact]:
    """Harm, worst-off and best-off; where one was not measured the quality comes in."""
    rows = ((measure, view.row(measure)) for measure in view.reading.cards)
    measured = [(measure, row) for measure, row in rows if row is not None and _is_measured(row)]
    for measure, row in measured[:3]:
        dense = None if view.is_dense else view.row(measure, "dense")
        value, was = phrasing.apart(row["value"], math.nan if dense is None else dense["value"])
        group, word = end_named(view, measure, row), measure.word
        end = f"{measure.name.removesuffix(' subgroup')}{' before' * (not view.is_dense)}"
        yield Fact(
            f"{end}: {group}" if group else measure.name,
            value,
            "" if dense is None else was,
            "" if dense is None else kind_of(view, measure, row),
            measure.span(row["low"], row["high"]),
            measure.change(row),
            f"{word.definition} {word.caveat}".strip(),
        )
