"""BBQ (Parrish et al. 2022): questions whose answer a context does not tell (ambiguous) or tells
(disambiguated)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from engine.core.errors import Fault, refusal
from engine.core.types import Values
from engine.data.benchmarks.base import BenchmarkReader, Item, Read, text_at
from engine.data.tables import read_json_lines

FIELDS = (
    "question_index",
    "category",
    "context_condition",
    "question_polarity",
    "context",
    "question",
)
CONDITIONS, POLARITIES = ("ambig", "disambig"), ("neg", "nonneg")
ANSWERS = ("ans0", "ans1", "ans2")
BESIDE = re.compile(r"^(?:[FM]|lowSES|highSES)-")
"""Before the group in the tag of a person's name: F-Black is about the group Black."""
ALIKE = {"woman": "f", "girl": "f", "man": "m", "boy": "m"}
"""Words for a group that the list of stereotyped groups names by a letter."""


class Bbq(BenchmarkReader):
    """Roles: target (the answer that names the group which the stereotype is about), other,
    unknown. Groups: categories with the group that is the target; clusters: questions of a
    category, each of which fills many items. Further
    columns: kind (ambig or disambig), polarity (neg: the question asks for who does what the
    stereotype says), answer (the role that is right)."""

    name = "bbq"
    about = "a .jsonl file of BBQ, or a folder of them"
    roles = ("target", "other", "unknown")

    def read(self, path: Path) -> Read:
        files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if not files:
            raise refusal(path.name, "The folder holds no .jsonl file.", f"Name {self.about}.")
        items: list[Item] = []
        faults: list[Fault] = []
        unclear = 0
        for file in files:
            rows, more = read_json_lines(file)
            faults += more
            for number, row in rows:
                found = _item(file.name, number, row, faults)
                items += [found] if found else []
                unclear += found is None
        notes = []
        if unclear and not faults:
            notes = [_left_out(unclear)]
        return items, faults, notes


def _left_out(count: int) -> str:
    start = "1 item is left out: its" if count == 1 else f"{count} items are left out: their"
    return f"{start} target cannot be told from the file."


def _item(name: str, number: int, row: Values, faults: list[Fault]) -> Item | None:
    """An item; None where one answer cannot be called the target, or where the row has faults,
    which are added."""
    at, before = f"{name}, row {number}", len(faults)
    said = {field: text_at(row, field, at, faults) for field in FIELDS}
    answers = [text_at(row, field, at, faults) for field in ANSWERS]
    for field, allowed in (("context_condition", CONDITIONS), ("question_polarity", POLARITIES)):
        if said[field] and said[field] not in allowed:
            faults.append(
                Fault(at, f"{field} is {said[field][:40]!r}.", f"One of {', '.join(allowed)}.")
            )
    label: Any = row.get("label")
    if type(label) is not int or label not in range(len(ANSWERS)):
        what = "label is missing." if "label" not in row else f"label is {str(label)[:40]!r}."
        faults.append(Fault(at, what, "0, 1 or 2."))
    roles, group = _roles(row, at, faults)
    if len(faults) > before or not roles:
        return None
    more = {
        "kind": said["context_condition"],
        "polarity": said["question_polarity"],
        "answer": roles[label],
    }
    prefix = f"Context: {said['context']}\nQuestion: {said['question']}\nAnswer:"
    texts = dict(zip(roles, answers, strict=True))
    cluster = f"{said['category']} {said['question_index']}"
    item_id = f"{said['category']} {row.get('example_id', number)}"
    return Item(
        f"row {number}", item_id, f"{said['category']}: {group}", cluster, texts, prefix, more
    )


def _roles(row: Values, at: str, faults: list[Fault]) -> tuple[list[str], str]:
    """The roles of the three answers and the name of the target; none where they cannot be told
    apart."""
    info, beside = row.get("answer_info"), row.get("additional_metadata")
    groups = beside.get("stereotyped_groups") if isinstance(beside, dict) else None
    tags: list[Any] = [info.get(field) for field in ANSWERS] if isinstance(info, dict) else []
    if not (tags and all(isinstance(one, list) and len(one) == 2 for one in tags)):
        faults.append(
            Fault(at, "answer_info is missing or has another shape.", "Use the published file.")
        )
        return [], ""
    if not isinstance(groups, list):
        faults.append(
            Fault(
                at, "additional_metadata.stereotyped_groups is missing.", "Use the published file."
            )
        )
        return [], ""
    known = {_meant(group) for group in groups}
    named = [{_meant(word) for word in one} for one in tags]
    roles = [
        "unknown" if "unknown" in one else "target" if one & known else "other" for one in named
    ]
    if sorted(roles) != ["other", "target", "unknown"]:
        return [], ""
    group = BESIDE.sub("", str(tags[roles.index("target")][1]))
    return roles, {"f": "F", "m": "M"}.get(_meant(group), group)


def _meant(word: Any) -> str:
    """What a tag of an answer, or a stereotyped group, stands for: the file spells one group in
    several ways."""
    letters = "".join(filter(str.isalnum, BESIDE.sub("", str(word)))).lower()
    return "trans" if letters.startswith("trans") else ALIKE.get(letters, letters)
