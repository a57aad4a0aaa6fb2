"""Models and data: what is here to start an audit from."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from engine.audit.tracks import tracks
from engine.core.files import ASSETS
from engine.store.runs import default_root
from pages.shared import panels
from pages.shared.frame import draw_page, heading
from pages.shared.safe import header


def page() -> None:
    heading("models", notes=False)
    for track in tracks().values():
        for shelf in track.part("shelves")() if track.shelves else ():
            header(shelf.title)
            panels.table(shelf.table)
            if shelf.note:
                st.caption(shelf.note)
    header("Prompts and texts")
    panels.table(_files())


def _files() -> pd.DataFrame:
    """Embedded data and what was uploaded before."""
    folders = (ASSETS / "demo-data", default_root() / "uploads")
    found = [path for folder in folders for path in sorted(folder.rglob("*.*"))]
    rows = [
        {
            "File": path.name,
            "Kilobytes": round(path.stat().st_size / 1024),
            "Where": str(path.parent),
        }
        for path in found
        if path.is_file() and path.suffix in (".csv", ".json", ".txt")
    ]
    return pd.DataFrame(rows, columns=["File", "Kilobytes", "Where"])


draw_page(page)
