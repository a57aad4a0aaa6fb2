"""A text of one's own for a dense and a pruned classifier, as asked; checked before anything
loads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.core.errors import Fault
from engine.core.text import CONTROL
from engine.core.types import Values
from engine.report import phrasing
from engine.report.one_input import asked_model
from engine.store.runs import Run

MOST_CHARACTERS = 20_000
"""Of a text: more is refused before a tokenizer sees it."""
KNOWN = ("run", "text", "second", "variant")


@dataclass(frozen=True)
class Question:
    """What is asked. `variant`: the row of one seed; `second`: "" where the task has one text."""

    run: Run
    variant: Values
    label: str
    text: str
    second: str
    notes: tuple[str, ...]


def question_of(given: Values, run: Run) -> Question:
    """The question, or RequestError with every fault. given: see `asks.py`."""
    is_pair = bool(run.data.get("pair"))
    texts = {name: given.get(name, "") for name in (("text", "second") if is_pair else ("text",))}
    faults = [fault for name, text in texts.items() for fault in text_faults(name, text)]
    if given.get("second") and not is_pair:
        faults.append(
            Fault("second", "is given, and the task of this audit has one text.", "Leave it out.")
        )
    model = asked_model(given, run, KNOWN, faults)
    notes = list(model.notes)
    steering = sum(len(CONTROL.findall(text)) for text in texts.values())
    if steering:
        notes.append(
            f"{phrasing.count(steering, 'control character')} in the text: shown as a mark, read as"
            " it is."
        )
    return Question(
        run, model.variant, model.label, texts["text"], texts.get("second") or "", tuple(notes)
    )


def text_faults(name: str, text: Any) -> list[Fault]:
    if not isinstance(text, str) or not text.strip():
        return [Fault(name, "is empty.", "Write a sentence.")]
    if len(text) > MOST_CHARACTERS:
        what = f"has {len(text):,} characters; at most {MOST_CHARACTERS:,} are read."
        return [Fault(name, what, "Shorten it.")]
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return [
            Fault(
                name, "holds half of a character (a lone surrogate).", "Write it in valid Unicode."
            )
        ]
    return []
