"""`python -m benchmarks.scale [--only NAME …] [--full] [--json]`."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from types import ModuleType

from benchmarks import scale
from benchmarks.report import Measure, parser, show


def main() -> int:
    names = [
        info.name for info in pkgutil.iter_modules(scale.__path__) if not info.name.startswith("_")
    ]
    options = parser(scale.__doc__)
    options.add_argument("--only", nargs="+", choices=names, default=names, help="rows")
    options.add_argument(
        "--full",
        action="store_true",
        help="rows that usually take a part of what they measure: all",
    )
    asked = options.parse_args()
    found = [importlib.import_module(f"{scale.__name__}.{name}") for name in asked.only]
    return show(
        [measure for module in found for measure in _measured(module, asked.full)], asked.json
    )


def _measured(module: ModuleType, full: bool) -> list[Measure]:
    scale.said(f"{module.__name__.rpartition('.')[2]} …")
    return (
        module.measures(full=full)
        if "full" in inspect.signature(module.measures).parameters
        else module.measures()
    )


if __name__ == "__main__":
    sys.exit(main())
