"""Where tests find the project and the reference data, which may be absent."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ASSETS = ROOT / "assets"
SHARED = ROOT.parent / "shared" / "data"
"""Real models and data; tests that need them skip where they are not."""
