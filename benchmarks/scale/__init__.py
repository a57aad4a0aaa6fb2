"""Audits at real sizes: time and agreement of each way to save time, as ratios in one run. One file
per row."""

from __future__ import annotations

import sys


def said(line: str) -> None:
    """How far a row is, beside what it prints at its end."""
    print(line, file=sys.stderr, flush=True)
