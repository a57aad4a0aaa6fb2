"""The same audit of every kind in two fresh stores, on one thread and on two: tables equal to the
bit but for times."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp

from benchmarks.app_server import ROOT
from benchmarks.hardening._audits import LONGEST, Audited, audits, differences, run_of, tell
from benchmarks.report import Measure


def measures() -> list[Measure]:
    """How many kinds of audit have the same tables on one thread and on two."""
    found = audits()
    failed = [_differing(audit) for audit in found]
    tell("threads", [one for one in failed if one])
    name = (
        "same audit in two fresh stores, one and two threads: tables equal to the bit but for times"
    )
    return [
        Measure(
            name,
            sum(not one for one in failed),
            f"of {len(found)} tracks",
            len(found),
            at_least=True,
        )
    ]


def _differing(audit: Audited) -> str:
    """Tables that are others on two threads; "" for none."""
    store = Path(mkdtemp(prefix="hardening-threads-"))
    words = [sys.executable, "-m", "engine", *audit.words, "--json", "--store", str(store)]
    more = {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
    done = subprocess.run(
        words,
        cwd=ROOT,
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        timeout=2 * LONGEST,
    )
    if done.returncode:
        return f"{audit.track}: ended with {done.returncode}: {done.stderr[-300:]}"
    wrong = differences(
        run_of(audit.store, audit.run), run_of(store, json.loads(done.stdout)["run"])
    )
    return f"{audit.track}: {', '.join(wrong)} differ" if wrong else ""
