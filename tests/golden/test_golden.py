"""Embedded audits say and show what they did: no line more, none less, none changed unseen."""

from __future__ import annotations

import difflib

import pytest

from engine.store.runs import EMBEDDED, Store
from tests.golden.golden import KEPT, text_of

EMBEDDED_RUNS = Store(EMBEDDED, read_only=True)


def test_every_embedded_audit_is_kept():
    assert {path.stem for path in KEPT.iterdir()} == set(EMBEDDED_RUNS.ids())


@pytest.mark.parametrize("run_id", EMBEDDED_RUNS.ids())
def test_it_says_what_it_said(run_id):
    """Where a wording was meant to change: `python -m tests.golden.golden`, and the commit shows
    it."""
    kept = (KEPT / f"{run_id}.txt").read_text(encoding="utf-8").splitlines()
    now = text_of(EMBEDDED_RUNS.open(run_id)).splitlines()
    assert now == kept, "\n".join(list(difflib.unified_diff(kept, now, lineterm="", n=0))[:40])
