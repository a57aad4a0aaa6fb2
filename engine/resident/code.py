"""Which code computes: an engine that was started from other files than are here now must not
answer."""

from __future__ import annotations

import os

from engine.audit.source import source_digest
from engine.core.files import PROJECT
from engine.core.types import digest_of


def code_digest() -> str:
    """Digest of the engine's source files, of where they lie, and of where its jobs compute."""
    return digest_of([source_digest(), str(PROJECT), os.environ.get("PRUNEAUDIT_RAY", "")])[:16]
