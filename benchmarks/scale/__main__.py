"""`python -m benchmarks.scale [--only NAME …] [--full] [--json]`."""

import sys

from benchmarks import scale
from benchmarks.report import run_all

if __name__ == "__main__":
    sys.exit(run_all(scale, full="all of what rows usually take a part of"))
