"""What an audit found at one choice, in plain words: what was audited, the verdict, three numbers,
cost, advice.

Everything is read off the run's tables. Sentences hold no intervals and no symbols; the charts
beside them do. What they claim is decided by intervals all the same. A change is one only where its
interval leaves out zero, and a harm that chance alone would give is called that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from engine.core import words
from engine.report import in_words, phrasing
from engine.report.advice import Advice, advice
from engine.report.charts.by_group import end_named
from engine.report.charts.flips import flipped_said
from engine.report.charts.headline import VERBS, Change, Moved, changes, kind_of, moved
from engine.report.charts.lookup import View
from engine.report.charts.panel import Choice
from engine.report.contract import Measure
from engine.report.costs import cost_said
from engine.store.runs import Run

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
    said, cost = sentence(view)[0], cost_said(view)
    return Verdict(
        _audited(view),
        said,
        " ".join(_meaning(view, said)),
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
    name, size = view.run.meta["model"]["name"], view.run.meta["model"].get("parameters")
    parts = [in_words.model(str(name)), f"{in_words.millions(size)} parameters" if size else ""]
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
    found, who = changes(view), moved(view)
    does = telling.does(view.run, view.variant)
    if not (found or who.worse or who.better):
        if not _is_measured(view.harm):
            return f"{phrasing.sentence(harm)} was not measured here.", group
        return f"{does} " + (
            "leaves no group clearly worse off."
            if who.judged
            else f"leaves open who pays: no group has enough {group.few} to tell."
        ), group
    room = LONGEST - in_words.length(PREDICTED) * view.is_predicted
    short = f"the {view.reading.harm.name}"
    for name, lost, gained, most in (
        (harm, ALL, ALL, NAMED),
        (short, ALL, ALL, NAMED),
        (short, ALL, 0, NAMED),
        (short, 1, 0, NAMED),
        (short, 0, 0, NAMED),
        (short, 0, 0, 0),
    ):
        sides = [
            _side(view, (found, who), is_harm, name, exact, most)
            for is_harm, exact in ((True, lost), (False, gained))
        ]
        told = [in_words.verbs([phrase for *_, phrase in side]) for side in sides if side]
        said = f"{does} {', but '.join(told)}."
        if in_words.length(said) <= room:
            break
    return said, next(side for side in sides if side)[0][1]


def _side(
    view: View,
    moves: tuple[list[Change], Moved],
    is_harm: bool,
    harm: str,
    exact: int,
    most: int,
) -> list[tuple[float, Measure, tuple[str, str]]]:
    """What got worse, or better, the largest change first: its size, its measure, its verb and the
    rest. harm: its name, exact: how many amounts are told, most: groups named one by one."""
    (found, who), group = moves, view.reading.group
    names, size, way = (
        (who.worse, who.lost, group.worse) if is_harm else (who.better, who.gained, group.better)
    )
    groups, told = in_words.who(names, who.groups, most), []
    for place, one in enumerate(one for one in found if one.is_harm == is_harm):
        phrase = one.said(harm if one.measure == view.reading.harm else "", place < exact)
        if groups and one.measure.metric == group.metric:
            phrase += f" ({'worse' if is_harm else 'better'} for {groups})"
            groups = ""
        told.append((one.size, one.measure, (one.verb, phrase)))
    if groups:
        told.append((size, group, (VERBS[way], f"{group.name} for {groups}")))
    return sorted(told, key=lambda one: -one[0])


def _is_measured(row: Mapping[str, Any] | None) -> bool:
    return row is not None and math.isfinite(row["value"])


def _uncut(view: View, harm: str) -> str:
    """The model as it is: who is worst and who best off."""
    group = view.reading.group
    table = view.groups(known="value").sort_values("value", ascending=group.sign > 0)
    if len(table) < 2:
        return f"Nothing is cut here, and {harm} cannot be judged: too few {group.few}."
    best, worst = table.iloc[0], table.iloc[-1]
    numbers = in_words.apart(worst["value"], best["value"])
    ends = (
        f"{number} for {words.quoted(row['group'])}"
        for number, row in zip(numbers, (worst, best), strict=True)
    )
    return "Nothing is cut here: {} is {} and {}.".format(group.name, *ends)


def _meaning(view: View, sentence: str) -> Iterator[str]:
    """What the first sentence leaves open of groups; which answers flipped; the harm beside what it
    was and what chance alone would give; whether the best-off pay."""
    if view.wrong:
        return
    row, who = view.harm, moved(view)
    if not view.is_dense:
        yield from _of_groups(view, who, sentence)
        yield from filter(None, [flipped_said(view.run, view.choice)])
    if row is None or not _is_measured(row):
        if not view.is_dense and "not measured" not in sentence:
            harm = view.track.telling.harm(view.run, view.choice)
            yield f"{phrasing.sentence(harm)} was not measured here."
        return
    yield _harm_now(view, row)
    is_better = kind_of(view, view.reading.harm, row) == "better"
    if is_better and not view.is_dense and who.best_pays:
        partly, too = ("partly ", " too") if who.better else ("", ", and no group clearly gained")
        yield f"That is {partly}levelling down: the best-off group got worse{too}."


def _of_groups(view: View, who: Moved, sentence: str) -> Iterator[str]:
    """Groups that the first sentence only counts, and that none pays, or can be judged."""
    for way, names in (("Worse", who.worse), ("Better", who.better)):
        if len(names) < who.groups and any(name not in sentence for name in names):
            yield f"{way} off: {phrasing.listing(names, len(names))}."
    is_said = any(part in sentence for part in ("worse off.", "to tell", "not measured"))
    if not who.judged and not is_said:
        yield f"No group has enough {view.reading.group.few} to tell who pays."
    elif not who.worse and not is_said and len(who.better) < who.groups:
        yield "No single group is clearly worse off."
    group = view.reading.group
    if who.judged and not who.worse:
        way = "rise" if group.worse == "rose" else "fall"
        yield f"A {way} below {in_words.short(min(who.seen, 1.0))} could go unseen."
    if who.alone:
        yield (
            f"Alone, {group.name} for {phrasing.listing(who.alone)} would count as worse; among"
            f" {who.judged} groups chance may do that."
        )


def _harm_now(view: View, row: Mapping[str, Any]) -> str:
    """The harm beside that of the uncut model, and what chance alone would give."""
    measure, telling = view.reading.harm, view.track.telling
    dense = None if view.is_dense else view.dense
    now, was = in_words.apart(row["value"], math.nan if dense is None else dense["value"])
    if view.is_predicted:
        before = "." if dense is None else f"; it is {was} before the cut."
        return f"The {measure.name} is predicted to be {now}{before}"
    when = "before" if view.track.ways.instead(view.variant) else "before the cut"
    kind, way = kind_of(view, measure, row), view.way(measure, row)
    both = f"{was} {when}, {now} now"
    if dense is None:
        start = f"The {measure.name} is {now}."
    elif kind in ("better", "worse"):
        start = f"The {measure.name} {way} from {was} to {now}."
    elif view.was_chance:
        start = f"The {measure.name} {when} could be chance alone, so we claim no change: {both}."
    elif way == "unclear":
        start = f"The {measure.name} does not clearly change: {both}."
    else:
        few = f"There are too few {measure.few} to tell"
        start = f"{few} whether the {measure.name} changed: {both}."
    high = row.get("null_high", math.nan)
    if not math.isfinite(high):
        return f"{start} What chance alone would give was not measured."
    limit, chance = in_words.short(high), phrasing.sentence(telling.chance)
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
        value, was = in_words.apart(row["value"], math.nan if dense is None else dense["value"])
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
