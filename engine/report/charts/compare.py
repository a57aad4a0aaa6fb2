"""Two or more audits side by side: what differs in their settings, and whether their numbers may be
compared."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.errors import RequestError
from engine.core.types import Values
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.kinds import add_series, dots, front_line, heading, row_range, silent
from engine.report.charts.metric_curve import GROUP
from engine.report.charts.panel import Choice, Panel, blank, nothing, plain, wrapped
from engine.report.schema import hovers, readable
from engine.report.tracks import Measure, benchmarks_of, track_name, track_of, tracks
from engine.stats.pareto import front
from engine.store.runs import Run

_ELSEWHERE = {
    "model",
    "revision",
    "prompts",
    "corpus",
    "judge",
    "judge_sha256",
    "title",
    "data",
    "benchmarks",
}
"""Request fields shown with the hash of what they led to instead."""
PER_METHOD = {"method settings", "pw", "score settings"}
"""Settings given by name of a method or of a score."""
COLUMNS = (
    "run label value low high null_low null_high group_null_low group_null_high group_null_p delta"
    " delta_low delta_high n"
)
KIND = "track"
"""The setting that says what kind of audit it is."""


def comparability(runs: Sequence[Run]) -> tuple[list[str], list[str]]:
    """Settings that differ, and warnings on what may not be compared.

    Of audits of several kinds only the settings that all of them have, and what kind they are.
    """
    found = settings(runs)
    keys = list(dict.fromkeys(key for one in found for key in one))
    if len(alike(runs)) < len(runs):
        keys = [key for key in keys if all(key in one for one in found)]
    differing = [key for key in keys if len({_plain(one.get(key)) for one in found}) > 1]
    binding = {key: text for run in runs for key, text in track_of(run).comparison.binding.items()}
    if not same_items(runs):
        binding[KIND] = words.KINDS_ON_OTHER_IMAGES
    return differing, list(dict.fromkeys(text for key, text in binding.items() if key in differing))


def compare_runs(runs: Sequence[Run], choice: Choice) -> Panel:
    """Harm of the same method, axis and level in each run, each above its own null band.
    What `comparability` warns of stands above it.

    The first run decides the kind of audit; runs of another kind are left out.
    """
    called = dict(zip(titles(runs), short_names(runs), strict=True))
    names, runs = {run.id: name for run, name in zip(runs, titles(runs), strict=True)}, alike(runs)
    harm, axis = lookup.reading(runs[0], choice).harm, words.axis_name(choice.measured)
    question = f"Does the same cut do the same to the {harm.of(axis)} in each audit?"
    rows = [row for run in runs for row in _rows(run, names[run.id], choice)]
    if not rows:
        return nothing(
            "compare_runs",
            question,
            f"No run has this axis, method and {track_of(runs[0]).level.noun}.",
        )
    table, answer = pd.DataFrame(rows), _answer(harm, rows, called)
    kind = track_of(runs[0]).evidence.intervals
    note = (
        f"Each bar of chance is the run's own null band. {kind} Different runs share no random"
        " draws."
    )
    figure, items = _figure(runs[0], choice, harm, table), track_of(runs[0]).nouns.items
    heads = {"label": "variant", "value": harm.name, "n": harm.of_what or items}
    return Panel("compare_runs", question, answer, figure, readable(table, COLUMNS, **heads), note)


def alike(runs: Sequence[Run]) -> list[Run]:
    """The runs of the same kind of audit as the first."""
    return [run for run in runs if track_name(run.meta) == track_name(runs[0].meta)]


def same_items(runs: Sequence[Run]) -> bool:
    """Whether all audits measured on the same images (or texts), as far as they say.

    One content, and of what all of them counted the same numbers: else levels are not on one scale.
    """
    data = [run.meta.get("data") or {} for run in runs]
    counts = [one.get("counts") or {} for one in data]
    shared = set.intersection(*map(set, counts))
    return len({str(one.get("digest")) for one in data}) == 1 and all(
        len({one[key] for one in counts}) == 1 for key in shared
    )


def settings(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Of each audit what was asked and what it led to. Settings of a method that one audit alone
    has compare with nothing and are left out."""
    found = [_settings(run) for run in runs]
    asked = Counter(name for run in runs for name in _asked(run))
    files = [tests.files(run) if (tests := benchmarks_of(run)) else {} for run in runs]
    for one, mine in zip(
        found, files, strict=True
    ):  # a benchmark that one audit alone has compares with nothing
        one |= {
            title: file for title, file in mine.items() if all(title in other for other in files)
        }
        for key in PER_METHOD & set(one):
            given = one[key] or {}
            one[key] = {
                name: value for name, value in given.items() if asked[name] > 1 or len(runs) == 1
            }
    return found


def _asked(run: Run) -> set[str]:
    """Methods of a request, whole and in their parts: "taylor+pw" is a Taylor, "isp:michel" asks
    for Michel."""
    request = run.request
    asked = [*(request.get("methods") or ()), *(request.get("tradeoff_methods") or ())]
    return {part for name in asked for part in (name, *re.split(r"[:+@]", name))}


def _settings(run: Run) -> dict[str, Any]:
    """What was asked and what it led to, by name in words."""
    meta, track = run.meta, track_of(run)
    parts, (name, counts) = track.comparison.parts, track.comparison.counted
    found = {
        part: f"{meta[part]['name']} {str(meta[part].get(key) or '')[:12]}" for part, key in parts
    }
    found[name] = meta[counts].get("counts")
    found |= {
        key.replace("_", " "): value
        for key, value in meta["request"].items()
        if key not in _ELSEWHERE
    }
    found |= {KIND: track.nouns.about} if KIND in found else {}
    return found | {
        f"ran with {key}": meta["provenance"].get(key) for key in ("device", "dtype", "code")
    }


def _plain(value: Any) -> str:
    """What tells values apart, whatever the order of their parts."""
    return json.dumps(value, sort_keys=True, default=str)


def titles(runs: Sequence[Run]) -> list[str]:
    """Titles; the id instead where two are equal."""
    titles = list(map(lookup.title_of, runs))
    return [
        title if titles.count(title) == 1 else run.id
        for title, run in zip(titles, runs, strict=True)
    ]


def short_names(runs: Sequence[Run]) -> list[str]:
    """What sentences call the audits: titles are long, and told once, by `named`."""
    others = (
        ["the other audit"]
        if len(runs) == 2
        else [f"audit {place}" for place in range(2, len(runs) + 1)]
    )
    return ["this audit", *others]


def named(runs: Sequence[Run]) -> str:
    """Which audit is called what."""
    pairs = zip(short_names(runs), titles(runs), strict=True)
    return phrasing.sentences(f"{short}: “{title}”" for short, title in pairs)


def _rows(run: Run, name: str, choice: Choice) -> list[dict[str, Any]]:
    """The dense model and the chosen variant of one run, where it has them."""
    found = []
    for method in ("dense", choice.method) if choice.method != "dense" else ("dense",):
        mine = replace(choice, method=method)
        try:
            variant = lookup.variant_of(run, mine)
        except RequestError:
            continue
        row = lookup.harm(run, variant["variant"], mine)
        if row is not None and variant["method"] == method:
            found.append(
                {**row, "run": name, "method": method, "label": lookup.variant_label(run, variant)}
            )
    return found


def _answer(harm: Measure, rows: Sequence[dict[str, Any]], called: Mapping[str, str]) -> str:
    cut = [row for row in rows if row["method"] != "dense"]
    told = []
    for row in cut or rows:
        said = f"{called[row['run']]}: {'' if cut else 'uncut '}{harm.name} {_level(harm, row)}"
        is_told = cut and math.isfinite(row["delta"])
        told.append(f"{said}, change {harm.change(row)}" if is_told else said)
    return phrasing.sentences(told)


def _level(harm: Measure, row: Values) -> str:
    text = harm.with_interval(row)
    side = phrasing.null_side(row)
    return f"{text}, {side} its null band" if side in ("inside", "below") else text


def _figure(run: Run, choice: Choice, harm: Measure, table: pd.DataFrame) -> go.Figure:
    records, dense = table.to_dict("records"), table["method"] == "dense"
    said = hovers(
        table.assign(level=[_level(harm, row) for row in records]),
        "label level null group_null",
        label=plain,
        level=lambda level: f"{harm.name} {level}",
    )
    ends = {name: table[name].where(dense) for name in ("null_low", "null_high")}
    drawn = table.assign(hover=said, **ends)
    looks = {
        label: track_of(run).methods.style(method, choice.dark)
        for label, method in zip(table["label"], table["method"], strict=True)
    }
    names = list(dict.fromkeys(table["run"]))
    figure = dots(
        choice,
        drawn,
        "value",
        {name: wrapped(name, 28) for name in names},
        looks,
        harm.title,
        row="run",
        by="label",
        named=plain,
        zero=False,
    )
    for row in drawn[dense].to_dict("records"):
        if math.isfinite(row.get(f"{GROUP}_low", math.nan)):
            low, high = row[f"{GROUP}_low"], row[f"{GROUP}_high"]
            row_range(figure, choice, names.index(row["run"]), low, high, 0.38, outlined=True)
    return figure


CODE = "ran with code"
NOT_SET, NOT_THERE, NONE = "not set", "not there", "none"
_MISSING = object()


def settings_table(runs: Sequence[Run]) -> pd.DataFrame:
    """What differs. Columns: Setting, then one per audit, by its short name.

    Versions of steps that not all ran are left out: they tell that something else was asked for.
    """
    asked, rows = settings(runs), []
    columns = ["Setting", *map(phrasing.sentence, short_names(runs))]
    for key in comparability(runs)[0]:
        rows += _lines(runs, key, [one.get(key) for one in asked])
    return pd.DataFrame(rows, columns=columns)


def _lines(runs: Sequence[Run], key: str, values: Sequence[Any]) -> list[list[str]]:
    name = phrasing.sentence(words.setting_name(key))
    if key in dict(track_of(runs[0]).comparison.parts):
        return [[name, *_brought(runs, key)]]
    if not any(isinstance(value, Mapping) for value in values):
        return [[name, *(_said(key, value) for value in values)]]
    return [
        [f"{name}: {_part(key, part)}", *_cells(key, part, found)]
        for part, found in _parts(key, [_grouped(value) for value in values])
    ]


def _brought(runs: Sequence[Run], key: str) -> list[str]:
    """Models, images or texts by name; told apart in words, not hashes, where one name stands for
    several contents."""
    hashed = dict(track_of(runs[0]).comparison.parts)[key]
    found = [(str(run.meta[key]["name"]), str(run.meta[key].get(hashed))) for run in runs]
    said = []
    for name, digest in found:
        alike = list(dict.fromkeys(other for title, other in found if title == name))
        place = alike.index(digest)
        said.append(
            f"{name}, other contents{f' ({place})' if len(alike) > 2 else ''}" if place else name
        )
    return said


def _grouped(value: Any) -> Values:
    """Counts such as "test/skin/dark" by all but their last part; other settings as they are."""
    found: dict[str, Any] = {}
    for name, inner in value.items() if isinstance(value, Mapping) else ():
        rest, slash, leaf = str(name).rpartition("/")
        if slash:
            found.setdefault(rest, {})[leaf] = inner
        else:
            found[str(name)] = inner
    return found


def _parts(key: str, values: Sequence[Values]) -> list[tuple[str, list[Any]]]:
    """Parts of a setting in which the audits differ, with what each has there."""
    found = []
    for part in dict.fromkeys(part for one in values for part in one):
        inner = [one.get(part, _MISSING) for one in values]
        differ = any(one != inner[0] for one in inner[1:])
        if differ and not (key == CODE and _MISSING in inner):
            found.append((part, inner))
    return found


def _part(key: str, part: str) -> str:
    if key in PER_METHOD:
        return words.choice_name(key, part) if key == "score settings" else words.method_name(part)
    return ", ".join(words.setting_name(words.axis_name(one)) for one in part.split("/"))


def _cells(key: str, part: str, values: Sequence[Any]) -> list[str]:
    """One per audit; of several values behind a part only those that are not the same in all."""
    if not any(isinstance(value, Mapping) for value in values):
        return [_said(part.replace("_", " "), value) for value in values]
    inner = [value if isinstance(value, Mapping) else {} for value in values]
    names = list(dict.fromkeys(name for one in inner for name in one))
    differing = [
        name
        for name in names
        if any(one.get(name, _MISSING) != inner[0].get(name, _MISSING) for one in inner)
    ]
    return [
        NOT_THERE if value is _MISSING else _listed(one, differing)
        for value, one in zip(values, inner, strict=True)
    ]


def _listed(value: Values, names: Sequence[str]) -> str:
    told = [
        f"{words.setting_name(name)} {_said(name.replace('_', ' '), value[name])}"
        for name in names
        if name in value
    ]
    return "; ".join(told) or NOT_SET


def _said(key: str, value: Any) -> str:
    """A value in words."""
    if value is _MISSING or value is None:
        return NOT_THERE if value is _MISSING else NOT_SET
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return _listed(value, list(value)) if value else NONE
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_said(key, one) for one in value) or NONE
    return _number(key, value) if isinstance(value, int | float) else _word(key, str(value))


def _number(key: str, value: float) -> str:
    if key in ("sparsities", "tradeoff sparsity"):
        return phrasing.percent(value)
    if key == "speedups":
        return phrasing.factor(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _word(key: str, value: str) -> str:
    """A choice by its name; names of files and of hubs as they are."""
    if key in _NAMES:
        return _NAMES[key](value)
    return value if re.search(r"[/\\.]", value) else words.choice_name(key, value)


_NAMES: dict[str, Callable[[str], str]] = {
    **dict.fromkeys(("methods", "keep methods", "tradeoff methods"), words.method_name),
    "axes": words.axis_name,
    "kind of audit": str,
}


# Audits of tracks that measure alike, on one axis: every reported model of each in quality and
# gap, side by side.


HEIGHT = 400
QUALITY, GAP = "accuracy", "accuracy_gap"
"""The metrics that these kinds of audit have in common."""
LONG = 14
"""Letters from which on a name of a method leaves room for two beside each other only."""
FRONT_NAMED = 6
SAME_FRONT = (
    "Faint: models of the other audits. Dotted line: front of the cut models of all audits, which"
    " no other beats at both."
)
OWN_FRONTS = (
    "Every chart has its own axes. Dotted line: front of the cut models of that audit alone, which"
    " no other of them beats at both."
)
READ = (
    "Fronts use values alone. Bars are 95 % intervals; models whose bars overlap may not differ. "
    "Models are not equally cut, and each kind counts a cut in its own way. The table says how "
    "much is gone; a smaller cut is easier."
)
OTHER_IMAGES = (
    "Careful: the test images differ, so levels are not on one scale and there is no common front."
)
COMPARE_KINDS_COLUMNS = (
    "run kind label cut quality quality_low quality_high gap gap_low gap_high n front"
)


def comparable(*kinds: str) -> bool:
    """Whether audits of these tracks, by name, measure the same things."""
    what = {name: one.comparison.measures or name for name, one in tracks().items()}
    found = {what.get(kind) for kind in kinds}
    return len(found) == 1 and None not in found


def are_kin(one: Run, other: Run) -> bool:
    """Whether two audits are of different kinds that measure the same things."""
    kinds = track_name(one.meta), track_name(other.meta)
    return kinds[0] != kinds[1] and comparable(*kinds)


def kin_of(runs: Sequence[Run]) -> list[Run]:
    """The first run, and of the others those of its kind or kin to it."""
    first = track_name(runs[0].meta)
    return [run for run in runs if comparable(first, track_name(run.meta))]


def compare_kinds(runs: Sequence[Run], choice: Choice) -> Panel:
    """One column per audit. On the same images: one front, the same axes, the others' models in the
    background.

    On different images levels are not on one scale: each audit has its own axes and its own front,
    and nothing of the others is drawn or counted with it.
    """
    called = dict(zip(titles(runs), short_names(runs), strict=True))
    titled, runs = {run.id: name for name, run in zip(called, runs, strict=True)}, kin_of(runs)
    axis = words.axis_name(choice.measured)
    table = points(runs, choice, titled)
    shown = [run for run in runs if titled[run.id] in set(table["run"])]
    same = same_items(shown) if shown else True
    which = "Which cut models" if same else "Which cut models of each audit"
    question = f"{which} are the most accurate at the smallest accuracy gap of {axis}?"
    if len(shown) < 2:
        return nothing(
            "compare_kinds", question, f"Fewer than two of these audits measured {axis}."
        )
    parts = tuple(_column(run, choice, table, titled[run.id], called, same) for run in shown)
    answer = _compare_kinds_answer(table, called) if same else _answers(table, called)
    note = f"{SAME_FRONT if same else OWN_FRONTS} {READ}"
    whose = "on the front" if same else "on the front of its audit"
    shown_table = readable(table, COMPARE_KINDS_COLUMNS, label="model", front=whose, n="images")
    return Panel(
        "compare_kinds", question, answer, None, shown_table, note, parts, own_axes=not same
    )


def points(
    runs: Sequence[Run], choice: Choice, titled: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Every reported model of every audit that measured the axis: quality and gap with intervals,
    whether on a front.

    The front is over all audits where they measured on the same images, else over each alone.
    `titled`: names of runs by id, their titles unless given.
    """
    names = titled or {run.id: name for run, name in zip(runs, titles(runs), strict=True)}
    found = {run.id: _compare_kinds_rows(run, names[run.id], choice) for run in runs}
    rows = [row for of_run in found.values() for row in of_run]
    columns = ["is_cut", "run", "kind", "variant", "method", "label", "cut", "quality", "gap", "n"]
    table = pd.DataFrame(rows) if rows else pd.DataFrame(columns=columns)
    if table.empty:
        return table.assign(front=False)
    shown = [run for run in runs if found[run.id]]
    pools = [table] if same_items(shown) else [rows for _, rows in table.groupby("run")]
    return table.assign(front=pd.concat([_on_front(pool) for pool in pools]))


def _on_front(pool: pd.DataFrame) -> pd.Series:
    """Which of the models that compete with each other no other cut one beats at both."""
    quality, gap = (pool[name].where(pool["is_cut"]) for name in ("quality", "gap"))
    return pd.Series(front(-quality, gap), index=pool.index)


def _compare_kinds_rows(run: Run, title: str, choice: Choice) -> list[dict[str, Any]]:
    track, found = track_of(run), []
    for variant in lookup.of_axis(run, lookup.reported(run), choice.axis).to_dict("records"):
        quality = lookup.result(run, variant["variant"], QUALITY)
        gap = lookup.result(run, variant["variant"], GAP, choice.measured)
        if quality is None or gap is None or math.isnan(quality["value"] + gap["value"]):
            continue
        row = {
            "run": title,
            "kind": track.nouns.about,
            "variant": variant["variant"],
            "method": variant["method"],
            "label": phrasing.sentence(lookup.variant_label(run, variant)),
            "cut": lookup.amount(run, variant),
            "is_cut": bool(variant["n_cut"] or variant.get("arm")),
            "n": gap["n"],
        }
        for start, measured in (("quality", quality), ("gap", gap)):
            row |= {start: measured["value"]}
            row |= {f"{start}_{end}": measured[end] for end in ("low", "high")}
        found.append(row)
    return found


def _room(table: pd.DataFrame, column: str) -> list[float]:
    """What an axis spans: all values, not the ends of every interval."""
    low, high = float(table[column].min()), float(table[column].max())
    room = 0.12 * (high - low) or 0.02
    return [low - room, high + room]


def _column(
    run: Run, choice: Choice, table: pd.DataFrame, name: str, called: Mapping[str, str], same: bool
) -> go.Figure:
    """The chart of one audit; `same`: all are on the same images, so that the others' models may
    stand behind it."""
    quality, gap = Measure(QUALITY), Measure(GAP)
    mine, room = table[table["run"] == name], 19 * _legend_rows(table)
    beside, looks = table if same else mine, track_of(run).methods
    known = set(mine["method"])
    methods = [*known & {"dense"}, *looks.order(known - {"dense"})]
    figure = blank(choice, HEIGHT + room, quality.title, gap.title)
    others = beside[beside["run"] != name]
    best = beside[beside["front"]].sort_values(["quality", "gap"])
    faded = {"size": 6, "color": choice.theme.soft, "opacity": 0.35}
    silent(figure, others["quality"], others["gap"], mode="markers", marker=faded)
    front_line(figure, choice, best["quality"], best["gap"])
    seen, ends = "label cut quality gap front", "quality gap"
    said = hovers(mine, seen, label=str, front=lambda best: "on the front" if best else "")
    mine = mine.assign(hover=said)
    for method in methods:
        rows, style = mine[mine["method"] == method], looks.style(method, choice.dark)
        look = {"mode": "markers", "name": lookup.method_label(run, method)}
        add_series(figure, rows, rows["quality"], rows["gap"], style, None, ends, **look)
    heading(figure, _headed(name, called), align="left", font={"size": 13})
    lines = max(_headed(one, called).count("<br>") for one in table["run"]) + 1
    figure.update_xaxes(
        range=_room(beside, "quality"), showgrid=True, nticks=6, tickangle=0, automargin=False
    )
    figure.update_yaxes(range=_room(beside, "gap"), nticks=6)
    below = {
        "y": -58 / (HEIGHT - 75),
        "yanchor": "top",
        "font": {"size": 11},
    }  # the same room in every column
    figure.update_layout(legend=below, margin={"t": 14 + 17 * lines, "b": 60 + room})
    return figure


def _headed(name: str, called: Mapping[str, str]) -> str:
    return wrapped(f"{phrasing.sentence(called[name])}: {name}", 42)


def _legend_rows(table: pd.DataFrame) -> int:
    """Rows that the longest legend of all columns takes."""
    found = []
    for _, rows in table.groupby("run"):
        names = [words.method_name(method) for method in rows["method"].unique()]
        found.append(-(-len(names) // (3 if max(map(len, names)) < LONG else 2)))
    return max(found)


def _compare_kinds_answer(table: pd.DataFrame, called: Mapping[str, str]) -> str:
    """Which cut models are on the front of all audits together, and how many of each."""
    best = table[table["front"]].sort_values("quality", ascending=False, kind="stable")
    named = [f"{row['label']} ({called[row['run']]})" for row in best.to_dict("records")]
    counts = [
        f"{int((best['run'] == run).sum()) or 'none'} of {called[run]}"
        for run in dict.fromkeys(table["run"])
    ]
    verb = "is" if len(best) == 1 else "are"
    return (
        f"On the same test images. By value, {len(best)} of {int(table['is_cut'].sum())} cut "
        f"models {verb} on the front, {phrasing.listing(counts)}: "
        f"{phrasing.listing(named, FRONT_NAMED)}."
    )


def _answers(table: pd.DataFrame, called: Mapping[str, str]) -> str:
    """Each audit on its own: nothing is counted across different images."""
    told = []
    for run, mine in table.groupby("run", sort=False):
        best = mine[mine["front"]].sort_values("quality", ascending=False, kind="stable")
        images = phrasing.count(int(mine["n"].max()), "image")
        where = (
            f"On its own front, {called[run]} ({images}) has by value {len(best)} of"
            f" {int(mine['is_cut'].sum())}"
        )
        told.append(
            f"{where} cut models:"
            f" {phrasing.listing(map(words.quoted, best['label']), FRONT_NAMED)}."
        )
    return " ".join([OTHER_IMAGES, *told])
