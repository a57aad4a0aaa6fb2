"""Prompts about subgroups from a path in any known layout: read, checked, sampled, split into
validation and test."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

import engine.data.prompts
from engine.core.errors import Fault, RequestError, refuse, unknown
from engine.core.types import PromptSet, digest_of, key_of
from engine.data.sources import SEED, Reader, most_faults, reader_of
from engine.data.tables import USUAL, csv_table, need_columns

COLUMNS = ("prompt_id", "axis", "subgroup", "text", "template", "descriptor")
FRAME_MARK = " × "
"""Between template and noun in the `template` column: the whole names the frame x of FASP's Eq. 1,
the part before the mark is the cluster that intervals resample."""
MAX_CELL = 10_000
"""Characters in one cell; longer ones are a fault (a prompt is cut to a few dozen tokens anyway).
"""
MIN_PER_SUBGROUP = 2
MIN_FRAMES = 20
"""From this many templates on, whole templates go to validation or to test, so paired readings stay
whole."""
VALIDATION_SHARE = 0.2
"""Of the prompts of a subgroup, as published."""
RESERVE = "spare"
"""How the names of splits begin that hold further validation prompts."""


@dataclass(frozen=True)
class Reading:
    """What a reader found.

    table: axis, subgroup, text and, where the source has them, template, descriptor and split, all
    str. axes: those the source has, sorted. faults: what is wrong with what was read. notes: what
    must be said of it.
    """

    table: pd.DataFrame
    axes: tuple[str, ...]
    notes: tuple[str, ...] = ()
    faults: Sequence[Fault] = ()


class PromptReader(Reader):
    """One layout of prompts. Final subclasses live in this package and are found, not
    registered."""

    @abstractmethod
    def read(self, axes: Sequence[str], max_prompts: int | None) -> Reading:
        """Prompts of the named axes (none named: all), perhaps of more. RequestError where a file
        cannot be read. Readers of huge sources draw at most `max_prompts` per axis;
        the others leave that to the caller."""

    def axes(self) -> tuple[str, ...]:
        """The axes it has, sorted. RequestError where they cannot be read."""
        found = self.read((), 1)
        if found.faults:
            raise RequestError(found.faults)
        return found.axes


def known_axes(path: str | Path) -> tuple[str, ...]:
    """Axes that the prompts at `path` have, sorted. Raises RequestError for an unknown format."""
    return _reader_of(path).axes()


def load_prompts(
    path: str | Path, axes: Sequence[str], *, max_prompts: int | None = None
) -> PromptSet:
    """Read the prompts of the named axes (none named: all) in any layout that has a reader.

    max_prompts: at most this many per axis, equal per subgroup as far as
    there are enough, never fewer than two per subgroup. Raises RequestError listing all faults.
    """
    refuse(most_faults("max_prompts", max_prompts, "prompts"))
    reader = _reader_of(path)
    path = reader.path
    found = reader.read(tuple(dict.fromkeys(axes)), max_prompts)
    wanted = tuple(dict.fromkeys(axes)) or found.axes
    table = found.table.reindex(
        columns=[*COLUMNS[1:], *(["split"] if "split" in found.table else [])], fill_value=""
    )
    faults = [
        *found.faults,
        *(
            unknown(f"{path.name}, axis", axis, found.axes)
            for axis in axes
            if axis not in found.axes
        ),
        *_cell_faults(path.name, table),
        *_subgroup_faults(path.name, table, wanted),
        *_split_faults(path.name, table, wanted),
    ]
    refuse(faults)
    table, notes = _finished(table[table["axis"].isin(wanted)])
    table = sample(table, max_prompts)
    if max_prompts is not None:
        notes += _sampling_notes(table, max_prompts)
    digest = digest_of(table.to_dict("split", index=False)["data"])
    # Short name for the screen: the folder above a bare version folder is part of it.
    return PromptSet(
        f"{path.parent.name} {path.name}"
        if path.is_dir() and path.name.startswith("v1")
        else path.name,
        table,
        digest,
        (*found.notes, *notes),
        own_split="split" in table,
    )


def _reader_of(path: str | Path) -> PromptReader:
    return reader_of(str(path), engine.data.prompts, PromptReader, "prompts", "prompts")


def _finished(table: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The table with prompt_id first, without repeats, sorted, all str; and notes.

    An id is a hash of axis, subgroup and text, so neither order nor file name matters.
    """
    named = zip(table["axis"], table["subgroup"], table["text"], strict=True)
    ids = [f"{key_of('prompt-id', *row):016x}" for row in named]
    unique = table.assign(prompt_id=ids).drop_duplicates("prompt_id")
    notes = []
    if repeated := len(table) - len(unique):
        notes.append(
            f"{repeated} prompts appear more than once in their subgroup; each was kept once."
        )
    if "split" in unique:
        counts = unique["split"].value_counts().sort_index()
        listed = ", ".join(f"{split} {n:,}" for split, n in counts.items())
        notes.append(f"The split is the source's own: {listed} prompts.")
    ordered = unique.sort_values(["axis", "subgroup", "prompt_id"], ignore_index=True)
    columns = [*COLUMNS, *(["split"] if "split" in ordered else [])]
    return ordered[columns].astype(str), tuple(notes)


def _cell_faults(name: str, table: pd.DataFrame) -> list[Fault]:
    """Cells that are too long, in any column, and prompts (column text) that are empty.

    Row numbers are 1-based and leave out the header.
    """
    faults = []
    for column in table.columns if len(table) else ():
        lengths = table[column].str.len().to_numpy()
        if (longest := int(lengths.max())) > MAX_CELL:
            where = f"{name}, row {int(lengths.argmax()) + 1}, column {column}"
            fix = f"At most {MAX_CELL:,}; is a quotation mark missing?"
            faults.append(Fault(where, f"A cell has {longest:,} characters.", fix))
    empty = np.flatnonzero(table["text"].str.strip() == "")
    if len(empty):
        where = f"{name}, row {empty[0] + 1}"
        faults.append(Fault(where, f"{len(empty)} prompts are empty.", "Remove or fill them."))
    return faults


def _subgroup_faults(name: str, table: pd.DataFrame, axes: Sequence[str]) -> list[Fault]:
    """Axes with prompts of no subgroup, with one subgroup, or with a subgroup of one prompt."""
    faults = []
    for axis in axes:
        rows, where = table[table["axis"] == axis], f"{name}, axis {axis}"
        named = rows["subgroup"].str.strip() != ""
        if blank := int((~named).sum()):
            what = f"{blank} prompts name no subgroup."
            faults.append(Fault(where, what, "Fill the column subgroup."))
        sizes = rows[named].drop_duplicates(["subgroup", "text"]).groupby("subgroup").size()
        if len(sizes) == 1:
            what = f"There is only one subgroup, {sizes.index[0]!r}."
            faults.append(Fault(where, what, "Bias compares subgroups: give at least two."))
        if small := _few_names(sizes < MIN_PER_SUBGROUP):
            what = f"Subgroups with a single prompt: {small}."
            fix = (
                "Give at least two different prompts per subgroup (one to choose heads, one to"
                " test)."
            )
            faults.append(Fault(where, what, fix))
    return faults


def _split_faults(name: str, table: pd.DataFrame, axes: Sequence[str]) -> list[Fault]:
    """Where the source has its own split: subgroups that validation or test lacks.

    A prompt of both counts for the first that has it, as in `_finished`.
    """
    if "split" not in table:
        return []
    faults = []
    unique = table[table["axis"].isin(axes)].drop_duplicates(["axis", "subgroup", "text"])
    for axis, rows in unique.groupby("axis", sort=True):
        if lacking := _few_names(rows.groupby("subgroup")["split"].nunique() < 2):
            what = f"Subgroups in only one of validation and test: {lacking}."
            faults.append(Fault(f"{name}, axis {axis}", what, "Use the two pairs of one release."))
    return faults


def _few_names(marked: pd.Series) -> str:
    """The first eight names in the index of a bool series that are marked; "" where none is."""
    names = [str(name) for name in marked.index[marked]]
    return ", ".join(names[:8]) + (" …" if len(names) > 8 else "")


def quota(max_prompts: int, n_subgroups: int) -> int:
    """Prompts per subgroup when an axis gets at most `max_prompts`; never fewer than two."""
    return max(MIN_PER_SUBGROUP, max_prompts // max(1, n_subgroups))


def sample(table: pd.DataFrame, max_prompts: int | None) -> pd.DataFrame:
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
            sample(rows, max(1, round(max_prompts * len(rows) / len(table)))) for rows in parts
        ]
        return table[table["prompt_id"].isin(pd.concat(chosen)["prompt_id"])].reset_index(drop=True)
    keep = []
    for axis, rows in table.groupby("axis", sort=True):
        if len(rows) <= max_prompts:
            keep.append(rows)
            continue
        share = quota(max_prompts, rows["subgroup"].nunique())
        keep.extend(
            _first(part, share, str(axis)) for _, part in rows.groupby("subgroup", sort=True)
        )
    return pd.concat(keep).sort_values(["axis", "subgroup", "prompt_id"], ignore_index=True)


def _first(rows: pd.DataFrame, share: int, axis: str) -> pd.DataFrame:
    """The first `share` prompts of one subgroup, going round the templates; columns as COLUMNS."""
    own = rows["prompt_id"].map(lambda name: key_of("sample", SEED, name))
    frames = {frame: key_of("frame", SEED, axis, frame) for frame in rows["template"].unique()}
    keyed = rows.assign(_own=own, _frame=rows["template"].map(frames))
    keyed["_round"] = keyed.groupby("template")["_own"].rank(method="first")
    return keyed.sort_values(["_round", "_frame", "_own"]).head(share)[list(rows.columns)]


def _sampling_notes(table: pd.DataFrame, max_prompts: int) -> tuple[str, ...]:
    """How many prompts each axis has now, and where `max_prompts` was too few; table: columns as
    table.COLUMNS."""
    notes = []
    for axis, rows in table.groupby("axis", sort=True):
        sizes = rows.groupby("subgroup").size()
        wanted = quota(max_prompts, len(sizes))
        each = " to ".join(map(str, sorted({sizes.min(), sizes.max()})))
        notes.append(f"{axis}: {len(rows)} prompts sampled, {each} per subgroup.")
        if wanted * len(sizes) > max_prompts:
            notes.append(
                f"{axis}: {max_prompts} prompts are too few for {len(sizes)} subgroups; two each"
                " were kept."
            )
    return tuple(notes)


def split_prompts(prompts: PromptSet) -> PromptSet:
    """Add a column `split`, "validation" or "test", drawn per axis and subgroup; a
    source's own is kept.

    Every subgroup gets at least one prompt in each. Where an axis has at least MIN_FRAMES
    templates, all subgroups put the same templates into validation.
    """
    if prompts.own_split:
        return prompts
    table = prompts.table.copy()
    table["split"] = "test"
    for axis, rows in table.groupby("axis", sort=True):
        whole = rows["template"].nunique() >= MIN_FRAMES
        frames = {
            frame: key_of("split", SEED, axis, frame) if whole else 0
            for frame in rows["template"].unique()
        }
        own = rows["prompt_id"].map(lambda name: key_of("split", SEED, name))
        ordered = rows.assign(_frame=rows["template"].map(frames), _own=own).sort_values(
            ["_frame", "_own"]
        )
        for _, part in ordered.groupby("subgroup", sort=True):
            size = int(np.clip(round(VALIDATION_SHARE * len(part)), 1, max(1, len(part) - 1)))
            table.loc[part.index[:size], "split"] = "validation"
    return replace(prompts, table=table)


def with_reserve_prompts(asked: PromptSet, source: PromptSet) -> PromptSet:
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
        _rounds(rows, asked.table[asked.table["axis"] == axis])
        for axis, rows in left.groupby("axis")
    ]
    spare = pd.concat([left.iloc[:0].assign(split=""), *parts])
    if spare.empty:
        return asked
    table = pd.concat([asked.table, spare], ignore_index=True)
    digest = digest_of([asked.digest, sorted(spare["prompt_id"] + spare["split"])])
    return replace(asked, table=table, digest=digest)


def _rounds(left: pd.DataFrame, asked: pd.DataFrame) -> pd.DataFrame:
    """The prompts `left` of one axis with their split, as many as all subgroups have."""
    test = asked[asked["split"] == "test"]
    if asked["template"].nunique() >= MIN_FRAMES:
        left = left[~left["template"].isin(test["template"])]
    wanted = asked[asked["split"] == "validation"].groupby("subgroup").size()
    each = int(left.groupby("subgroup").size().reindex(wanted.index, fill_value=0).min())
    ordered = left.assign(
        _order=left["prompt_id"].map(lambda name: key_of("spare", 0, name))
    ).sort_values("_order")
    place = ordered.groupby("subgroup").cumcount()
    rounds = (place // int(wanted.min()) + 1).map(lambda number: f"{RESERVE} {number}")
    return ordered.assign(split=rounds)[(place < each).to_numpy()].drop(columns="_order")


REQUIRED = ("prompt", "axis", "subgroup")
OPTIONAL = ("template", "descriptor")


class PromptCsv(PromptReader):
    """Any file ending as tables do, also a missing one: the error is then about the file, not about
    its format. Axes and subgroups have one spelling each; prompts keep the blanks around them."""

    name = "a CSV file with the columns prompt, axis, subgroup (and template, descriptor)"

    def recognises(self) -> bool:
        return self.path.suffix.lower() in USUAL and not self.path.is_dir()

    def read(self, axes: Sequence[str], max_prompts: int | None) -> Reading:
        csv = csv_table(self.path, REQUIRED + OPTIONAL, whole="prompt")
        need_columns(self.path, csv.cells, REQUIRED)
        there = [name for name in REQUIRED + OPTIONAL if name in csv.cells.columns]
        notes = csv.notes
        if unread := [name[:40] for name in csv.cells.columns if name not in there]:
            notes += (f"Columns that are not read: {', '.join(unread[:12])}.",)
        table = csv.cells[there].rename(columns={"prompt": "text"})
        for name in ("axis", "subgroup"):
            table[name], said = csv.spelled(name)
            notes += said
        if none := int((table["axis"] == "").sum()):
            notes += (f"{none} prompts name no axis and are left out.",)
        return Reading(table, tuple(sorted(set(table["axis"]) - {""})), notes)
