"""What can go wrong, said so that a person can act on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Self, TypeVar

Thing = TypeVar("Thing")
Result = TypeVar("Result")
LISTED, NEAREST = 40, 8
"""Names that a fault lists in full, and how many it says of a longer list."""


@dataclass(frozen=True)
class Fault:
    """One thing wrong with what was asked: where it is, what it is, what to do about it.

    examples: texts or names that a user brought, each with what is to be said of it; they may be
    hurtful to read.
    """

    where: str
    what: str
    fix: str
    examples: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """The inverse of `dataclasses.asdict`, from JSON."""
        return cls(
            **{**value, "examples": tuple((one, said) for one, said in value.get("examples", ()))}
        )

    def __str__(self) -> str:
        return f"{self.where}: {self.what} {self.fix}"


def said_by(error: BaseException) -> str:
    """The first line of what a library's error says, without its full stop; its kind where it says
    nothing. A codec's words become ours."""
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8 text from byte {error.start} on"
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300].rstrip(" .")


def refused_by_system(error: BaseException) -> str:
    """As `said_by`; of the system's own errors without number and path."""
    return getattr(error, "strerror", None) or said_by(error)


class PruneAuditError(Exception):
    """Base of every error this project raises on purpose. The command line turns it into
    `exit_code`."""

    exit_code = 1


class RequestError(PruneAuditError):
    """The request is wrong. Carries every fault found, not only the first."""

    exit_code = 2

    def __init__(self, faults: Sequence[Fault] | Fault) -> None:
        self.faults: tuple[Fault, ...] = (faults,) if isinstance(faults, Fault) else tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


def refuse(faults: Iterable[Fault]) -> None:
    """RequestError with all of them, where there are any."""
    if found := tuple(faults):
        raise RequestError(found)


def refusal(where: str, what: str, fix: str) -> RequestError:
    """To be raised where a single thing is wrong."""
    return RequestError(Fault(where, what, fix))


class StoreError(PruneAuditError):
    """The store cannot be read or written. A store the user pointed at wrongly is a wrong request
    (exit code 2)."""

    exit_code = 2


class MaskError(PruneAuditError):
    """A mask that does not change the model, or does not belong to it."""


class Cancelled(PruneAuditError):
    """The user pressed cancel. Finished shards stay on disk."""


def each(work: Callable[[Thing], Result], things: Iterable[Thing]) -> list[Result]:
    """`work` done on every thing, in order. RequestError with the faults of all that are wrong."""
    results, faults = [], list[Fault]()
    for thing in things:
        try:
            results.append(work(thing))
        except RequestError as error:
            faults += error.faults
    if faults:
        raise RequestError(faults)
    return results


def chosen(where: str, name: str, known: Mapping[str, Thing]) -> Thing:
    """What is called so. RequestError with the known names where nothing is."""
    if name not in known:
        raise RequestError(unknown(where, name, known))
    return known[name]


def unknown(where: str, value: object, known: Iterable[object], also: str = "") -> Fault:
    """A fault for a value outside a closed list; names the known values, of a long list those most
    like it."""
    return Fault(
        where,
        f"{value!r} is not known.",
        f"Known: {_listed(str(value), known)}.{' ' + also if also else ''}",
    )


def _listed(value: str, known: Iterable[object]) -> str:
    names = sorted(str(item) for item in known)
    if len(names) <= LISTED:
        return ", ".join(names)
    like = sorted(names, key=lambda name: -SequenceMatcher(None, value, name).ratio())[:NEAREST]
    return f"{', '.join(like)}, and {len(names) - NEAREST} less like it"
