"""Settings in which audits differ, for people: one row per setting, names and values in words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from engine.core import words
from engine.report import phrasing
from engine.report.charts import compare
from engine.report.tracks import track_of
from engine.store.runs import Run

CODE = "ran with code"
NOT_SET, NOT_THERE, NONE = "not set", "not there", "none"
_MISSING = object()


def settings_table(runs: Sequence[Run]) -> pd.DataFrame:
    """What differs. Columns: Setting, then one per audit, by its short name.

    Versions of steps that not all ran are left out: they tell that something else was asked for.
    """
    settings, rows = compare.settings(runs), []
    columns = ["Setting", *map(phrasing.sentence, compare.short_names(runs))]
    for key in compare.comparability(runs)[0]["setting"]:
        rows += _rows(runs, key, [one.get(key) for one in settings])
    return pd.DataFrame(rows, columns=columns)


def _rows(runs: Sequence[Run], key: str, values: Sequence[Any]) -> list[list[str]]:
    name = phrasing.sentence(words.setting_name(key))
    if key in dict(track_of(runs[0]).parts):
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
    hashed = dict(track_of(runs[0]).parts)[key]
    found = [(str(run.meta[key]["name"]), str(run.meta[key].get(hashed))) for run in runs]
    said = []
    for name, digest in found:
        alike = list(dict.fromkeys(other for title, other in found if title == name))
        place = alike.index(digest)
        said.append(
            f"{name}, other contents{f' ({place})' if len(alike) > 2 else ''}" if place else name
        )
    return said


def _grouped(value: Any) -> dict[str, Any]:
    """Counts such as "test/skin/dark" by all but their last part; other settings as they are."""
    found: dict[str, Any] = {}
    for name, inner in value.items() if isinstance(value, Mapping) else ():
        rest, slash, leaf = str(name).rpartition("/")
        if slash:
            found.setdefault(rest, {})[leaf] = inner
        else:
            found[str(name)] = inner
    return found


def _parts(key: str, values: Sequence[dict[str, Any]]) -> list[tuple[str, list[Any]]]:
    """Parts of a setting in which the audits differ, with what each has there."""
    found = []
    for part in dict.fromkeys(part for one in values for part in one):
        inner = [one.get(part, _MISSING) for one in values]
        differ = any(one != inner[0] for one in inner[1:])
        if differ and not (key == CODE and _MISSING in inner):
            found.append((part, inner))
    return found


def _part(key: str, part: str) -> str:
    if key in compare.PER_METHOD:
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


def _listed(value: Mapping[str, Any], names: Sequence[str]) -> str:
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
