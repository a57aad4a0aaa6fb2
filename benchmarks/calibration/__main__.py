"""`python -m benchmarks.calibration [--only NAME …] [--quick] [--json]`."""

from __future__ import annotations

import importlib
import pkgutil
import sys

from benchmarks import calibration
from benchmarks.report import parser, show


def main() -> int:
    names = [
        info.name
        for info in pkgutil.iter_modules(calibration.__path__)
        if not info.name.startswith("_")
    ]
    options = parser(calibration.__doc__)
    options.add_argument("--only", nargs="+", choices=names, default=names, help="families of rows")
    options.add_argument(
        "--quick", action="store_true", help="a small run, too small to judge a bar"
    )
    asked = options.parse_args()
    found = [importlib.import_module(f"{calibration.__name__}.{name}") for name in asked.only]
    return show(
        [measure for module in found for measure in module.measures(asked.quick)], asked.json
    )


if __name__ == "__main__":
    sys.exit(main())
