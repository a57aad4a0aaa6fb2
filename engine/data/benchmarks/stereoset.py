"""StereoSet (Nadeem et al. 2021): a stereotype, an anti-stereotype and something unrelated about a
target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from engine.core.errors import Fault, RequestError
from engine.data.benchmarks.base import BenchmarkReader, Item, text_at
from engine.data.json_lines import read_json

PARTS = ("intrasentence", "intersentence")


class StereoSet(BenchmarkReader):
    """Roles as the file's gold labels. Groups: bias types; clusters: targets, about each of which
    there are several items. Further column: kind (intrasentence: a blank is filled, the whole
    sentence is scored; intersentence: the sentence after a context is)."""

    name = "stereoset"
    about = "dev.json of StereoSet"
    roles = ("stereotype", "anti-stereotype", "unrelated")

    def read(self, path: Path) -> tuple[list[Item], list[Fault], list[str]]:
        data = read_json(path).get("data")
        if not isinstance(data, dict) or not any(
            isinstance(data.get(part), list) for part in PARTS
        ):
            what = f"Columns missing: data with {' or '.join(PARTS)}."
            raise RequestError(Fault(path.name, what, "Use dev.json as published."))
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


def _rows(value: Mapping[str, Any], name: str) -> Iterator[Any]:
    found = value.get(name)
    yield from found if isinstance(found, list) else ()
