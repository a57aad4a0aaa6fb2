"""ask, of text classifiers: what is answered to a sentence, and which words decide."""

from __future__ import annotations

import argparse

from engine.core.text import visible
from engine.core.types import Values
from engine.report import phrasing
from engine.report.one_input import class_lines
from engine.store.runs import Run

ASKS = "sentence"
OPTIONS = {
    "--text": {"metavar": "TEXT", "help": "the sentence to classify"},
    "--second": {"metavar": "TEXT", "help": "the second text, where the task has pairs"},
}


def given(run: Run, args: argparse.Namespace) -> Values:
    """What the words ask of the run."""
    return {"text": args.text, **({"second": args.second} if args.second else {})}


def said(answer: Values, shown: bool) -> tuple[Values, str]:
    """The answer as value and as text. All words are the user's own, so nothing is hidden."""
    lines = [
        f"{answer['cut']}, {phrasing.count(len(answer['heads']), 'head')} off",
        *class_lines(answer),
    ]
    lines.append(f"  words for {answer['target']!r}, in log-odds: dense / pruned")
    weights = zip(answer["words"], answer["dense"]["words"], answer["pruned"]["words"], strict=True)
    lines += [
        f"    {' '.join(word.split()):<20} {one:+.3f} / {other:+.3f}"
        for word, one, other in weights
    ]
    return answer, visible("\n".join([*lines, *(f"! {note}" for note in answer["notes"])]))
