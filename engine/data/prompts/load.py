"""The prompt table: its columns, its ids, the checks every format shares, and sampling."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd

import engine.data.prompts
from engine.core.errors import Fault, RequestError, unknown
from engine.core.ids import key_of
from engine.core.types import PromptSet, digest_of
from engine.data.tables import text_of

COLUMNS = ("prompt_id", "axis", "subgroup", "text", "template", "descriptor")
FRAME_MARK = " × "
"""Between template and noun in the `template` column: the whole names the frame x of FASP's Eq. 1,
the part before the mark is the cluster that intervals resample."""
MAX_CELL = 10_000
"""Characters in one cell; longer ones are a fault (a prompt is cut to a few dozen tokens anyway).
"""
MIN_PER_SUBGROUP = 2


def prompt_ids(table: pd.DataFrame) -> list[str]:
    """One id per row: a hash of the columns axis, subgroup and text, so neither order nor file name
    matters."""
    return [
        f"{key_of('prompt-id', *row):016x}"
        for row in zip(table["axis"], table["subgroup"], table["text"], strict=True)
    ]


def finish(table: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Add the column prompt_id, drop repeats, sort; returns the table with COLUMNS, all str, and
    notes.

    table: one row per prompt, COLUMNS but prompt_id, and `split` where the source has one: it is
    kept.
    """
    table = table.assign(prompt_id=prompt_ids(table))
    unique = table.drop_duplicates("prompt_id")
    notes: tuple[str, ...] = ()
    if repeated := len(table) - len(unique):
        notes = (
            f"{repeated} prompts appear more than once in their subgroup; each was kept once.",
        )
    ordered = unique.sort_values(["axis", "subgroup", "prompt_id"], ignore_index=True)
    if "split" not in ordered:
        return ordered[list(COLUMNS)].astype(str), notes
    said = ", ".join(
        f"{split} {n:,}" for split, n in ordered["split"].value_counts().sort_index().items()
    )
    return ordered[[*COLUMNS, "split"]].astype(str), (
        *notes,
        f"The split is the source's own: {said} prompts.",
    )


def read_utf8(path: Path) -> tuple[str, list[Fault]]:
    """Text of a file and what is wrong with it, as `tables.text_of` says it."""
    try:
        return text_of(path), []
    except RequestError as error:
        return "", list(error.faults)


def axis_faults(name: str, axes: Sequence[str], known: Sequence[str]) -> list[Fault]:
    """One fault per axis that the prompts do not have."""
    return [unknown(f"{name}, axis", axis, known) for axis in axes if axis not in known]


def cell_faults(name: str, table: pd.DataFrame) -> list[Fault]:
    """Cells that are too long, in any column, and prompts (column text) that are empty.

    Row numbers are 1-based and leave out the header.
    """
    faults = []
    for column in table.columns:
        lengths = table[column].str.len().to_numpy()
        if len(lengths) and (longest := int(np.nanmax(lengths))) > MAX_CELL:
            where = f"{name}, row {int(np.nanargmax(lengths)) + 1}, column {column}"
            faults.append(
                Fault(
                    where,
                    f"A cell has {longest:,} characters.",
                    f"At most {MAX_CELL:,}; is a quotation mark missing?",
                )
            )
    empty = (
        np.flatnonzero(table["text"].str.strip().to_numpy() == "")
        if "text" in table.columns
        else np.empty(0, int)
    )
    if len(empty):
        faults.append(
            Fault(
                f"{name}, row {empty[0] + 1}",
                f"{len(empty)} prompts are empty.",
                "Remove or fill them.",
            )
        )
    return faults


def subgroup_faults(name: str, table: pd.DataFrame, axes: Sequence[str]) -> list[Fault]:
    """Axes without subgroups, with one subgroup, or with a subgroup of one prompt; columns axis,
    subgroup, text."""
    faults = []
    for axis in axes:
        rows = table[table["axis"] == axis]
        if not len(rows):
            continue
        where = f"{name}, axis {axis}"
        blank = int((rows["subgroup"].str.strip() == "").sum())
        if blank:
            faults.append(
                Fault(where, f"{blank} prompts name no subgroup.", "Fill the column subgroup.")
            )
        sizes = (
            rows[rows["subgroup"].str.strip() != ""]
            .drop_duplicates(["subgroup", "text"])
            .groupby("subgroup")
            .size()
        )
        if len(sizes) == 1:
            fix = "Bias compares subgroups: give at least two."
            faults.append(Fault(where, f"There is only one subgroup, {sizes.index[0]!r}.", fix))
        small = [str(group) for group in sizes.index[sizes < MIN_PER_SUBGROUP]]
        if small:
            listed = ", ".join(small[:8]) + (" …" if len(small) > 8 else "")
            fix = (
                "Give at least two different prompts per subgroup (one to choose heads, one to"
                " test)."
            )
            faults.append(Fault(where, f"Subgroups with a single prompt: {listed}.", fix))
    return faults


def split_faults(name: str, table: pd.DataFrame, axes: Sequence[str]) -> list[Fault]:
    """Where the source has its own split: subgroups that validation or test lacks; columns axis,
    subgroup, text, split.

    A prompt of both counts for the first that has it, as in `finish`.
    """
    if "split" not in table:
        return []
    faults = []
    unique = table[table["axis"].isin(axes)].drop_duplicates(["axis", "subgroup", "text"])
    for axis, rows in unique.groupby("axis", sort=True):
        splits = rows.groupby("subgroup")["split"].nunique()
        lacking = [str(group) for group in splits.index[splits < 2]]
        if lacking:
            listed = ", ".join(lacking[:8]) + (" …" if len(lacking) > 8 else "")
            what = f"Subgroups in only one of validation and test: {listed}."
            faults.append(Fault(f"{name}, axis {axis}", what, "Use the two pairs of one release."))
    return faults


def quota(max_prompts: int, n_subgroups: int) -> int:
    """Prompts per subgroup when an axis gets at most `max_prompts`; never fewer than two."""
    return max(MIN_PER_SUBGROUP, max_prompts // max(1, n_subgroups))


def sample(table: pd.DataFrame, seed: int, max_prompts: int | None) -> pd.DataFrame:
    """At most `max_prompts` per axis, the same number per subgroup where there are enough; columns
    as COLUMNS.

    Goes round the templates, in the same seeded order for every subgroup, so subgroups share
    frames. A source's own validation and test are sampled apart, in the shares that they have
    there.
    """
    if max_prompts is None:
        return table
    if "split" in table:
        parts = [rows.drop(columns="split") for _, rows in table.groupby("split", sort=True)]
        chosen = [
            sample(rows, seed, max(1, round(max_prompts * len(rows) / len(table))))
            for rows in parts
        ]
        return table[table["prompt_id"].isin(pd.concat(chosen)["prompt_id"])].reset_index(drop=True)
    keep = []
    for axis, rows in table.groupby("axis", sort=True):
        if len(rows) <= max_prompts:
            keep.append(rows)
            continue
        share = quota(max_prompts, rows["subgroup"].nunique())
        keep.extend(
            _first(part, share, seed, str(axis)) for _, part in rows.groupby("subgroup", sort=True)
        )
    return pd.concat(keep).sort_values(["axis", "subgroup", "prompt_id"], ignore_index=True)


def _first(rows: pd.DataFrame, share: int, seed: int, axis: str) -> pd.DataFrame:
    """The first `share` prompts of one subgroup, going round the templates; columns as COLUMNS."""
    own = rows["prompt_id"].map(lambda name: key_of("sample", seed, name))
    frames = {frame: key_of("frame", seed, axis, frame) for frame in rows["template"].unique()}
    keyed = rows.assign(_own=own, _frame=rows["template"].map(frames))
    keyed["_round"] = keyed.groupby("template")["_own"].rank(method="first")
    return keyed.sort_values(["_round", "_frame", "_own"]).head(share)[list(rows.columns)]


# Prompts about subgroups from a path in any known format, and their split into validation and
# test.


MIN_FRAMES = 20
"""From this many templates on, whole templates go to validation or to test, so paired readings stay
whole."""


def formats() -> list[ModuleType]:
    """Every module beside this one that can read prompts: it has NAME, matches, known_axes and
    load."""
    names = sorted(
        info.name for info in pkgutil.iter_modules(engine.data.prompts.__path__) if not info.ispkg
    )
    wanted = [name for name in names if name.endswith(("_prompts", "_csv", "_bias"))]
    modules = [importlib.import_module(f"engine.data.prompts.{name}") for name in wanted]
    return [module for module in modules if hasattr(module, "matches")]


def known_axes(path: str | Path) -> tuple[str, ...]:
    """Axes that the prompts at `path` have, sorted. Raises RequestError for an unknown format."""
    return _format_of(Path(path)).known_axes(Path(path))


def load_prompts(
    path: str | Path, axes: Sequence[str], *, seed: int = 0, max_prompts: int | None = None
) -> PromptSet:
    """Read the prompts of the named axes (none named: all) from a HolisticBias folder, a FASP pair
    or a CSV.

    max_prompts: at most this many per axis, drawn with `seed` and equal per subgroup as far as
    there are enough, never fewer than two per subgroup. Raises RequestError listing all faults.
    """
    path = Path(path)
    if max_prompts is not None and max_prompts < 1:
        raise RequestError(
            Fault("max_prompts", f"{max_prompts} is not a number of prompts.", "Give 1 or more.")
        )
    table, notes = _format_of(path).load(path, tuple(dict.fromkeys(axes)), seed, max_prompts)
    table = sample(table, seed, max_prompts)
    if max_prompts is not None:
        notes = tuple(notes) + _sampling_notes(table, max_prompts)
    digest = digest_of(table.to_dict("split", index=False)["data"])
    return PromptSet(_name(path), table, digest, tuple(notes), own_split="split" in table)


def split_prompts(prompts: PromptSet, seed: int, validation_share: float = 0.2) -> PromptSet:
    """Add a column `split`, "validation" or "test", drawn per axis and subgroup with `seed`; a
    source's own is kept.

    Every subgroup gets at least one prompt in each. Where an axis has at least MIN_FRAMES
    templates, all subgroups put the same templates into validation. Raises RequestError for a share
    outside (0, 1).
    """
    if not 0 < validation_share < 1:
        raise RequestError(
            Fault(
                "validation share",
                f"{validation_share} is outside (0, 1).",
                "Use 0.2, as published.",
            )
        )
    if prompts.own_split:
        return prompts
    table = prompts.table.copy()
    table["split"] = "test"
    for axis, rows in table.groupby("axis", sort=True):
        whole = rows["template"].nunique() >= MIN_FRAMES
        frames = {
            frame: key_of("split", seed, axis, frame) if whole else 0
            for frame in rows["template"].unique()
        }
        own = rows["prompt_id"].map(lambda name: key_of("split", seed, name))
        ordered = rows.assign(_frame=rows["template"].map(frames), _own=own).sort_values(
            ["_frame", "_own"]
        )
        for _, part in ordered.groupby("subgroup", sort=True):
            size = int(np.clip(round(validation_share * len(part)), 1, max(1, len(part) - 1)))
            table.loc[part.index[:size], "split"] = "validation"
    return replace(prompts, table=table)


def _format_of(path: Path) -> ModuleType:
    known = formats()
    for module in known:
        if module.matches(path):
            return module
    what = (
        "There is no such file or folder."
        if not path.exists()
        else "The format of the prompts is not known."
    )
    raise RequestError(
        Fault(f"prompts {path}", what, f"Known: {'; '.join(module.NAME for module in known)}.")
    )


def _name(path: Path) -> str:
    """Short name for the screen: the folder above a bare version folder is part of it."""
    return (
        f"{path.parent.name} {path.name}"
        if path.is_dir() and path.name.startswith("v1")
        else path.name
    )


def _sampling_notes(table: pd.DataFrame, max_prompts: int) -> tuple[str, ...]:
    """How many prompts each axis has now, and where `max_prompts` was too few; table: columns as
    table.COLUMNS."""
    notes = []
    for axis, rows in table.groupby("axis", sort=True):
        sizes = rows.groupby("subgroup").size()
        wanted = quota(max_prompts, len(sizes))
        notes.append(
            f"{axis}: {len(rows)} prompts sampled, {sizes.min()} to {sizes.max()} per subgroup."
        )
        if wanted * len(sizes) > max_prompts:
            notes.append(
                f"{axis}: {max_prompts} prompts are too few for {len(sizes)} subgroups; two each"
                " were kept."
            )
    return tuple(notes)


# Further prompts of the source that nobody asked for: validation prompts that an audit may draw
# on when it pays.


SPARE = "spare"


def with_spares(asked: PromptSet, source: PromptSet, seed: int = 0) -> PromptSet:
    """`asked` (with its splits) and, as splits "spare 1", "spare 2", …, what `source` holds beyond
    it.

    A round has no more prompts of a subgroup than validation has, and equally many of each
    subgroup. Where an axis has MIN_FRAMES templates or more, templates of test prompts are left
    out, as they are of validation. Of a source that has its own split, spares are validation
    prompts.
    """
    left = source.table[~source.table["prompt_id"].isin(asked.table["prompt_id"])]
    if source.own_split:
        left = left[left["split"] == "validation"]
    parts = [
        _rounds(rows, asked.table[asked.table["axis"] == axis], seed)
        for axis, rows in left.groupby("axis")
    ]
    spare = pd.concat([left.iloc[:0].assign(split=""), *parts])
    if spare.empty:
        return asked
    table = pd.concat([asked.table, spare], ignore_index=True)
    digest = digest_of([asked.digest, sorted(spare["prompt_id"] + spare["split"])])
    return replace(asked, table=table, digest=digest)


def _rounds(left: pd.DataFrame, asked: pd.DataFrame, seed: int) -> pd.DataFrame:
    """The prompts `left` of one axis with their split, as many as all subgroups have."""
    test = asked[asked["split"] == "test"]
    if asked["template"].nunique() >= MIN_FRAMES:
        left = left[~left["template"].isin(test["template"])]
    wanted = asked[asked["split"] == "validation"].groupby("subgroup").size()
    each = int(left.groupby("subgroup").size().reindex(wanted.index, fill_value=0).min())
    ordered = left.assign(
        _order=left["prompt_id"].map(lambda name: key_of("spare", seed, name))
    ).sort_values("_order")
    place = ordered.groupby("subgroup").cumcount()
    rounds = (place // int(wanted.min()) + 1).map(lambda number: f"{SPARE} {number}")
    return ordered.assign(split=rounds)[(place < each).to_numpy()].drop(columns="_order")
