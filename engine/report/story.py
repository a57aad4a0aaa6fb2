"""An audit told in five steps, one sentence of at most `LONGEST` words, one picture, one footnote
each.

The story is told of one choice; it computes nothing and picks nothing: its numbers are those of the
run's tables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.core import words
from engine.report import in_words, phrasing, verdict
from engine.report.advice import advice
from engine.report.charts import lookup
from engine.report.charts.before_after import before_after
from engine.report.charts.panel import Choice, Panel
from engine.report.charts.what_was_cut import what_was_cut
from engine.report.contract import Measure
from engine.report.tracks import track_of
from engine.store.runs import Run

LONGEST = 30
"""Words of a step's sentence."""
TITLES = {
    "problem": "The problem",
    "cut": "The cut",
    "who_pays": "Who pays",
    "how_sure": "How sure are we",
    "recommendation": "What we recommend",
}
"""The steps in order, and what each is called."""
LONGEST_NAME = 40
"""Characters of a name from the user's files."""


@dataclass(frozen=True)
class Step:
    """One step of the story. `picture` may have no chart: then the sentence stands alone. Texts are
    unescaped."""

    name: str
    sentence: str
    picture: Panel | None
    footnote: str

    @property
    def title(self) -> str:
        return TITLES[self.name]


def step(run: Run, choice: Choice, name: str) -> Step:
    """One step of the story of a choice; `name` is one of TITLES."""
    return _TOLD[name](run, choice)


def in_short(run: Run, choice: Choice) -> str:
    """The verdict, as a list of audits says it: whole, since it is read and not heard."""
    return verdict.sentence(run, choice)


def _problem(run: Run, choice: Choice) -> Step:
    """How the uncut model treats its best-off and worst-off subgroup."""
    uncut = replace(choice, method="dense", level=track_of(run).level.none)
    measure, table = lookup.reading(run, choice).group, _groups(run, "dense", choice)
    axis = _named(words.axis_name(choice.measured))
    if len(table) < 2:
        sentence = f"Too few {measure.few} to say how the uncut model treats subgroups of {axis}."
    else:
        worst, best = (
            table.sort_values("value", ascending=measure.sign < 0).iloc[place] for place in (-1, 0)
        )
        low, high = in_words.apart(worst["value"], best["value"])
        name, other = (
            f"\u201c{_named(words.group_name(row['group']))}\u201d" for row in (worst, best)
        )
        sentence = f"Before any cut, {measure.name} is {low} for {name} and {high} for {other}."
    return Step(
        "problem", sentence, track_of(run).overview.beside[0](run, uncut), _measured(run, uncut)
    )


def _groups(run: Run, variant: str, choice: Choice) -> Any:
    """Subgroups of a variant that can be judged."""
    table = lookup.groups_of(
        run, variant, lookup.reading(run, choice).group.metric, choice.measured
    )
    return table[(table["verdict"] == "") & table["value"].notna()]


def _cut(run: Run, choice: Choice) -> Step:
    """How much is cut, of what, and who chose it."""
    variant, track = lookup.variant_of(run, choice), track_of(run)
    if variant["variant"] == "dense":
        return Step("cut", f"Nothing is cut here: this is the {track.whole}.", None, "")
    method, how = lookup.method_label(run, variant["method"]), track.definition(variant["method"])
    sentence = f"{phrasing.sentence(method)} cuts {track.cut_of(run, variant)}."
    return Step("cut", sentence, what_was_cut(run, choice), _first_sentence(how))


def _who_pays(run: Run, choice: Choice) -> Step:
    """For which subgroups it clearly gets worse, for which better, as far as their intervals carry
    it."""
    if lookup.variant_of(run, choice)["variant"] == "dense":
        return replace(_problem(run, choice), name="who_pays")
    sentence = verdict.sentence(run, choice)
    return Step("who_pays", sentence, _picture(run, choice, sentence), _measured(run, choice))


def _picture(run: Run, choice: Choice, sentence: str) -> Panel:
    """The chart of the measure that a sentence names first, of the groups where it names none."""
    reading, overview = lookup.reading(run, choice), track_of(run).overview
    drawn = {
        reading.group.name: overview.beside[0],
        reading.harm.name: before_after,
        reading.quality.name: overview.right,
    }
    places = {name: sentence.casefold().find(name.casefold()) for name in drawn}
    named = [name for name in sorted(places, key=lambda name: places[name]) if places[name] >= 0]
    return drawn[(named or [reading.group.name])[0]](run, choice)


def _how_sure(run: Run, choice: Choice) -> Step:
    """The interval of the change, and what chance alone would give."""
    measure, variant = lookup.reading(run, choice).harm, lookup.variant_of(run, choice)
    row = lookup.harm(run, variant["variant"], choice)
    dense = lookup.harm(run, "dense", choice)
    telling = track_of(run).telling
    sentence = telling.unlearned(run) or telling.unusable(run, variant)
    sentence = sentence or _sure(
        run, measure, variant, row, dense is not None and phrasing.inside_null(dense)
    )
    return Step("how_sure", sentence, before_after(run, choice), _measured(run, choice))


def _sure(
    run: Run,
    measure: Measure,
    variant: Mapping[str, Any],
    row: Mapping[str, Any] | None,
    chance_before: bool,
) -> str:
    name = measure.name
    if row is None or not math.isfinite(row["value"]):
        return f"We cannot say: the {name} was not measured here."
    if chance_before and variant["variant"] != "dense":
        before = "before" if track_of(run).ways.instead(variant) else "before the cut"
        return f"The {name} {before} could be chance alone, so we claim no change."
    is_dense, kind = variant["variant"] == "dense", phrasing.direction(row)
    if math.isnan(row["low"]) if is_dense else kind == "unknown":
        what = "" if is_dense else " change of the"
        return f"We cannot say: too few {measure.few} for an interval of the{what} {name}."
    if is_dense:
        low, high = in_words.apart(row["low"], row["high"])
        return f"The {name} may lie anywhere from {low} to {high}."
    ends = sorted((row["delta_low"], row["delta_high"]), key=abs)
    least, most = in_words.apart(*(abs(end) for end in ends))
    if kind == "unclear":
        fall, rise = in_words.apart(abs(row["delta_low"]), abs(row["delta_high"]))
        return f"We cannot tell: the {name} may have fallen by {fall} or risen by {rise}."
    chance = (
        " What is left could be chance." if kind == "fell" and phrasing.inside_null(row) else ""
    )
    return f"The {name} {kind}; the data allow any change from {least} to {most}.{chance}"


def _recommendation(run: Run, choice: Choice) -> Step:
    """What the evidence carries, or why it carries nothing; what must be read with it stands
    below."""
    said = (
        advice(run, choice).said
        or "No recommendation: nothing was cut here, or nothing that can be compared."
    )
    head = _first_sentence(said)
    sentence = _short(
        head, "Nothing can be said in short: the summary has the recommendation in full."
    )
    rest = said.removeprefix(head).strip() if sentence == head else said
    footnote = " ".join(filter(None, (rest, _measured(run, choice))))
    return Step("recommendation", sentence, _picture(run, choice, head), footnote)


_TOLD = {
    "problem": _problem,
    "cut": _cut,
    "who_pays": _who_pays,
    "how_sure": _how_sure,
    "recommendation": _recommendation,
}


def _measured(run: Run, choice: Choice) -> str:
    """n and what the bars are."""
    row = lookup.harm(run, lookup.variant_of(run, choice)["variant"], choice)
    return f"{phrasing.sentence(lookup.measured_on(run, row))}. Bars: 95 % intervals."


def _named(name: str) -> str:
    """A name short enough to be read from afar."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def _first_sentence(text: str) -> str:
    """Up to the first full stop that ends a sentence."""
    head, stop, _ = text.partition(". ")
    return f"{head}." if stop else text


def _short(sentence: str, instead: str) -> str:
    """The sentence where it is short enough to be said at once, else `instead`."""
    return sentence if len(sentence.split()) <= LONGEST else instead
