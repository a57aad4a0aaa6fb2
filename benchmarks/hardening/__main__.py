"""`python -m benchmarks.hardening [--only NAME …] [--longer TIMES] [--json]`: what breaks it."""

import os
import sys

# Before torch is imported: audits run side by side, one thread each, and by themselves.
os.environ.update({"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PRUNEAUDIT_ENGINE": "off"})

from benchmarks import hardening
from benchmarks.report import run_all

if __name__ == "__main__":
    sys.exit(run_all(hardening, times="so many times the kills and flips", minutes=20))
