"""How every benchmark reports: a list of {name, value, unit, bar, holds}, as lines or as JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Measure:
    """One measured number. `bar` is what it must not exceed (must reach, with `at_least`); None:
    nothing is claimed.

    floor: what it must reach as well, where the bar is a range.
    """

    name: str
    value: float
    unit: str
    bar: float | None = None
    at_least: bool = False
    floor: float | None = None

    @property
    def holds(self) -> bool | None:
        if self.bar is None:
            return None
        if self.floor is not None and not self.value >= self.floor:
            return False
        return self.value >= self.bar if self.at_least else self.value <= self.bar

    def to_dict(self) -> dict[str, object]:
        kept = {name: value for name, value in asdict(self).items() if name != "at_least"}
        return {**kept, "holds": self.holds}


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
            print(f"{measure.name}: {measure.value:.3g} {measure.unit}{bar} {verdict}".rstrip())
    return 1 if any(measure.holds is False for measure in measures) else 0
