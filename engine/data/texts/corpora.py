"""Plain text for perplexity, from any UTF-8 file."""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path

from engine.core.errors import Fault, RequestError
from engine.core.types import Corpus
from engine.data.tables import decoded

MIN_CHARACTERS = 200


def load_corpus(path: str | Path) -> Corpus:
    """Read a text file; its digest is the SHA-256 of the file's bytes, of its text where lines end
    as on Windows.

    Raises RequestError when the file is missing, not UTF-8, empty, shorter than MIN_CHARACTERS, or
    JSON.
    """
    path = Path(path)
    where = f"text {path}"
    if not path.is_file():
        raise RequestError(
            Fault(where, "There is no such file.", "Check the path; it must be a text file.")
        )
    content = path.read_bytes()
    text = decoded(content, where)
    if "\0" in text:
        raise RequestError(
            Fault(where, "It holds zero bytes: no text does.", "Give a text file, saved as UTF-8.")
        )
    if not text.strip():
        raise RequestError(
            Fault(where, "The file is empty.", f"Give at least {MIN_CHARACTERS} characters.")
        )
    if len(text.strip()) < MIN_CHARACTERS:
        what = f"Only {len(text.strip())} characters: too short for a perplexity."
        raise RequestError(
            Fault(where, what, f"Give at least {MIN_CHARACTERS} characters, better 100,000.")
        )
    if _is_json(text):
        what = "It is JSON: its brackets and names of fields would be read as text."
        raise RequestError(Fault(where, what, "Save the texts alone, as plain text."))
    if "\r" in text:  # no text that a model was trained on ends its lines so
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        content = text.encode("utf-8")
    return Corpus(path.name, text, hashlib.sha256(content).hexdigest())


def _is_json(text: str) -> bool:
    """Whether a text, or its first line, is an object or a list of JSON."""
    start = text.lstrip()[:1]
    for part in (text.strip().partition("\n")[0], text) if start in ("{", "[") else ():
        with contextlib.suppress(ValueError, RecursionError):
            return isinstance(json.loads(part), dict | list)
    return False
