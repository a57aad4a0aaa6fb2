"""How every benchmark reports: a list of {name, value, unit, bar, holds}, as lines or as JSON."""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import math
import pkgutil
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import SupportsFloat, TypeVar

from engine.core.files import PROJECT

T = TypeVar("T")


@dataclass(frozen=True)
class Measure:
    """One measured number. `bar` is what it must not exceed (must reach, with `at_least`); None:
    nothing is claimed.

    floor: what it must reach as well, where the bar is a range.
    """

    name: str
    value: SupportsFloat
    unit: str
    bar: float | None = None
    at_least: bool = False
    floor: float | None = None

    @property
    def holds(self) -> bool | None:
        if self.bar is None:
            return None
        value, floor = float(self.value), -math.inf if self.floor is None else self.floor
        return value >= self.bar if self.at_least else floor <= value <= self.bar

    def to_dict(self) -> dict[str, object]:
        kept = {name: value for name, value in asdict(self).items() if name != "at_least"}
        return {**kept, "value": float(self.value), "holds": self.holds}


def said(line: str) -> None:
    """How far a benchmark is, beside what it prints at its end."""
    print(line, file=sys.stderr, flush=True)


def parser(description: str | None) -> argparse.ArgumentParser:
    """A parser that knows --json."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--json", action="store_true", help="print JSON")
    return made


def show(measures: Sequence[Measure], as_json: bool) -> int:
    """Print them; exit code 1 when one does not hold."""
    if as_json:
        print(json.dumps([measure.to_dict() for measure in measures], indent=2))
    else:
        for measure in measures:
            relation = "at least" if measure.at_least else "at most"
            relation = relation if measure.floor is None else f"{measure.floor:g} to"
            bar = "" if measure.bar is None else f", bar: {relation} {measure.bar:g} {measure.unit}"
            verdict = {True: "holds", False: "DOES NOT HOLD", None: ""}[measure.holds]
            print(
                f"{measure.name}: {float(measure.value):.3g} {measure.unit}{bar} {verdict}".rstrip()
            )
    return 1 if any(measure.holds is False for measure in measures) else 0


def timed(do: Callable[[], T], clock: Callable[[], float] = time.perf_counter) -> tuple[T, float]:
    """What it gives, and the seconds that it takes by a clock."""
    start = clock()
    return do(), clock() - start


def in_a_process(code: str) -> float:
    """The number that some code prints last, in a process of its own."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
    return float(done.stdout.splitlines()[-1])


def memory(kind: str, process: int | str = "self") -> int:
    """Bytes of a process as Linux counts them: VmRSS, those it holds; VmHWM, the most so far."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii", errors="replace")
    return 1024 * int(re.findall(rf"^{kind}:\s+(\d+) kB", status, re.MULTILINE)[0])


def run_all(
    package: ModuleType, times: str = "", minutes: float | None = None, **switches: str
) -> int:
    """`python -m PACKAGE [--only NAME …] [--SWITCH]`: measures of every file of a package.

    switches: name -> help of what is handed to those `measures()` that take an argument of that
    name. times: help of `--longer TIMES`, handed on as `times`. minutes: the bar of all together.
    """
    names = [one.name for one in pkgutil.iter_modules(package.__path__) if one.name[0] != "_"]
    options = parser(package.__doc__)
    options.add_argument("--only", nargs="+", choices=names, default=names, help="files of rows")
    for name, about in switches.items():
        options.add_argument(f"--{name}", action="store_true", help=about)
    if times:
        options.add_argument("--longer", type=int, default=1, dest="times", help=times)
    asked = vars(options.parse_args())
    found: list[Measure] = []
    began = time.monotonic()
    for name in asked["only"]:
        said(f"{name} …")
        measures = importlib.import_module(f"{package.__name__}.{name}").measures
        taken = inspect.signature(measures).parameters
        found += measures(**{key: asked[key] for key in taken})
    if minutes is not None:
        spent = (time.monotonic() - began) / 60
        found.append(Measure("all of this together", spent, "min", minutes * asked["times"]))
    return show(found, asked["json"])
