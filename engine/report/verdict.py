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
from engine.report.charts import lookup
from engine.report.charts.flips import flipped_said
from engine.report.charts.headline import VERBS, Change, Moved, changes, kind_of, moved
from engine.report.charts.levelling import end_named
from engine.report.charts.panel import Choice
from engine.report.contract import Measure
from engine.report.costs import cost_said
from engine.report.tracks import track_of
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
    variant = lookup.variant_of(run, choice)
    track, is_predicted = track_of(run), lookup.is_predicted(variant)
    said, cost = sentence(run, choice), cost_said(run, choice, variant)
    return Verdict(
        audited(run, choice),
        said,
        " ".join(_meaning(run, choice, variant, said)),
        track.telling.more(run, choice, variant),
        tuple(_numbers(run, choice, variant)),
        f"{PREDICTED}{_small(cost)}" if is_predicted else cost,
        advice(run, choice),
        is_predicted,
    )


def sentence(run: Run, choice: Choice) -> str:
    """What the cut does and to whom, alone: quicker than the whole verdict."""
    variant = lookup.variant_of(run, choice)
    said = _sentence(run, choice, variant)
    return f"{PREDICTED}{_small(said)}" if lookup.is_predicted(variant) else said


def _small(text: str) -> str:
    """With a small first letter, but for names in capitals."""
    return text if text[1:2].isupper() else f"{text[:1].lower()}{text[1:]}"


def audited(run: Run, choice: Choice) -> str:
    """The model, its size where it is known, and the groups that are compared."""
    name, size = run.meta["model"]["name"], run.meta["model"].get("parameters")
    parts = [in_words.model(str(name)), f"{in_words.millions(size)} parameters" if size else ""]
    groups = track_of(run).telling.groups(run, choice.measured)
    return "; ".join(filter(None, (", ".join(filter(None, parts)), groups)))


def _sentence(run: Run, choice: Choice, variant: Mapping[str, Any]) -> str:
    """Every clear change in one sentence, harms before gains."""
    telling, harm = track_of(run).telling, track_of(run).telling.harm(run, choice)
    if said := telling.unlearned(run):
        return said
    if variant["variant"] == "dense":
        return _uncut(run, choice, harm)
    if said := telling.unusable(run, variant):
        return said
    found, who = changes(run, choice, variant), moved(run, choice, variant)
    does = telling.does(run, variant)
    if not (found or who.worse or who.better):
        if not _is_measured(lookup.harm(run, variant["variant"], choice)):
            return f"{phrasing.sentence(harm)} was not measured here."
        few = lookup.reading(run, choice).group.few
        return f"{does} " + (
            "leaves no group clearly worse off."
            if who.judged
            else f"leaves open who pays: no group has enough {few} to tell."
        )
    room = LONGEST - in_words.length(PREDICTED) * lookup.is_predicted(variant)
    short = f"the {lookup.reading(run, choice).harm.name}"
    for name, lost, gained, most in (
        (harm, ALL, ALL, NAMED),
        (short, ALL, ALL, NAMED),
        (short, ALL, 0, NAMED),
        (short, 1, 0, NAMED),
        (short, 0, 0, NAMED),
        (short, 0, 0, 0),
    ):
        sides = (
            _side(run, choice, (found, who), is_harm, name, exact, most)
            for is_harm, exact in ((True, lost), (False, gained))
        )
        said = f"{does} {', but '.join(filter(None, sides))}."
        if in_words.length(said) <= room:
            break
    return said


def _side(
    run: Run,
    choice: Choice,
    moves: tuple[list[Change], Moved],
    is_harm: bool,
    harm: str,
    exact: int,
    most: int,
) -> str:
    """What got worse, or better, the largest change first, as a predicate; harm: its name, exact:
    how many amounts are told, most: groups named one by one."""
    reading, (found, who) = lookup.reading(run, choice), moves
    group, mine = reading.group, [one for one in found if one.is_harm == is_harm]
    names, size, way = (
        (who.worse, who.lost, group.worse) if is_harm else (who.better, who.gained, group.better)
    )
    groups = in_words.who(names, who.groups, most)
    told = []
    for place, one in enumerate(mine):
        phrase = one.said(harm if one.measure == reading.harm else "", place < exact)
        if groups and one.measure.metric == group.metric:
            phrase += f" ({'worse' if is_harm else 'better'} for {groups})"
            groups = ""
        told.append((one.size, one.verb, phrase))
    if groups:
        told.append((size, VERBS[way], f"{group.name} for {groups}"))
    return in_words.verbs([phrase for _, *phrase in sorted(told, key=lambda one: -one[0])])


def _is_measured(row: Mapping[str, Any] | None) -> bool:
    return row is not None and math.isfinite(row["value"])


def _uncut(run: Run, choice: Choice, harm: str) -> str:
    """The model as it is: who is worst and who best off."""
    group = lookup.reading(run, choice).group
    table = lookup.groups_of(run, "dense", group.metric, choice.measured)
    table = table[(table["verdict"] == "") & table["value"].notna()].sort_values(
        "value", ascending=group.sign > 0
    )
    if len(table) < 2:
        return f"Nothing is cut here, and {harm} cannot be judged: too few {group.few}."
    best, worst = table.iloc[0], table.iloc[-1]
    numbers = in_words.apart(worst["value"], best["value"])
    ends = (
        f"{number} for {words.quoted(row['group'])}"
        for number, row in zip(numbers, (worst, best), strict=True)
    )
    return "Nothing is cut here: {} is {} and {}.".format(group.name, *ends)


def _meaning(run: Run, choice: Choice, variant: Mapping[str, Any], sentence: str) -> Iterator[str]:
    """What the first sentence leaves open of groups; which answers flipped; the harm beside what it
    was and what chance alone would give; whether the best-off pay."""
    row, telling = lookup.harm(run, variant["variant"], choice), track_of(run).telling
    if telling.unlearned(run) or telling.unusable(run, variant):
        return
    who = moved(run, choice, variant)
    if variant["variant"] != "dense":
        yield from _of_groups(run, choice, who, sentence)
        yield from filter(None, [flipped_said(run, choice)])
    if row is None or not math.isfinite(row["value"]):
        if variant["variant"] != "dense" and "not measured" not in sentence:
            yield f"{phrasing.sentence(telling.harm(run, choice))} was not measured here."
        return
    yield _harm_now(run, choice, variant, row)
    if (
        kind_of(run, choice, lookup.reading(run, choice).harm, row) == "better"
        and variant["variant"] != "dense"
        and who.best_pays
    ):
        partly, too = ("partly ", " too") if who.better else ("", ", and no group clearly gained")
        yield f"That is {partly}levelling down: the best-off group got worse{too}."


def _of_groups(run: Run, choice: Choice, who: Moved, sentence: str) -> Iterator[str]:
    """Groups that the first sentence only counts, and that none pays, or can be judged."""
    for way, names in (("Worse", who.worse), ("Better", who.better)):
        if len(names) < who.groups and any(name not in sentence for name in names):
            yield f"{way} off: {phrasing.listing(names, len(names))}."
    is_said = any(part in sentence for part in ("worse off.", "to tell", "not measured"))
    if not who.judged and not is_said:
        few = lookup.reading(run, choice).group.few
        yield f"No group has enough {few} to tell who pays."
    elif not who.worse and not is_said and len(who.better) < who.groups:
        yield "No single group is clearly worse off."


def _harm_now(run: Run, choice: Choice, variant: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """The harm beside that of the uncut model, and what chance alone would give."""
    measure, telling = lookup.reading(run, choice).harm, track_of(run).telling
    dense = None if variant["variant"] == "dense" else lookup.harm(run, "dense", choice)
    now, was = in_words.apart(row["value"], math.nan if dense is None else dense["value"])
    if lookup.is_predicted(variant):
        return f"The {measure.name} is predicted to be {now}" + (
            "." if dense is None else f"; it is {was} before the cut."
        )
    when = "before" if track_of(run).ways.instead(variant) else "before the cut"
    kind, way = kind_of(run, choice, measure, row), phrasing.direction(row)
    both = f"{was} {when}, {now} now"
    if dense is None:
        start = f"The {measure.name} is {now}."
    elif kind in ("better", "worse"):
        start = f"The {measure.name} {way} from {was} to {now}."
    elif phrasing.inside_null(dense):
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
    return f"{start} {chance} would give up to {limit}{telling.beyond(run, choice, row)}."


def _numbers(run: Run, choice: Choice, variant: Mapping[str, Any]) -> list[Fact]:
    """Harm, worst-off and best-off; where one was not measured the quality comes in."""
    found: list[Fact] = []
    for measure in lookup.reading(run, choice).cards:
        row = lookup.measured(run, variant["variant"], measure, choice)
        if row is not None and math.isfinite(row["value"]) and len(found) < 3:
            found.append(_fact(run, choice, measure, row, variant))
    return found


def _fact(
    run: Run, choice: Choice, measure: Measure, row: Mapping[str, Any], variant: Mapping[str, Any]
) -> Fact:
    dense = (
        None if variant["variant"] == "dense" else lookup.measured(run, "dense", measure, choice)
    )
    value, was = in_words.apart(row["value"], math.nan if dense is None else dense["value"])
    group = end_named(run, choice, measure, row)
    word = measure.word
    return Fact(
        f"{measure.name.removesuffix(' subgroup')}: {group}" if group else measure.name,
        value,
        "" if dense is None else was,
        "" if dense is None else kind_of(run, choice, measure, row),
        measure.span(row["low"], row["high"]),
        measure.change(row),
        f"{word.definition} {word.caveat}".strip(),
    )
