"""`python -m benchmarks.calibration [--only NAME …] [--quick] [--json]`."""

import sys

from benchmarks import calibration
from benchmarks.report import run_all

if __name__ == "__main__":
    sys.exit(run_all(calibration, quick="a small run, too small to judge a bar"))
