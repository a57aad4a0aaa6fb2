"""The report as a PDF, printed by a Chromium or Chrome of this machine; nothing else is needed,
nothing is asked of a network."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from engine.core.errors import PruneAuditError
from engine.report.figures import need_browser

SECONDS = 180
"""A report of many axes draws a hundred charts."""
_FLAGS = (
    "--headless",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--no-pdf-header-footer",
    "--virtual-time-budget=20000",
)


def write_pdf(page: Path, to: Path) -> Path:
    """Print an HTML file of ours. PruneAuditError where there is no browser, or it does not
    print."""
    browser = need_browser()
    with tempfile.TemporaryDirectory() as profile:
        root = (
            ("--no-sandbox",) if os.geteuid() == 0 else ()
        )  # Chromium refuses its sandbox to the superuser
        command = [browser, *_FLAGS, *root, f"--user-data-dir={profile}", f"--print-to-pdf={to}"]
        command.append(page.resolve().as_uri())
        try:
            ended = subprocess.run(
                command, capture_output=True, text=True, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise PruneAuditError(
                f"The browser did not print the report within {SECONDS} s: take the HTML."
            ) from None
    if ended.returncode or not to.is_file():
        last = ended.stderr.strip().splitlines()[-1:] or ["it did not say why."]
        raise PruneAuditError(f"The browser could not print the report: {last[0]}")
    return to
