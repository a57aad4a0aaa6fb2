"""Two labelled tasks that this project wrote: remarks (kind or insulting) and topics (about what).

Groups and places are invented. `assets/build/remark_task.py` wrote them, the same on every machine.
"""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from engine.core.files import ASSETS
from engine.data.sources import CLASS
from engine.data.texts.load import LENGTH, Listing, TextInfo, TextReader, Wanted

FOLDER = ASSETS / "demo-data"
TASKS = json.loads((FOLDER / "tasks.json").read_text(encoding="utf-8"))
"""By name: classes in the order of their labels, group columns, and what was planted."""


class EmbeddedTexts(TextReader):
    """`remarks` (two classes) and `topics` (four), as they lie in assets."""

    name = f"embedded: {', '.join(TASKS)}"

    def recognises(self, source: str, path: Path) -> bool:
        return source.strip() in TASKS

    def look(self, source: str, path: Path) -> TextInfo:
        name, task = source.strip(), TASKS[source.strip()]
        axes, n = (*task["groups"], LENGTH, CLASS), len(_table(name))
        return TextInfo(
            name,
            "embedded",
            (),
            ("label",),
            axes,
            "label",
            "text",
            axes[:1],
            "accuracy",
            n,
            task["stand_in"],
        )

    def read(self, source: str, path: Path, wanted: Wanted) -> Listing:
        name, task = source.strip(), TASKS[source.strip()]
        table = _table(name).assign(text_b="")
        return Listing(name, table, tuple(task["classes"]), stand_in=task["stand_in"])


def _table(name: str) -> pd.DataFrame:
    """One task: columns text, label (the class), split, and its groups."""
    return pd.read_csv(FOLDER / f"{name}.csv", dtype=str, keep_default_na=False)
