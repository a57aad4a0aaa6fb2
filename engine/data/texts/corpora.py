"""Plain text for perplexity, from any UTF-8 file."""

from __future__ import annotations

import hashlib
from pathlib import Path

from engine.core.errors import Fault, RequestError
from engine.core.types import Corpus
from engine.data.tables import decoded

MIN_CHARACTERS = 200


def load_corpus(path: str | Path) -> Corpus:
    """Read a text file; its digest is the SHA-256 of the file's bytes.

    Raises RequestError when the file is missing, not UTF-8, empty, or shorter than MIN_CHARACTERS.
    """
    path = Path(path)
    where = f"text {path}"
    if not path.is_file():
        raise RequestError(Fault(where, "There is no such file.", "Check the path; it must be a text file."))
    content = path.read_bytes()
    text = decoded(content, where)
    if "\0" in text:
        raise RequestError(Fault(where, "It holds zero bytes: no text does.", "Give a text file, saved as UTF-8."))
    if not text.strip():
        raise RequestError(Fault(where, "The file is empty.", f"Give at least {MIN_CHARACTERS} characters."))
    if len(text.strip()) < MIN_CHARACTERS:
        what = f"Only {len(text.strip())} characters: too short for a perplexity."
        raise RequestError(Fault(where, what, f"Give at least {MIN_CHARACTERS} characters, better 100,000."))
    return Corpus(path.name, text, hashlib.sha256(content).hexdigest())
