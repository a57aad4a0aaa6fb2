"""The two embedded tasks this project writes itself, remarks and topics, with planted differences
between groups."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pandas as pd

from engine.data.splits import CLASS
from engine.data.texts import remark_task
from engine.data.texts.readers.base import LENGTH, Listing, TextInfo, TextReader, Wanted


class EmbeddedTexts(TextReader):
    """`remarks` (two classes) and `topics` (four): written anew each time, the same on every
    machine."""

    name = f"embedded: {', '.join(remark_task.CARDS)}"

    def recognises(self, source: str, path: Path) -> bool:
        return source.strip() in remark_task.CARDS

    def look(self, source: str, path: Path) -> TextInfo:
        name = source.strip()
        groups = tuple(remark_task.GROUPS[name])
        axes, card, n = (*groups, LENGTH, CLASS), remark_task.CARDS[name], len(_table(name))
        return TextInfo(
            name, "embedded", (), ("label",), axes, "label", "text", groups[:1], "accuracy", n, card
        )

    def read(self, source: str, path: Path, wanted: Wanted) -> Listing:
        name = source.strip()
        table = _table(name).assign(text_b="")
        classes, card = tuple(remark_task.CLASSES[name]), remark_task.CARDS[name]
        return Listing(name, table, classes, "accuracy", (), card)


@cache
def _table(name: str) -> pd.DataFrame:
    """One task, columns as in remark_task.tables. It is cached and must not be changed: `read`
    makes copies."""
    return remark_task.tables()[name]
