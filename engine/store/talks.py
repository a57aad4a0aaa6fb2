"""Words people put beside an audit to present it: a title and a note per step, STORE/talks/RUN.json.

They lie in the user's store wherever the run lies, never inside it: a run is never written again. Each writing counts
the version up; who writes last wins, and is told what of others it replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engine.core.errors import StoreError
from engine.core.files import explained, safe_id, write_json
from engine.core.locks import locked
from engine.store.sealed import NewerError, read_document

SCHEMA = 1
LONGEST_TITLE = 120
LONGEST_NOTE = 4000
"""Characters; what is longer is cut off."""


@dataclass(frozen=True)
class Said:
    """What a person wrote about one step, as typed: escape it where it is shown. Empty where nothing was written."""

    title: str = ""
    note: str = ""


@dataclass(frozen=True)
class Talk:
    """The words kept with one audit, by the name of the step. Version 0: nothing was ever written."""

    version: int = 0
    steps: Mapping[str, Said] = field(default_factory=dict)

    def of(self, step: str) -> Said:
        return self.steps.get(step, Said())


def path_of(root: Path, run_id: str) -> Path:
    return root / "talks" / f"{safe_id(run_id)}.json"


def read_talk(root: Path, run_id: str) -> Talk:
    """The words kept with a run; an empty talk where there are none. StoreError where the file is damaged."""
    path = path_of(root, run_id)
    try:
        if not path.exists():
            return Talk()
        found = read_document(path, f"the notes {path}", SCHEMA, sealed_since=SCHEMA + 1)
        steps = {str(name): Said(str(said["title"]), str(said["note"])) for name, said in found["steps"].items()}
        return Talk(int(found["version"]), steps)
    except NewerError:
        raise
    except (StoreError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"the notes {path} are damaged; move the file away to write new ones.") from error


def write_said(root: Path, run_id: str, step: str, said: Said, seen: Said) -> tuple[Talk, Said | None]:
    """Keep the words of one step, and say what of it another had changed since `seen` was read; None where nobody had.

    Other steps stay as they are on disk, so that two people at two steps do not meet.
    """
    path = path_of(root, run_id)
    with explained(root):
        path.parent.mkdir(parents=True, exist_ok=True)
    with explained(root), locked(path.with_suffix(".lock"), _patience()):
        before = read_talk(root, run_id)
        kept = Said(said.title.strip()[:LONGEST_TITLE], said.note.strip()[:LONGEST_NOTE])
        talk = Talk(before.version + 1, {**before.steps, step: kept})
        write_json(path, _plain(run_id, talk))
    found = before.of(step)
    return talk, found if found not in (seen, kept) else None


def _plain(run_id: str, talk: Talk) -> dict[str, object]:
    steps = {name: {"title": one.title, "note": one.note} for name, one in talk.steps.items()}
    return {"schema": SCHEMA, "version": talk.version, "run": run_id, "steps": steps}


def _patience(tries: int = 50) -> Callable[[], None]:
    """Called while another writes: gives up after `tries` looks, since writing takes a moment only."""
    left = iter(range(tries))

    def waiting() -> None:
        if next(left, None) is None:
            raise StoreError("another window is writing these notes and does not finish; try again.")

    return waiting
