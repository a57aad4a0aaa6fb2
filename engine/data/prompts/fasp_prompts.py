"""Prompts from the published FASP files: NAME.json beside NAME_groups.json.

NAME.json is {axis: {title: [prompt, …]}}; NAME_groups.json holds two equally long lists, {"axis":
[…], "bucket": […]}, whose entries of one axis belong to that axis's prompts in order. A folder that
holds the published two pairs, social_biases_valid and social_biases_test, keeps their split; from
one pair, or any others, all prompts are read and the split is drawn by the caller.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from engine.core.errors import Fault, RequestError
from engine.data.prompts.load import (
    axis_faults,
    cell_faults,
    finish,
    read_utf8,
    split_faults,
    subgroup_faults,
)
from engine.data.sources import WORDS
from engine.data.tables import one_spelling

NAME = "a FASP pair (NAME.json beside NAME_groups.json), either file or their folder"
SUFFIX = "_groups.json"


def matches(path: Path) -> bool:
    """Either file of a pair, any .json file, or a folder holding a NAME_groups.json."""
    if path.is_dir():
        return any(path.glob(f"*{SUFFIX}"))
    return path.suffix.lower() == ".json"


def known_axes(path: Path) -> tuple[str, ...]:
    """Axes named in the prompts files, sorted. Raises RequestError when they cannot be read."""
    table, faults = _read(path)
    if faults:
        raise RequestError(faults)
    return tuple(sorted(set(table["axis"])))


def load(
    path: Path, axes: Sequence[str], seed: int = 0, max_prompts: int | None = None
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Prompts of the named axes (none named: all), columns as table.COLUMNS, and notes.
    RequestError with all faults.

    A column `split` where the files have one. They name neither template nor descriptor, so both
    columns are empty. seed and max_prompts are arguments of every format; sampling is done by the
    caller.
    """
    table, faults = _read(path)
    table["subgroup"], said = one_spelling(table["subgroup"], "bucket")
    known = sorted(set(table["axis"])) if len(table) else []
    if known:
        wanted = list(axes) or known
        faults = faults + axis_faults(path.name, wanted, known)
        faults += cell_faults(path.name, table) + subgroup_faults(path.name, table, wanted)
        faults += split_faults(path.name, table, wanted)
    if faults:
        raise RequestError(faults)
    table, notes = finish(table[table["axis"].isin(wanted)])
    return table, (*said, *notes)


def _read(path: Path) -> tuple[pd.DataFrame, list[Fault]]:
    """All pairs at `path` as one table with columns axis, subgroup, text, template, descriptor, and
    their faults.

    Also the column split where there are exactly two pairs and their names say so; test comes
    first, so that a prompt of both stays a test prompt.
    """
    files = sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]
    pairs = [_pair_of(file) for file in files]
    splits = {
        WORDS.get(prompts.stem.rpartition("_")[2]): (prompts, groups) for prompts, groups in pairs
    }
    own = len(pairs) == 2 and set(splits) == {"validation", "test"}
    parts, faults = [], []
    for name, (prompts, groups) in (
        sorted(splits.items()) if own else (("", pair) for pair in pairs)
    ):
        part, more = _read_pair(prompts, groups)
        parts.append(part.assign(split=name) if own else part)
        faults += more
    table = pd.concat(parts, ignore_index=True)
    columns = ["axis", "subgroup", "text", "template", "descriptor", *(["split"] if own else [])]
    return table.reindex(columns=columns, fill_value=""), faults


def _pair_of(path: Path) -> tuple[Path, Path]:
    if path.name.endswith(SUFFIX):
        return path.with_name(path.name.removesuffix(SUFFIX) + ".json"), path
    return path, path.with_name(path.stem + SUFFIX)


def _read_pair(prompts: Path, groups: Path) -> tuple[pd.DataFrame, list[Fault]]:
    """One pair as a table with columns axis, subgroup, text, and its faults."""
    texts, faults = _read_json(prompts)
    buckets, more = _read_json(groups)
    if faults or more:
        return pd.DataFrame(), faults + more
    rows: list[dict[str, str]] = []
    try:
        by_axis = _buckets(buckets)
        listed = {
            axis: [str(text) for titled in titles.values() for text in titled]
            for axis, titles in texts.items()
        }
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        what = f"The pair does not have the published shape ({error!r})."
        return pd.DataFrame(), [
            Fault(prompts.name, what, 'See {axis: {title: [prompts]}} and {"axis", "bucket"}.')
        ]
    for axis, found in listed.items():
        named = by_axis.get(axis, [])
        if len(named) != len(found):
            what = f"{len(found)} prompts but {len(named)} buckets in {groups.name}."
            faults.append(
                Fault(f"{prompts.name}, axis {axis}", what, "Use the two files of one release.")
            )
            continue
        rows += [
            {"axis": axis, "subgroup": name, "text": text}
            for name, text in zip(named, found, strict=True)
        ]
    return pd.DataFrame(rows, columns=["axis", "subgroup", "text"]), faults


def _buckets(content: dict[str, Any]) -> dict[str, list[str]]:
    """Buckets of each axis in order; each column is a list or, as pandas writes it, {"0": …, "1":
    …}."""
    columns = [
        list(part.values()) if isinstance(part, dict) else list(part)
        for part in (content["axis"], content["bucket"])
    ]
    out: dict[str, list[str]] = {}
    for axis, bucket in zip(*columns, strict=True):
        out.setdefault(str(axis), []).append("" if bucket is None else str(bucket))
    return out


def _read_json(path: Path) -> tuple[dict[str, Any], list[Fault]]:
    text, faults = read_utf8(path)
    if faults:
        return {}, faults
    try:
        content = json.loads(text)
        json.dumps(content, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        what = "Some text holds half a character (a lone surrogate)."
        return {}, [Fault(path.name, what, "Use the files as published.")]
    except (json.JSONDecodeError, RecursionError) as error:
        return {}, [Fault(path.name, f"Not JSON ({error}).", "Use the files as published.")]
    if not isinstance(content, dict) or not content:
        return {}, [
            Fault(path.name, "Expected a JSON object with entries.", "Use the files as published.")
        ]
    return content, []
