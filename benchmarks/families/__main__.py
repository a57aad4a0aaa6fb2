"""`python -m benchmarks.families [--only NAME …] [--json]`."""

from __future__ import annotations

import importlib
import pkgutil
import sys

from benchmarks import families
from benchmarks.report import parser, show


def main() -> int:
    names = [
        info.name
        for info in pkgutil.iter_modules(families.__path__)
        if not info.name.startswith("_")
    ]
    options = parser(families.__doc__)
    options.add_argument(
        "--only", nargs="+", choices=names, default=names, help="kinds of architectures"
    )
    asked = options.parse_args()
    found = [importlib.import_module(f"{families.__name__}.{name}") for name in asked.only]
    return show([measure for module in found for measure in module.measures()], asked.json)


if __name__ == "__main__":
    sys.exit(main())
