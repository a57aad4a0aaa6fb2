"""The same audit of every kind in two fresh stores, on one thread and on two: tables equal to the
bit but for times."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp

from benchmarks.hardening._audits import LONGEST, Audited, Done, again, audits, right
from benchmarks.report import Measure
from engine.core.files import PROJECT


def measures() -> list[Measure]:
    """How many kinds of audit have the same tables on one thread and on two."""
    failed = [_differing(audit) for audit in audits()]
    name = (
        "same audit in two fresh stores, one and two threads: tables equal to the bit but for times"
    )
    return [right("threads", name, failed, f"of {len(failed)} tracks")]


def _differing(audit: Audited) -> str:
    """Tables that are others on two threads; "" for none."""
    store = Path(mkdtemp(prefix="hardening-threads-"))
    words = [sys.executable, "-m", "engine", *audit.words, "--json", "--store", str(store)]
    more = {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
    done = subprocess.run(
        words,
        cwd=PROJECT,
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        timeout=2 * LONGEST,
    )
    wrong = again(audit, store, Done(done.returncode, done.stdout, done.stderr))
    return f"{audit.track}: {wrong}" if wrong else ""
