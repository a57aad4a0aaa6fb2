"""Starts the app: `python -m pages.shared.serve [streamlit options]`.

What the first screen needs is imported before the server answers, so that no reader waits for it at an empty page.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas  # noqa: F401
import plotly.graph_objects  # noqa: F401
import pyarrow.parquet  # noqa: F401

from engine.report.tracks import tracks

APP = Path(__file__).resolve().parents[2] / "app.py"


def main() -> None:
    """Hand over to streamlit's own command line, in this process."""
    from streamlit.web import cli

    tracks()  # with them the panels they are made of
    sys.argv = ["streamlit", "run", str(APP), *sys.argv[1:]]
    cli.main()


if __name__ == "__main__":
    main()
