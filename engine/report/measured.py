"""How an audit was measured: data, intervals, notes, limits, definitions, settings and versions,
each said once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pandas as pd

from engine.core import memory, words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.contents import axis_panels, shared_panels
from engine.report.tracks import terms_of, track_of
from engine.store.runs import Run, where


@dataclass(frozen=True)
class Part:
    """Sentences of the page below a title; `is_long`: folded on a screen."""

    title: str
    told: tuple[str, ...]
    is_long: bool = False


def in_words(run: Run, text: str) -> str:
    """A note of the run as a person reads it: variants, methods and axes by their names, not by
    their ids."""
    for name, to in _names(run).items():
        text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", to.replace("\\", r"\\"), text)
    return text


def notes_in_words(run: Run) -> tuple[str, ...]:
    """What must be known of the run, as a person reads it."""
    return tuple(in_words(run, note) for note in run.meta.get("warnings") or [])


def _names(run: Run) -> dict[str, str]:
    """What ids of a run are in words, longest first: an id can begin with a shorter one."""
    table, track = lookup.frame(run, "variants"), track_of(run)
    names = {
        str(row["variant"]): f"“{track.variants.label(row)}”"
        for row in table.to_dict("records")
        if row["variant"] != "dense"
    }
    names |= {str(name): words.method_name(name) for name in table["method"].unique()}
    names |= {axis: words.axis_name(axis) for axis in run.request["axes"]}
    # Whether it cannot be a word of a sentence.
    kept = (
        name
        for name, to in names.items()
        if re.search(r"[-_+:]", name) or to.casefold() == name.casefold()
    )
    return {name: names[name] for name in sorted(kept, key=len, reverse=True)}


def parts(run: Run, choice: Choice) -> list[Part]:
    """What stands on the page at once: what was measured on what, how sure it is, what must be
    known, what it cannot say."""
    evidence = track_of(run).evidence
    own = (in_words(run, note) for note in evidence.notes(run))
    notes = dict.fromkeys((*notes_in_words(run), *own))
    known = {*notes, evidence.intervals}
    limits = [limit for limit in evidence.limits(run) if limit not in known]
    found = [
        Part("What was measured", tuple(_what(run, choice))),
        Part("How sure it is", tuple(_how_sure(run, choice))),
        Part("What must be known about it", tuple(notes), is_long=True),
        Part("What it cannot say", tuple(limits), is_long=True),
    ]
    return [part for part in found if part.told]


def _what(run: Run, choice: Choice) -> Iterator[str]:
    track, model = track_of(run), run.model
    size = f", {phrasing.number(model['parameters'])} parameters" if "parameters" in model else ""
    yield f"Model {model['name']}{size}; {track.evidence.data(run)}."
    yield f"Measured on {lookup.measured_on(run, lookup.harm(run, 'dense', choice))}."
    if spent := sum(run.meta.get("spent", {}).values()):
        made = run.meta.get("provenance", {})
        device = made.get("device_name") or made.get("device")
        took = words.duration(spent) + (f" on {device}" if device else "")
        yield f"Computed in {took}; what was kept from before is not counted."


def _how_sure(run: Run, choice: Choice) -> Iterator[str]:
    """Intervals, then the null band of the dense model's harm."""
    yield track_of(run).evidence.intervals
    row = lookup.harm(run, "dense", choice)
    measure = lookup.reading(run, choice).harm
    if row is not None and (side := phrasing.null_side(row)):
        yield (
            f"Uncut, the {measure.name} of {words.axis_name(choice.measured)} is"
            f" {measure.number(row['value'])}, {side} its null band"
            f" ({measure.span(row['null_low'], row['null_high'])}), chance alone."
        )
    yield (
        "Where several differences are read at once, q is the share of false ones among those"
        " claimed; at most .05."
    )


def subgroups(run: Run) -> pd.DataFrame:
    """Axis, subgroup, items it was measured on, and why it gets no verdict, where it gets none."""
    rows = lookup.frame(run, "groups")
    rows = where(rows, variant="dense", split=lookup.REPORTED)
    rows = rows.drop_duplicates(["axis", "group"])
    axes, groups = rows["axis"].map(words.axis_name), rows["group"].map(words.group_name)
    table = pd.DataFrame(
        {"axis": axes, "subgroup": groups, track_of(run).nouns.items: rows["n"].astype(int)}
    )
    verdict = rows["verdict"].fillna("") if "verdict" in rows else pd.Series("", index=rows.index)
    return (table.assign(remark=verdict) if verdict.any() else table).reset_index(drop=True)


def definitions(run: Run, choice: Choice) -> pd.DataFrame:
    """Every method and measure of the audit, and the terms its charts use."""
    track = track_of(run)
    rows = {words.method_name(name): track.methods.definition(name) for name in lookup.methods(run)}
    for word in (measure.word for measure in track.readings.details(choice.reading)):
        better = f" {phrasing.sentence(word.better)} is better." * bool(word.better)
        rows[word.name] = f"{word.definition}{better} {word.caveat}".strip()
    rows |= {name: meaning for name, meaning in terms_of(run).items() if name not in rows}
    told = [(name, text) for name, text in rows.items() if text]
    return pd.DataFrame(told, columns=["word", "what it means"])


def caveats(run: Run, choice: Choice) -> pd.DataFrame:
    """What each chart rests on beyond what `parts` says: one row per caveat, with the questions it
    stands under."""
    known = [track_of(run).evidence.intervals, *track_of(run).evidence.limits(run)]
    found: dict[str, list[str]] = {}
    for panel in chain(axis_panels(run, choice), shared_panels(run, choice)):
        text = panel.caveat
        for said in known:
            text = text.replace(said, "")
        found.setdefault(" ".join(text.split()), []).append(panel.question)
    rows = [(" / ".join(questions), text) for text, questions in found.items() if text]
    return pd.DataFrame(rows, columns=["chart", "how it was made, and what it does not show"])


def settings(run: Run) -> pd.DataFrame:
    """The request, and what the run decided by itself."""
    rows = [(words.setting_name(key), said(value)) for key, value in sorted(run.request.items())]
    rows += [(name, said(value)) for name, value in track_of(run).evidence.settings(run)]
    return pd.DataFrame(rows, columns=["setting", "value"])


def versions(run: Run) -> pd.DataFrame:
    """Versions of the code and of libraries, hashes of what was given, and the time that each stage
    took."""
    meta, rows = run.meta, [("run", run.id), ("created", str(run.meta["created"]))]
    for part, field in track_of(run).comparison.parts:
        rows.append((f"{part}: {field.replace('_', ' ')}", said(meta.get(part, {}).get(field))))
    for kind, values in meta.get("provenance", {}).items():
        given = values if isinstance(values, Mapping) else {"": values}
        rows += [
            (f"{kind.replace('_', ' ')} {name}".strip(), said(value))
            for name, value in given.items()
        ]
    for kind, part, told in (
        ("time", "spent", words.duration),
        ("memory", "memory", memory.in_words),
    ):
        known = meta.get(part, {}).items()
        rows += [(f"{kind}: {name}", told(amount)) for name, amount in known if amount]
    return pd.DataFrame(rows, columns=["what", "value"])


def said(value: Any) -> str:
    """A setting's value in words."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (str, list, tuple, Mapping)) and not value:
        return "none"
    if isinstance(value, Mapping):
        return "; ".join(
            f"{words.setting_name(str(key))}: {said(one)}" for key, one in value.items()
        )
    if isinstance(value, (list, tuple)):
        return ", ".join(said(one) for one in value)
    return words.axis_name(value) if isinstance(value, str) and value in words.AXES else str(value)
