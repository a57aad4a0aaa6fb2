"""Tasks of lm-eval: questions that a model answers right or wrong, as a measure of what it can
still do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.core.errors import Fault
from engine.data.benchmarks.base import MAX_TEXT, BenchmarkReader, Item
from engine.data.lm_tasks import Built, are_names, quiet, tasks_of

OTHER = "(another answer)"
NOTHING = "(an empty answer)"


class LmEvalTasks(BenchmarkReader):
    """Roles: right, the answer that counts, and wrong, any other. Groups: tasks; every item is a
    cluster of its own.

    Further columns: kind (the number that is read of every item) and made_of (digest of task,
    package and document).
    """

    name = "lm_eval"
    about = (
        "tasks of lm-eval (a task's .yaml file, a folder of them, or names of its own tasks, comma"
        " between)"
    )
    roles = ("right", "wrong")

    def is_name(self, place: str) -> bool:
        return are_names(place)

    def read(self, path: Path) -> tuple[list[Item], list[Fault], list[str]]:
        found = tasks_of(str(path))
        with quiet():
            return [item for one in found for item in _items(one)], [], []


def _items(one: Built) -> list[Item]:
    found = []
    for item_id, doc, digest in one.items():
        texts = {"right": _target(one.task, doc), "wrong": OTHER}
        more = {"kind": one.score, "made_of": digest}
        prefix = str(one.task.doc_to_text(doc))[:MAX_TEXT] or NOTHING
        found.append(Item(item_id, item_id, one.name, item_id, texts, prefix, more))
    return found


def _target(task: Any, doc: Any) -> str:
    """The right answer in words; several with a bar between."""
    target = task.doc_to_target(doc)
    choices = task.doc_to_choice(doc) if task.OUTPUT_TYPE == "multiple_choice" else []
    several = target if isinstance(target, list) else [target]
    said = [
        choices[one] if type(one) is int and 0 <= one < len(choices) else str(one)
        for one in several
    ]
    return (" | ".join(map(str, said)).strip() or NOTHING)[:MAX_TEXT]
