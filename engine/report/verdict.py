"""What an audit found at one choice, in plain words: what was audited, the verdict, three numbers,
cost, advice.

Everything is read off the run's tables. Sentences hold no intervals and no symbols; the charts
beside them do. What they claim is decided by intervals all the same: a change is one only where its
interval leaves out zero, and a harm that chance alone would give is called that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.core import words
from engine.report import in_words, phrasing
from engine.report.advice import Advice, advice
from engine.report.charts import lookup
from engine.report.charts.headline import verdict as kind_of
from engine.report.charts.levelling import end_named
from engine.report.charts.panel import Choice
from engine.report.contract import Measure
from engine.report.costs import cost_said
from engine.report.moved import Moved, moved
from engine.report.tracks import track_of
from engine.store.runs import Run

PREDICTED = "Predicted, not measured: "


@dataclass(frozen=True)
class Fact:
    """One number. `was` is the uncut model's ("" for that itself), `kind`: better, worse, no clear
    change, or ""."""

    name: str
    value: str
    was: str
    kind: str
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
    said, cost = _sentence(run, choice, variant), cost_said(run, choice, variant)
    return Verdict(
        audited(run, choice),
        f"{PREDICTED}{_small(said)}" if is_predicted else said,
        _meaning(run, choice, variant),
        track.telling.more(run, choice, variant),
        tuple(_numbers(run, choice, variant)),
        f"{PREDICTED}{_small(cost)}" if is_predicted else cost,
        advice(run, choice),
        is_predicted,
    )


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
    """What happened to the harm, and who pays for it."""
    telling, row = track_of(run).telling, lookup.harm(run, variant["variant"], choice)
    harm = telling.harm(run, choice)
    if row is None or not math.isfinite(row["value"]):
        return f"{phrasing.sentence(harm)} was not measured here."
    if variant["variant"] == "dense":
        return _uncut(run, choice, harm)
    if said := telling.unusable(run, variant):
        return said
    does, who = telling.does(run, variant), moved(run, choice, variant)
    dense = lookup.harm(run, "dense", choice)
    if dense is not None and phrasing.inside_null(dense):
        return (
            f"{does} {_alone(run, choice, who)}; {harm} could not be told from chance before, so no"
            " change is claimed."
        )
    return _changed(run, choice, (does, harm), row, who)


def _changed(
    run: Run, choice: Choice, named: tuple[str, str], row: Mapping[str, Any], who: Moved
) -> str:
    """A harm that was more than chance before the cut; named: what was done, and the harm."""
    (does, harm), kind = named, phrasing.direction(row)
    good = lookup.reading(run, choice).harm.better
    if kind == "unknown":
        return (
            f"{does} {_alone(run, choice, who)}; whether {harm} changed cannot be said: there is no"
            " interval."
        )
    if kind == "unclear":
        return f"{does} {_alone(run, choice, who)}; {harm} does not clearly change."
    before = row["value"] - row["delta"]
    ratio = row["value"] / before if before > 0 else math.nan
    if kind != good:
        how = in_words.rose_by(ratio) if math.isfinite(ratio) else "raises"
        return f"{does} {_verb(how, harm)}{_beside(run, choice, who)}."
    how = in_words.fell_by(ratio) if math.isfinite(ratio) else "lowers"
    return f"{does} {_verb(how, harm)}{_how(run, choice, who)}."


def _verb(how: str, harm: str) -> str:
    """ "shrinks by about 20 %" takes what is shrunk before the amount."""
    verb, by, amount = how.partition(" by ")
    return f"{verb} {harm}{by}{amount}"


def _how(run: Run, choice: Choice, who: Moved) -> str:
    """By what a harm fell: levelling down is named, and other groups that pay."""
    telling, reading = track_of(run).telling, lookup.reading(run, choice)
    if not who.worse:
        gain = telling.better(in_words.names(who.better), reading)
        return f" and makes {gain}" if who.better else ", though no group by itself clearly changed"
    worse = telling.worse(in_words.names(who.worse), reading)
    if not who.best_pays:
        return f", but makes {worse}"
    if who.better:
        return f", partly by making {worse}"
    return f" only by making {worse}: levelling down, for no group clearly gains"


def _beside(run: Run, choice: Choice, who: Moved) -> str:
    worse = track_of(run).telling.worse(in_words.names(who.worse), lookup.reading(run, choice))
    return f" and makes {worse}" if who.worse else ""


def _alone(run: Run, choice: Choice, who: Moved) -> str:
    """Who pays, where nothing is claimed of the harm."""
    telling, reading = track_of(run).telling, lookup.reading(run, choice)
    if who.worse:
        return f"makes {telling.worse(in_words.names(who.worse), reading)}"
    if not who.judged:
        return f"leaves open who pays: no group has enough {track_of(run).items} to tell"
    gain = f" and makes {telling.better(in_words.names(who.better), reading)}" if who.better else ""
    return f"costs no group clearly anything{gain}"


def _uncut(run: Run, choice: Choice, harm: str) -> str:
    """The model as it is: who is worst and who best off."""
    group = lookup.reading(run, choice).group
    table = lookup.groups_of(run, "dense", group.metric, choice.measured)
    table = table[(table["verdict"] == "") & table["value"].notna()].sort_values(
        "value", ascending=group.sign > 0
    )
    if len(table) < 2:
        return f"Nothing is cut here, and {harm} cannot be judged: too few {track_of(run).items}."
    best, worst = table.iloc[0], table.iloc[-1]
    numbers = in_words.apart(worst["value"], best["value"])
    ends = (
        f"{number} for {words.quoted(row['group'])}"
        for number, row in zip(numbers, (worst, best), strict=True)
    )
    return "Nothing is cut here: {} is {} and {}.".format(group.name, *ends)


def _meaning(run: Run, choice: Choice, variant: Mapping[str, Any]) -> str:
    """The harm as it is now, beside what it was and what chance alone would give."""
    measure, row = lookup.reading(run, choice).harm, lookup.harm(run, variant["variant"], choice)
    if (
        row is None
        or not math.isfinite(row["value"])
        or track_of(run).telling.unusable(run, variant)
    ):
        return ""
    dense = None if variant["variant"] == "dense" else lookup.harm(run, "dense", choice)
    now, was = in_words.apart(row["value"], math.nan if dense is None else dense["value"])
    article = "An" if measure.name[:1].lower() in "aeiou" else "A"
    if lookup.is_predicted(variant):
        return f"{article} {measure.name} of {now} is predicted" + (
            "." if dense is None else f"; it is {was} before the cut."
        )
    when = "before" if track_of(run).instead(run, variant) else "before the cut"
    start = f"{article} {measure.name} of {now}" + ("" if dense is None else f", {was} {when},")
    high = row.get("null_high", math.nan)
    if not math.isfinite(high):
        return (
            f"{start} stands without a comparison: what chance alone would give was not measured."
        )
    limit, chance = in_words.short(high), track_of(run).telling.chance
    if phrasing.inside_null(row):
        return f"{start} is no more than {chance} would give (up to {limit})."
    beyond = track_of(run).telling.beyond(run, choice, row)
    return f"{start} is more than {chance} would give (up to {limit}){beyond}."


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
        "" if dense is None else kind_of(row, word.better),
        f"{word.definition} {word.caveat}".strip(),
    )
