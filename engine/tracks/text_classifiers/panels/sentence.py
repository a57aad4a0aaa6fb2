"""What one answer about a sentence looks like beside its probabilities: the words that decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from engine.core import words
from engine.core.text import visible
from engine.report import phrasing
from engine.report.charts.class_chances import SIDES
from engine.report.charts.panel import Panel

NAMED = 3


def deciding_words(answer: Mapping[str, Any]) -> Panel:
    """The table behind the coloured words, and the strongest ones in a sentence."""
    target = words.quoted(words.group_name(visible(answer["target"])))
    table = pd.DataFrame(
        {
            "word": list(map(visible, answer["words"])),
            **{side: answer[side]["words"] for side in SIDES},
        }
    )
    table["change"] = table["pruned"] - table["dense"]
    told = " ".join(f"{side.capitalize()}: {_strongest(table, side)}." for side in SIDES)
    missed = max(answer[side]["missed"] for side in SIDES)
    note = (
        f"How much each word adds to the log-odds of {target}, the dense model's answer, compared "
        f"with padding. Method: integrated gradients over word embeddings, {answer['steps']} "
        f"points. The sum is off by at most {phrasing.number(missed)}. The result depends on this "
        "method, and on one sentence."
    )
    return Panel("deciding_words", f"Which words speak for {target}?", told, None, table, note)


def _strongest(table: pd.DataFrame, side: str) -> str:
    top = table.sort_values(side, key=abs, ascending=False, kind="stable").head(NAMED)
    return ", ".join(
        f"{words.quoted(row['word'])} {phrasing.signed(row[side])}"
        for row in top.to_dict("records")
    )


def largest_weight(answer: Mapping[str, Any]) -> float:
    """The strongest word of either model: what full colour stands for."""
    return max((abs(value) for side in SIDES for value in answer[side]["words"]), default=0.0)
