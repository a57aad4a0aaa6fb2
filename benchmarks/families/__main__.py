"""`python -m benchmarks.families [--only NAME …] [--json]`."""

import sys

from benchmarks import families
from benchmarks.report import run_all

if __name__ == "__main__":
    sys.exit(run_all(families))
