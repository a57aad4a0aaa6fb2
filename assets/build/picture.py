"""The README's picture: the Summary of the real model's embedded audit as Chromium shows it.

    python -m assets.build.picture --to docs/summary.png
"""

from __future__ import annotations

import argparse
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlencode

from PIL import Image

from assets.build.showcase import MODEL
from benchmarks import app_server
from benchmarks.screens import settle
from engine.resident import client
from engine.store.runs import EMBEDDED, Store

SIZE = {"width": 1440, "height": 900}
COLOURS = 96


def taken(path: str, store: Path) -> bytes:
    """A PNG of the screen, in full colours."""
    run = next(one.id for one in Store(EMBEDDED, read_only=True).list() if one.model == MODEL)
    with app_server.started(store, store / "app.txt") as address, app_server.browser(path) as browser:
        page = browser.new_context(viewport=SIZE, color_scheme="light", reduced_motion="reduce").new_page()
        page.goto(f"{address}/?{urlencode({'run': run})}")
        settle(page)
        return page.screenshot()


def main() -> None:
    parser = argparse.ArgumentParser(description="Take the README's picture.")
    parser.add_argument("--to", type=Path, required=True, help="PNG file to write")
    asked = parser.parse_args()
    path = app_server.find_chromium()
    if path is None:
        raise SystemExit("No Chromium is installed.")
    with TemporaryDirectory() as folder:
        shot = taken(path, Path(folder))
        client.stop(Store(folder))
    few = Image.open(BytesIO(shot)).convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=3, dither=Image.Dither.NONE)
    few.save(asked.to, optimize=True)


if __name__ == "__main__":
    main()
