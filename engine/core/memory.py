"""The memory that a process may take: stated, else a share of what is free; and the most that it
took."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from engine.core.errors import refusal

STATED = "PRUNEAUDIT_MEMORY"
LEAST = 1 << 30
"""Bytes of the budget on a machine with little memory."""
SHARE = 0.75
"""Of what is free, where nothing is stated."""


def amount(said: str, where: str = STATED) -> int:
    """Bytes of "2G", "500M" or a number of bytes. RequestError for anything else."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", said.strip(), re.IGNORECASE)
    size = float(found[1]) * 1024.0 ** " KMGT".index(found[2].upper() or " ") if found else 0.0
    if not 1 <= size < 2**62:
        raise refusal(where, f"{said[:40]!r} is no amount.", "Write it like 2G or 500M.")
    return int(size)


def stated() -> int | None:
    """Bytes that $PRUNEAUDIT_MEMORY states, None where it is not set."""
    said = os.environ.get(STATED, "")
    return amount(said) if said else None


def free() -> int:
    """Bytes of memory that programs can still take; 0 where the system does not say."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return 0
    found = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def budget() -> int:
    """Bytes that this process may take in all: as stated, else SHARE of what is free and what it
    has already."""
    return stated() or max(LEAST, int(SHARE * (free() + taken())))


def taken() -> int:
    """Bytes that this process takes now; 0 where the system does not say."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def peak() -> int:
    """The most bytes that this process took so far; 0 where the system does not say."""
    try:
        import resource
    except ImportError:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def in_words(size: float) -> str:
    """Bytes as people write them: "1.4 GB"."""
    unit, name = next(
        (one for one in ((1 << 30, "GB"), (1 << 20, "MB")) if size >= one[0]), (1 << 10, "kB")
    )
    return f"{size / unit:.1f} {name}" if size < 10 * unit else f"{size / unit:.0f} {name}"
