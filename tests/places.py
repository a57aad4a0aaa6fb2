"""Where tests find the project and the reference data, which may be absent."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ASSETS = ROOT / "assets"
SHARED = ROOT.parent / "shared" / "data"
"""Real models and data; tests that need them skip where they are not."""
DEMOS = {
    path.parent: meta["track"]
    for path in sorted((ASSETS / "demo-run" / "runs").glob("*/run.json"))
    if (meta := json.loads(path.read_text(encoding="utf-8")))["model"]["name"].startswith("demo-")
}
"""Tracks of the embedded audits whose model is here, by folder; others can only be read."""


def demo_of(track: str) -> str:
    """The id of the first of them."""
    return next(folder.name for folder, name in DEMOS.items() if name == track)
