"""What is to be added to a finished run: a job like an audit, whatever the run's track."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from engine.core.errors import Fault, RequestError, unknown

LATER = ("benchmarks", "judge", "label")
"""Fields that earlier versions did not have."""
DOES = "grow"
"""What `does` says in the JSON form of a growth; requests of audits have no such word."""


@dataclass(frozen=True, kw_only=True)
class Growth:
    """More of a finished run: another level of one of its methods, a set of units that was chosen
    by hand, or what benchmarks that all of its variants are to be measured on, or a judge who reads
    its texts.

    run: its id. method, axis (what the method aims at, and is measured on), level: or else units
    (flat, from 0) and, if wanted, a name; or else benchmarks (NAME=PATH), where the track measures
    any; or else a judge and, where it is a classifier, its label that is harm. axes: where it is
    measured, `axis` alone where empty. split: of the run's prompts; empty for what is usual, which
    the track knows.
    """

    track: str
    run: str
    axis: str
    method: str = ""
    level: float | None = None
    units: tuple[int, ...] = ()
    name: str = ""
    axes: tuple[str, ...] = ()
    split: str = ""
    title: str = ""
    benchmarks: tuple[str, ...] = ()
    judge: str = ""
    label: str = ""

    def __post_init__(self) -> None:
        """RequestError for values of other types than these; equal growths look equal."""
        if faults := self._type_faults():
            raise RequestError(faults)
        same: dict[str, Any] = {
            "benchmarks": tuple(sorted(self.benchmarks)),
            "units": tuple(sorted(self.units)),
            "axes": tuple(self.axes) or (self.axis,),
        }
        same |= {
            "name": self.name.strip(),
            "level": None if self.level is None else float(self.level),
        }
        same |= {"title": self.title or f"{self.run}: {self._what}"}
        for name, value in same.items():
            object.__setattr__(self, name, value)

    def _type_faults(self) -> list[Fault]:
        words = ("track", "run", "axis", "method", "name", "split", "title", "judge", "label")
        wrong = [name for name in words if not isinstance(getattr(self, name), str)]
        wrong += [] if self.level is None or type(self.level) in (int, float) else ["level"]
        for name, kind in (("units", int), ("axes", str), ("benchmarks", str)):
            value = getattr(self, name)
            good = isinstance(value, list | tuple) and all(type(one) is kind for one in value)
            wrong += [] if good else [name]
        return [
            Fault(name, f"{getattr(self, name)!r} is not allowed.", "See the fields of Growth.")
            for name in wrong
        ]

    @property
    def _what(self) -> str:
        if self.judge:
            return f"judged by {self.judge}" + f" ({self.label})" * bool(self.label)
        by_method = f"{self.method} at {self.level:g}" if self.level is not None else ""
        asked = " and ".join(one.partition("=")[0] for one in self.benchmarks)
        return by_method or asked or self.name or f"{len(self.units)} chosen by hand"

    def to_dict(self) -> dict[str, Any]:
        """JSON-able. What came later is left out where it is not asked for: such growths look as
        they did before."""
        plain = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }
        return {
            **{name: value for name, value in plain.items() if value or name not in LATER},
            "does": DOES,
        }

    @property
    def device(self) -> str:
        """Left open: where it waits for its turn; it is measured on the device that the run's own
        request names."""
        return "auto"

    @property
    def identity(self) -> dict[str, Any]:
        """What makes it another growth than others."""
        return {name: value for name, value in self.to_dict().items() if name != "title"}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`. RequestError for names that are unknown or missing."""
        value = {name: item for name, item in value.items() if name != "does"}
        known = [field.name for field in fields(cls)]
        faults = [unknown("request", name, known) for name in value if name not in known]
        faults += [
            Fault("request", f"{name} is missing.", "Name it.")
            for name in ("track", "run", "axis")
            if name not in value
        ]
        if faults:
            raise RequestError(faults)
        return cls(**value)


def is_growth(value: Mapping[str, Any]) -> bool:
    """Whether the JSON form of a request is a growth's."""
    return value.get("does") == DOES
