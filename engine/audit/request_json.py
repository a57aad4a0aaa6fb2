"""Requests of every track as JSON and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, ClassVar, Self

from engine.errors import Fault, RequestError, unknown

FIRST = "heads"
"""The track that is not written down: its runs are older than tracks."""


class JsonRequest:
    """A dataclass that says what is asked. needed: the fields without which nothing is asked."""

    track: ClassVar[str] = FIRST
    needed: ClassVar[tuple[str, ...]] = ("model", "data", "axes")

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
        return plain if self.track == FIRST else {**plain, "track": self.track}

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
