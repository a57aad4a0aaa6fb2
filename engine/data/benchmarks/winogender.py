"""Winogender (Rudinger et al. 2018): sentences about an occupation that differ in one pronoun."""

from __future__ import annotations

import csv
import math
from pathlib import Path

from engine.core.errors import Fault, RequestError
from engine.data.benchmarks.base import BenchmarkReader, Item
from engine.data.tables import need_columns, text_of

SENTENCES, STATS = "all_sentences.tsv", "occupations-stats.tsv"
MEANT = {"0": "the occupation", "1": "the other person"}
PARTS = 5
"""Of an id such as technician.customer.1.male.txt."""


class Winogender(BenchmarkReader):
    """Roles: female, male, neutral, the pronoun. An item is a sentence without its pronoun;
    clusters: occupations.

    Groups: whom the pronoun means. Further columns: kind (the occupation) and women (per cent of
    the people in it, US Bureau of Labor Statistics, where the file of the statistics lies beside;
    else NaN).
    """

    name = "winogender"
    about = f"{SENTENCES} of Winogender, {STATS} beside it"
    roles = ("female", "male", "neutral")

    def read(self, path: Path) -> tuple[list[Item], list[Fault], list[str]]:
        path = path / SENTENCES if path.is_dir() else path
        women, notes, faults = _women(path.with_name(STATS))
        found: dict[str, dict[str, str]] = {}
        first: dict[str, str] = {}
        for number, row in enumerate(_tsv(path, ("sentid", "sentence")), 1):
            parts, where = row["sentid"].split("."), f"row {number}"
            if len(parts) != PARTS or parts[3] not in self.roles or parts[2] not in MEANT:
                what = f"sentid is {row['sentid'][:60]!r}."
                faults.append(
                    Fault(f"{path.name}, {where}", what, "As occupation.participant.0.male.txt.")
                )
                continue
            frame = ".".join(parts[:3])
            first.setdefault(frame, where)
            if parts[3] in found.setdefault(frame, {}):
                faults.append(
                    Fault(
                        f"{path.name}, {where}", f"{row['sentid']} is there twice.", "Give it once."
                    )
                )
            found[frame][parts[3]] = row["sentence"]
        items = [self._item(frame, first[frame], texts, women) for frame, texts in found.items()]
        return items, faults, notes

    @staticmethod
    def _item(frame: str, row: str, texts: dict[str, str], women: dict[str, float]) -> Item:
        occupation, _, meant = frame.split(".")
        more = {"kind": occupation, "women": women.get(occupation)}
        return Item(row, frame, MEANT[meant], occupation, texts, more=more)


def _women(path: Path) -> tuple[dict[str, float], list[str], list[Fault]]:
    """Per cent of women by occupation; none, and a note, where the file is not there."""
    if not path.is_file():
        return (
            {},
            [
                f"{path.name} is not beside the sentences: nothing is compared with real shares of"
                " women."
            ],
            [],
        )
    found, faults = {}, []
    for number, row in enumerate(_tsv(path, ("occupation", "bls_pct_female")), 1):
        try:
            value = float(row["bls_pct_female"])
        except ValueError:
            value = math.nan
        if 0 <= value <= 100:
            found[row["occupation"]] = value
        else:
            what = f"bls_pct_female is {row['bls_pct_female'][:40]!r}."
            faults.append(Fault(f"{path.name}, row {number}", what, "A share in per cent."))
    return found, [], faults


def _tsv(path: Path, needed: tuple[str, ...]) -> list[dict[str, str]]:
    """Rows of a table whose cells are separated by tabs. Raises RequestError."""
    import pandas as pd

    lines = [line.rstrip("\r") for line in text_of(path).split("\n") if line.strip()]
    try:
        rows = list(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    except csv.Error as error:
        raise RequestError(
            Fault(path.name, f"Not a table ({error}).", "Separate cells by tabs.")
        ) from error
    need_columns(path, pd.DataFrame(columns=rows[0]), needed)
    if wrong := [number for number, row in enumerate(rows[1:], 1) if len(row) != len(rows[0])]:
        what = f"{len(rows[wrong[0]])} cells where the header has {len(rows[0])}."
        raise RequestError(Fault(f"{path.name}, row {wrong[0]}", what, "Separate cells by tabs."))
    return [
        {name: cell.strip() for name, cell in zip(rows[0], row, strict=True)} for row in rows[1:]
    ]
