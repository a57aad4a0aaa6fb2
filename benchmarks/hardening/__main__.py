"""`python -m benchmarks.hardening [--only NAME …] [--longer] [--json]`; exit code 1 where a bar is
missed."""

from __future__ import annotations

import importlib
import os
import sys
import time

# Before torch is imported: audits run side by side, one thread each, and by themselves.
os.environ.update({"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PRUNEAUDIT_ENGINE": "off"})

from benchmarks import hardening
from benchmarks.report import Measure, parser, show

ROWS = ("kills", "cancels", "flips", "inputs", "gate", "sessions", "memory", "threads")
"""In the order of the table; each is a file with `measures(times)`, where `times` multiplies what
is tried."""


def main() -> int:
    options = parser(hardening.__doc__)
    options.add_argument(
        "--only", type=lambda text: text.split(","), default=ROWS, metavar="NAME,NAME"
    )
    options.add_argument(
        "--longer", type=int, default=1, metavar="TIMES", help="so many times the kills and flips"
    )
    asked = options.parse_args()
    if wrong := set(asked.only) - set(ROWS):
        options.error(f"unknown rows {', '.join(sorted(wrong))}; known: {', '.join(ROWS)}")
    found: list[Measure] = []
    began = time.monotonic()
    for name in ROWS:
        if name in asked.only:
            start = time.monotonic()
            print(f"{name} …", file=sys.stderr, flush=True)
            found += importlib.import_module(f"{hardening.__name__}.{name}").measures(asked.longer)
            print(f"{name}: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    found.append(
        Measure("all of this together", (time.monotonic() - began) / 60, "min", 20 * asked.longer)
    )
    return show(found, asked.json)


if __name__ == "__main__":
    sys.exit(main())
