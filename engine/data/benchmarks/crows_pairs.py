"""CrowS-Pairs (Nangia et al. 2020): pairs of sentences that differ in the group they are about."""

from __future__ import annotations

from pathlib import Path

from engine.core.errors import Fault
from engine.data.benchmarks.base import BenchmarkReader, Item
from engine.data.tables import csv_table, need_columns

NEEDED = ("sent_more", "sent_less", "stereo_antistereo", "bias_type")
KINDS = ("stereo", "antistereo")


class CrowsPairs(BenchmarkReader):
    """Roles: more and less, the sentence that stereotypes more or less. Groups: bias types. No two
    pairs share a template that the file names, so that every pair is a cluster of its own. Further
    column: kind (stereo: written as a stereotype of a disadvantaged group; antistereo: as the
    opposite)."""

    name = "crows_pairs"
    about = "crows_pairs_anonymized.csv of CrowS-Pairs"
    roles = ("more", "less")

    def read(self, path: Path) -> tuple[list[Item], list[Fault], list[str]]:
        csv = csv_table(path)
        need_columns(path, csv.cells, NEEDED)
        kinds, notes = csv.spelled("bias_type")
        table, faults, items = csv.cells.assign(bias_type=kinds), [], []
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
        return items, faults, [*csv.notes, *notes]
