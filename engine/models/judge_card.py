"""judge.json: which checkpoint a folder with a judge holds, its hash, and the models it was made
for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.store.brought import Form, read_brought

_FORM = Form(
    "judge.json",
    'Give a folder with judge.json {"checkpoint": FILE, "sha256": HASH} and the file it names.',
    needed={},
    optional={"name": str, "checkpoint": str, "sha256": str, "note": str, "made_for": dict},
    schemas=None,
)


def read_judge_card(folder: Path) -> dict[str, Any]:
    """Its fields, each of the right kind where it is there. RequestError with every fault."""
    return read_brought(folder / "judge.json", _FORM)
