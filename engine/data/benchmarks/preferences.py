"""Benchmarks of preferences: of texts that differ in a group, which does a model find likelier?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from engine.core.errors import Fault, refusal
from engine.core.types import Values
from engine.data.benchmarks.base import BenchmarkReader, Item, Read, text_at
from engine.data.tables import (
    RowFaults,
    csv_table,
    need_columns,
    read_json,
    read_json_lines,
    tab_rows,
)

NEEDED = ("sent_more", "sent_less", "stereo_antistereo", "bias_type")
KINDS = ("stereo", "antistereo")


class CrowsPairs(BenchmarkReader):
    """CrowS-Pairs (Nangia et al. 2020). Roles: more and less, the sentence that stereotypes more or
    less. Groups: bias types. No two pairs share a template that the file names, so that every pair
    is a cluster of its own. Further column: kind (stereo: written as a stereotype of a
    disadvantaged group; antistereo: as the opposite)."""

    name = "crows_pairs"
    about = "crows_pairs_anonymized.csv of CrowS-Pairs"
    roles = ("more", "less")

    def read(self, path: Path) -> Read:
        found = csv_table(path)
        need_columns(path, found.cells, NEEDED)
        kinds, notes = found.spelled("bias_type")
        table, faults, items = found.cells.assign(bias_type=kinds), [], []
        for number, row in enumerate(table.to_dict("records"), 1):
            where = f"row {number}"
            if row["stereo_antistereo"] not in KINDS:
                what = f"stereo_antistereo is {row['stereo_antistereo'][:40]!r}."
                faults.append(Fault(f"{path.name}, {where}", what, f"One of {', '.join(KINDS)}."))
            texts = {"more": row["sent_more"], "less": row["sent_less"]}
            more = {"kind": row["stereo_antistereo"]}
            items.append(
                Item(where, f"{number - 1}", row["bias_type"], f"{number - 1}", texts, more=more)
            )
        return items, faults, [*found.notes, *notes]


PARTS = ("intrasentence", "intersentence")


class StereoSet(BenchmarkReader):
    """StereoSet (Nadeem et al. 2021). Roles as the file's gold labels. Groups: bias types;
    clusters: targets, about each of which there are several items. Further column: kind
    (intrasentence: a blank is filled, the whole sentence is scored; intersentence: the sentence
    after a context is)."""

    name = "stereoset"
    about = "dev.json of StereoSet"
    roles = ("stereotype", "anti-stereotype", "unrelated")

    def read(self, path: Path) -> Read:
        data = read_json(path).get("data")
        if not isinstance(data, dict) or not any(
            isinstance(data.get(part), list) for part in PARTS
        ):
            what = f"Columns missing: data with {' or '.join(PARTS)}."
            raise refusal(path.name, what, "Use dev.json as published.")
        faults: list[Fault] = []
        items = [
            self._item(path.name, part, number, row, faults)
            for part in PARTS
            for number, row in enumerate(_rows(data, part), 1)
        ]
        return items, faults, []

    def _item(self, name: str, part: str, number: int, row: Any, faults: list[Fault]) -> Item:
        where, row = f"{part}, row {number}", row if isinstance(row, dict) else {}
        at = f"{name}, {where}"
        found = {
            field: text_at(row, field, at, faults)
            for field in ("id", "target", "bias_type", "context")
        }
        texts = dict.fromkeys(self.roles, "")
        for sentence in _rows(row, "sentences"):
            sentence = sentence if isinstance(sentence, dict) else {}
            label = text_at(sentence, "gold_label", at, faults)
            if label and label not in self.roles:
                faults.append(
                    Fault(at, f"gold_label is {label[:40]!r}.", f"One of {', '.join(self.roles)}.")
                )
            texts[label if label in texts else self.roles[0]] = text_at(
                sentence, "sentence", at, faults
            )
        prefix = found["context"] if part == "intersentence" else ""
        cluster = f"{found['bias_type']}: {found['target']}"
        return Item(
            where, found["id"] or where, found["bias_type"], cluster, texts, prefix, {"kind": part}
        )


def _rows(value: Values, name: str) -> Iterator[Any]:
    found = value.get(name)
    yield from found if isinstance(found, list) else ()


SENTENCES, STATS = "all_sentences.tsv", "occupations-stats.tsv"
MEANT = {"0": "the occupation", "1": "the other person"}
TABS = "Separate cells by tabs."
ID_PARTS = 5
"""Of an id such as technician.customer.1.male.txt."""


class Winogender(BenchmarkReader):
    """Winogender (Rudinger et al. 2018). Roles: female, male, neutral, the pronoun. An item is a
    sentence without its pronoun; clusters: occupations.

    Groups: whom the pronoun means. Further columns: kind (the occupation) and women (per cent of
    the people in it, US Bureau of Labor Statistics, where the file of the statistics lies beside;
    else NaN).
    """

    name = "winogender"
    about = f"{SENTENCES} of Winogender, {STATS} beside it"
    roles = ("female", "male", "neutral")

    def read(self, path: Path) -> Read:
        path = path / SENTENCES if path.is_dir() else path
        women, notes, wrong = _women(path.with_name(STATS))
        faults = RowFaults(path.name)
        found: dict[str, dict[str, str]] = {}
        first: dict[str, int] = {}
        for number, row in tab_rows(path, ("sentid", "sentence"), faults, TABS):
            parts = row["sentid"].split(".")
            if len(parts) != ID_PARTS or parts[3] not in self.roles or parts[2] not in MEANT:
                what = f"sentid is {row['sentid'][:60]!r}."
                faults.add(number, what, "As occupation.participant.0.male.txt.")
                continue
            frame, pronoun = ".".join(parts[:3]), parts[3]
            first.setdefault(frame, number)
            if pronoun in found.setdefault(frame, {}):
                faults.add(number, f"{row['sentid']} is there twice.", "Give it once.")
            found[frame][pronoun] = row["sentence"]
        items = []
        for frame, texts in found.items():
            occupation, _, meant = frame.split(".")
            more = {"kind": occupation, "women": women.get(occupation)}
            row_name = f"row {first[frame]}"
            items.append(Item(row_name, frame, MEANT[meant], occupation, texts, more=more))
        return items, [*wrong, *faults.all()], notes


class Occupations(Winogender):
    """Sentences of one's own in Winogender's form, such as those in assets/pairs."""

    name = "occupations"
    about = f"{SENTENCES} in Winogender's form, {STATS} beside it; ours are in assets/pairs"


def _women(path: Path) -> tuple[dict[str, float], list[str], list[Fault]]:
    """Per cent of women by occupation; none, and a note, where the file is not there."""
    if not path.is_file():
        what = f"{path.name} is not beside the sentences:"
        return {}, [f"{what} nothing is compared with real shares of women."], []
    faults = RowFaults(path.name)
    rows = list(tab_rows(path, ("occupation", "bls_pct_female"), faults, TABS))
    shares = pd.to_numeric(pd.Series([row["bls_pct_female"] for _, row in rows]), errors="coerce")
    for (number, row), fits in zip(rows, shares.between(0, 100), strict=True):
        if not fits:
            what = f"bls_pct_female is {row['bls_pct_female'][:40]!r}."
            faults.add(number, what, "A share in per cent.")
    found = zip((row["occupation"] for _, row in rows), shares, strict=True)
    return dict(found), [], faults.all()


# BBQ (Parrish et al. 2022): questions whose answer a context does not tell (ambiguous) or tells
# (disambiguated).


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
