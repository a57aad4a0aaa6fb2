"""Prompts about subgroups from a path in any known format, and their split into validation and
test."""

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
from engine.core.errors import Fault, RequestError
from engine.core.seeds import key_of
from engine.core.types import PromptSet, digest_of
from engine.data.prompts.table import quota, sample

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
