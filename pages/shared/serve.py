"""Starts the app: `python -m pages.shared.serve [--hosts NAME,…] [--token] [--roots DIR:…]
[--export-root DIR] [streamlit options]`.

What the first screen needs is imported before the server answers, so that no reader waits for it at
an empty page.
--hosts: names that this machine goes by besides 127.0.0.1, localhost and ::1. --token: the app
opens only by the address that is printed, for machines that several people log in to. --roots and
--export-root: below which folders a page may have files read and folders written, instead of the
usual ones of roots.py.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas  # noqa: F401
import plotly.graph_objects  # noqa: F401
import pyarrow.parquet  # noqa: F401

from engine.report.tracks import tracks
from pages.shared import roots
from pages.shared.cache import settle

SERVED = Path(__file__).with_name("served.py")
HOSTS, TOKEN = "PRUNEAUDIT_HOSTS", "PRUNEAUDIT_TOKEN"
VALUED = {"--hosts": HOSTS, "--roots": roots.READ, "--export-root": roots.WRITE}
"""Our options that take a value, and the variable each is kept in."""


def main() -> None:
    """Hand over to streamlit's own command line, in this process."""
    from streamlit.web import cli

    tracks()  # with them the panels they are made of
    sys.argv = ["streamlit", "run", str(SERVED), *ours_taken(sys.argv[1:])]
    if token := os.environ.get(TOKEN):
        if not (token.isascii() and token.isprintable()) or set(token) & set(' ",;\\'):
            sys.exit(f"{TOKEN} holds letters that no cookie can. Use --token, or A-Z, a-z and 0-9.")
        print(
            f"Open it with ?token={token} behind its address; without that it answers nobody.",
            flush=True,
        )
    settle()
    cli.main()


def ours_taken(words: Sequence[str]) -> list[str]:
    """The options that are not ours; ours go into the environment, where `served` reads them."""
    rest, words = [], list(words)
    while words:
        word = words.pop(0)
        if word == "--token":
            os.environ[TOKEN] = secrets.token_urlsafe(24)
        elif word in VALUED and words:
            os.environ[VALUED[word]] = words.pop(0)
        elif word.partition("=")[0] in VALUED and "=" in word:
            os.environ[VALUED[word.partition("=")[0]]] = word.partition("=")[2]
        else:
            rest.append(word)
    return rest


if __name__ == "__main__":
    main()
