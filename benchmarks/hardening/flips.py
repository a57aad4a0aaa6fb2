"""One bit flipped in a finished store, then show, verify, export, resume: no wrong number, and the
file is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.hardening._audits import (
    Audited,
    Done,
    again,
    audits,
    forked,
    right,
    side_by_side,
    tell,
)
from benchmarks.report import Measure
from engine.audit.jobs import list_jobs
from engine.core.errors import StoreError
from engine.core.types import rng
from engine.store.runs import Store

FLIPS = 60
KINDS = {"shard": "shards/*/*.shard", "table": "runs/*/*.parquet", "JSON": "**/*.json"}
"""A third of the flips each."""


@dataclass(frozen=True)
class Flip:
    """What is flipped in a copy of an audit's store: the file below it and the bit. `clean`: what
    the commands say and write where nothing is flipped."""

    audit: Audited
    kind: str
    path: Path
    bit: int
    clean: dict[str, str]


def measures(times: int) -> list[Measure]:
    """Flips whose numbers were given out although wrong, and flips whose file was named."""
    clean = dict(zip(audits(), side_by_side(_undamaged, audits()), strict=True))
    found = side_by_side(_one, list(_flips(clean, times * FLIPS)))
    wrong, unnamed = zip(*found, strict=True)
    tell("flips", wrong)
    name = f"{len(found)} random bit flips in shards, tables, JSON: wrong numbers given out"
    return [
        Measure(name, sum(map(bool, wrong)), "flips", 0),
        right("flips", "… of them named", unnamed),
    ]


def _flips(clean: dict[Audited, dict[str, str]], count: int) -> Iterator[Flip]:
    """Drawn over all audits and kinds in turn. JSON that means the same with the bit flipped is
    drawn again."""
    draw, kinds, found = rng("hardening flips"), list(KINDS), list(clean)
    for at in range(count):
        audit, kind = found[at // len(kinds) % len(found)], kinds[at % len(kinds)]
        while True:
            paths = sorted(path for path in audit.store.glob(KINDS[kind]) if path.is_file())
            path = paths[int(draw.integers(len(paths)))]
            bit = int(draw.integers(8 * path.stat().st_size))
            if kind != "JSON" or _meaning(path.read_bytes()) != _meaning(
                _flipped(path.read_bytes(), bit)
            ):
                break
        yield Flip(audit, kind, path.relative_to(audit.store), bit, clean[audit])


def _flipped(whole: bytes, bit: int) -> bytes:
    at = bit // 8
    return whole[:at] + bytes([whole[at] ^ (1 << bit % 8)]) + whole[at + 1 :]


def _meaning(whole: bytes) -> Any:
    """What a document says; its bytes where it is none."""
    try:
        return json.loads(whole)
    except ValueError:
        return whole


def _undamaged(audit: Audited) -> dict[str, str]:
    """What the commands give out of the sound store, by command or file."""
    with TemporaryDirectory(prefix="hardening-flip-") as folder:
        store = Path(shutil.copytree(audit.store, Path(folder) / "store"))
        return _given_out(_asked(audit, store, Path(folder)), Path(folder) / "out")


def _asked(audit: Audited, store: Path, folder: Path) -> dict[str, Done]:
    """show, verify, export, and the audit's own command again, each in a process of its own,
    whatever the one before said."""
    where = ["--store", str(store)]
    out = ["--to", str(folder / "out"), "--what", "masks,tables"]
    return {
        "show": forked(["runs", "show", audit.run, "--json", *where], folder / "show"),
        "verify": forked(["runs", "verify", audit.run, *where], folder / "verify"),
        "export": forked(["export", audit.run, *out, *where], folder / "export"),
        "resume": forked([*audit.words, "--json", *where], folder / "resume"),
    }


def _given_out(said: dict[str, Done], out: Path) -> dict[str, str]:
    """Numbers that left: what show and resume print where they end well, and every file that was
    exported."""
    printed = {
        name: _but_for_times(said[name].out) for name in ("show", "resume") if said[name].code == 0
    }
    files = [path for path in out.rglob("*") if path.is_file() and said["export"].code == 0]
    return printed | {str(path.relative_to(out)): path.read_bytes().hex() for path in files}


def _but_for_times(text: str) -> str:
    """What a command printed, without the seconds that computing took: a damaged run is computed
    again."""
    return json.dumps({name: value for name, value in json.loads(text).items() if name != "spent"})


def _one(flip: Flip) -> tuple[str, str]:
    """What was given out wrongly, and how the file was not named; "" each where all was well."""
    what = f"{flip.audit.track}: bit {flip.bit} of {flip.path}"
    with TemporaryDirectory(prefix="hardening-flip-") as name:
        folder = Path(name)
        store = Path(shutil.copytree(flip.audit.store, folder / "store"))
        path = store / flip.path
        path.write_bytes(_flipped(path.read_bytes(), flip.bit))
        jobs = _jobs_say(flip, store, folder)
        said = _asked(flip.audit, store, folder)
        given = _given_out(said, folder / "out")
        wrong = sorted(one for one, text in given.items() if text != flip.clean.get(one))
        wrong += filter(None, [_computed_again(flip, store, folder)])
        if said["verify"].code and not said["export"].code:
            wrong.append("exported though it does not verify:")
        texts = [*jobs, *(done.said for done in said.values())]
        texts += [(folder / "again.err").read_text()] if flip.kind == "shard" else []
        named = any(_names(text, flip) for text in texts)
    return (f"{what}: {', '.join(wrong)} wrong" if wrong else ""), (
        "" if named else f"{what}: not named"
    )


def _jobs_say(flip: Flip, store: Path, folder: Path) -> list[str]:
    """What is said of a flipped file of a job: by the list of jobs, as the page Jobs shows it, and
    by resuming it."""
    if flip.path.parts[0] != "jobs":
        return []
    job = flip.path.parts[1]
    listed = [f"{state.job_id} {state.message}" for state in list_jobs(Store(store))]
    return [
        *listed,
        forked([flip.audit.words[0], "--resume", job, "--store", str(store)], folder / "job").said,
    ]


def _computed_again(flip: Flip, store: Path, folder: Path) -> str:
    """A damaged shard is read when its audit is computed again: with the run gone, the command has
    to end with the same numbers. What is wrong, "" where nothing is."""
    if flip.kind != "shard":
        return ""
    shutil.rmtree(store / "runs" / flip.audit.run)
    done = forked([*flip.audit.words, "--json", "--store", str(store)], folder / "again")
    try:
        wrong = again(flip.audit, store, done)
    except StoreError as error:
        return str(error)
    return f"computed again: {wrong}" if wrong else ""


def _names(text: str, flip: Flip) -> bool:
    """Whether damage is said of this very file: a shard by its key, a table by its name, a document
    by run or job."""
    lines = [
        line
        for line in text.splitlines()
        if any(word in line for word in ("damaged", "NOT", "other bytes", "is not"))
    ]
    words = (flip.path.stem,) if flip.kind != "JSON" else (flip.path.parent.name,)
    return any(all(word in line for word in words) for line in lines)
