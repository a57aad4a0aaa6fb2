"""What every track's request and plan are: words as JSON and back, and the id of the run they lead to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Self

from engine.core.errors import Fault, RequestError, unknown
from engine.core.types import digest_of


class Request:
    """A dataclass that says what is asked. `track` is its track's name.

    needed: the fields without which nothing is asked. by_content: fields that only say where something lies; what lies
    there is in the run's id instead. The title, and whether to begin again, are not part of the id either.
    """

    track: ClassVar[str]
    needed: ClassVar[tuple[str, ...]] = ("model", "data", "axes")
    by_content: ClassVar[tuple[str, ...]] = ("model", "data")

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
        return {**plain, "track": self.track}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`. Unknown names raise RequestError and list the known ones; lists become tuples."""
        value = {name: item for name, item in value.items() if name != "track"}
        known = {item.name for item in fields(cls)}
        faults = [unknown("request", name, known) for name in value if name not in known]
        faults += [Fault("request", f"{name} is missing.", "Name it.") for name in cls.needed if name not in value]
        if faults:
            raise RequestError(faults)
        return cls(**{name: tuple(item) if isinstance(item, list) else item for name, item in value.items()})


_UNSAID = ("title", "experiment", "restart")
"""Fields that change no number."""


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
        """Versions of the code that computes the run: of the audit itself, its measurements, and every method used.

        Loads torch.
        """

    def spelled_out(self) -> dict[str, Any]:
        """The request with the default written out for everything it left open, JSON-able."""
        return self.request.to_dict()

    @property
    def run_id(self) -> str:
        """Digest of what was asked, of what it rests on, and of the versions of all code that computes it.

        Equal requests are one run, and a change of code that changes numbers is never answered by an old run.
        """
        unsaid = (*_UNSAID, *self.request.by_content)
        asked = {name: value for name, value in self.spelled_out().items() if name not in unsaid}
        return digest_of([asked, self.content, dict(sorted(self.versions.items()))])[:16]


def versions_of(audit: int, **parts: Mapping[str, Any]) -> dict[str, int]:
    """`Plan.versions` from the audit's own version and things with a version, by kind and name."""
    named = {f"{kind} {name}": part.version for kind, found in parts.items() for name, part in found.items()}
    return {"audit": audit, **named}
