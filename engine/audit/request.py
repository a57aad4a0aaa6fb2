"""What every track's request and plan are, and the growth of a finished run.

A request is words as JSON and back, and the id of the run they lead to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Self

from engine.audit.fields import asked, device_faults, fields_of, is_number
from engine.core.errors import Fault, refuse, unknown
from engine.core.files import json_able
from engine.core.types import Setting, Values, digest_of

MORE = "More settings"
"""The section of the form for what is rarely asked."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A dataclass that says what is asked, each attribute declared with `asked`. `track` is its
    track's name."""

    track: ClassVar[str]

    title: str = asked(
        "",
        counts="no",
        section=MORE,
        last=True,
        label="Title",
        placeholder="as the model and data",
        help="what the audit is called",
    )
    first_seed: int = asked(
        0,
        minimum=0,
        option="--seed",
        metavar="FIRST",
        section=MORE,
        last=True,
        label="First seed",
        help="the first of the seeds",
    )
    device: str = asked("auto", check=device_faults, help="auto, cpu, cuda, …")
    restart: bool = asked(
        False,
        counts="no",
        section=MORE,
        last=True,
        label="Begin again though data or weights changed",
        help="begin again although data or weights changed since the last try",
    )

    def __post_init__(self) -> None:
        """Equal requests look equal: lists as tuples, numbers as floats, lists of them ascending
        and each once."""
        for field in fields_of(type(self)):
            value = getattr(self, field.name)
            if isinstance(value, list):
                object.__setattr__(self, field.name, value := tuple(value))
            if field.kind == "numbers" and not field.type_faults(value):
                object.__setattr__(self, field.name, tuple(sorted(set(map(float, value)))))
            elif field.kind == "number" and is_number(value):
                object.__setattr__(self, field.name, float(value))

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {**_fields(self), "track": self.track}

    @property
    def identity(self) -> Values:
        """What makes it another request than others, JSON-able: all it says but what does not
        count, as its title."""
        return json_able(said(self, self.to_dict(), "value", "content"))

    @classmethod
    def from_dict(cls, value: Values) -> Self:
        """The inverse of `to_dict`. Unknown names raise RequestError and list the known ones; lists
        become tuples."""
        needed = [field.name for field in fields_of(cls) if field.required]
        return cls(**_known(value, "track", [field.name for field in fields_of(cls)], needed))


@dataclass(frozen=True)
class Plan(ABC):
    """A request that holds up: its data listed, its model inspected but not loaded."""

    request: Any

    @property
    @abstractmethod
    def content(self) -> list[Any]:
        """What the numbers rest on besides the request: hashes of weights and data, JSON-able."""

    @property
    @abstractmethod
    def versions(self) -> dict[str, int]:
        """Versions of the code that computes the run: of the audit itself, its measurements, and
        every method used.

        Loads torch.
        """

    @property
    def warnings(self) -> list[str]:
        """What a reader must know that is known before anything is computed: said then, and kept
        with the run."""
        return []

    def spelled_out(self) -> Values:
        """The request with the default written out for everything it left open, JSON-able."""
        return self.request.to_dict()

    @property
    def run_id(self) -> str:
        """Digest of what was asked, of what it rests on, and of the versions of all code that
        computes it.

        Equal requests are one run, and a change of code that changes numbers is never answered by
        an old run.
        """
        asked = said(self.request, self.spelled_out(), "value")
        return digest_of([asked, self.content, self.versions])[:16]


def said(request: Request, values: Values, *counting: str) -> dict[str, Any]:
    """Of a request's values by name, those whose field counts in one of these ways
    (`Field.counts`); and its track.

    Fields that came `later` do not count as long as they say what was the only way before.
    """
    fields = fields_of(type(request))
    others = {field.name for field in fields if field.counts not in counting}
    others |= {
        field.name
        for field in fields
        if field.later and _plain(values.get(field.name)) == _plain(field.default)
    }
    return {name: value for name, value in values.items() if name not in others}


def _fields(asked: Any) -> Values:
    return {name: _plain(value) for name, value in asdict(asked).items()}


def _plain(value: Any) -> Any:
    """A tuple as JSON has it."""
    return list(value) if isinstance(value, tuple) else value


def spelled(declared: Iterable[Setting], given: Values) -> dict[str, Any]:
    """All settings of a method: as given, else as declared; numbers as floats, so that equal ones
    look equal."""
    found = {setting: given.get(setting.name, setting.default) for setting in declared}
    return {
        one.name: float(value) if one.kind == "number" else value for one, value in found.items()
    }


def versions_of(audit: int, **parts: Values) -> dict[str, int]:
    """`Plan.versions` from the audit's own version and things with a version, by kind and name."""
    named = {
        f"{kind} {name}": part.version
        for kind, found in parts.items()
        for name, part in found.items()
    }
    return {"audit": audit, **named}


# What is to be added to a finished run: a job like an audit, whatever the run's track.


LATER = ("benchmarks", "judge", "label", "effects")
"""Fields that earlier versions did not have."""
DOES = "grow"
"""What `does` says in the JSON form of a growth; requests of audits have no such word."""


@dataclass(frozen=True, kw_only=True)
class Growth:
    """More of a finished run: another level of one of its methods, or a set of units that was
    chosen by hand. Or benchmarks for all of its variants, or a judge who reads its texts.

    run: its id. method, axis (what the method aims at, and is measured on), level. Or else units
    (flat, from 0) and, if wanted, a name. Or else benchmarks (NAME=PATH), where the track measures
    any. Or else a judge and, where it is a classifier, its label that is harm. Or else effects:
    what each unit does alone, where the track measures that. axes: where it is measured, `axis`
    alone where empty. split: of the run's prompts; empty for what is usual, which the track knows.
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
    effects: bool = False

    def __post_init__(self) -> None:
        """RequestError for values of other types than these; equal growths look equal."""
        refuse(self._type_faults())
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
        wrong += [] if isinstance(self.effects, bool) else ["effects"]
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
        if self.effects:
            return "what each unit does alone"
        by_method = f"{self.method} at {self.level:g}" if self.level is not None else ""
        asked = " and ".join(one.partition("=")[0] for one in self.benchmarks)
        return by_method or asked or self.name or f"{len(self.units)} chosen by hand"

    def to_dict(self) -> dict[str, Any]:
        """JSON-able. What came later is left out where it is not asked for: such growths look as
        they did before."""
        return {
            **{name: value for name, value in _fields(self).items() if value or name not in LATER},
            "does": DOES,
        }

    @property
    def device(self) -> str:
        """Left open: where it waits for its turn; it is measured on the device that the run's own
        request names."""
        return "auto"

    @property
    def identity(self) -> Values:
        """What makes it another growth than others."""
        return {name: value for name, value in self.to_dict().items() if name != "title"}

    @classmethod
    def from_dict(cls, value: Values) -> Self:
        """The inverse of `to_dict`. RequestError for names that are unknown or missing."""
        names = [field.name for field in fields(cls)]
        return cls(**_known(value, "does", names, ("track", "run", "axis")))


def _known(value: Values, kind: str, known: Sequence[str], needed: Sequence[str]) -> Values:
    """The fields of a JSON form without its `kind`. RequestError for names that are unknown or
    missing."""
    value = {name: item for name, item in value.items() if name != kind}
    faults = [unknown("request", name, known) for name in value if name not in known]
    missing = (name for name in needed if name not in value)
    faults += [Fault("request", f"{name} is missing.", "Name it.") for name in missing]
    refuse(faults)
    return value


def is_growth(value: Values) -> bool:
    """Whether the JSON form of a request is a growth's."""
    return value.get("does") == DOES
