"""A panel's figure as a web page, SVG or PNG."""

from __future__ import annotations

import asyncio
import html
import os
import re
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from engine.core.errors import PruneAuditError
from engine.core.text import visible
from engine.core.types import digest_of
from engine.report.charts.panel import CONFIG, Panel
from engine.report.palette import theme

BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
)
WIDTH = 960
PLOTLY = "plotly.min.js"

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>{question}</title>
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:1000px;margin:2rem auto;
padding:0 1rem;background:{paper};color:{ink}}}
h1{{font-size:1.3rem}}.caveat{{color:{soft};font-size:.85rem}}</style></head>
<body><h1>{question}</h1><p>{said}</p>{chart}<p class="caveat">{caveat}</p></body></html>
"""


def figure_html(panel: Panel, plotlyjs: bool | str = True) -> bytes:
    """One page with question, answer, chart and caveat; works offline.

    plotlyjs=True puts the library inside (4.7 MB); "directory" expects plotly.min.js in the same
    folder.
    """
    look = theme(False)
    chart, figure = "", panel.whole()
    if figure is not None:
        height = figure.layout.height
        chart = figure.to_html(
            full_html=False, include_plotlyjs=plotlyjs, config=dict(CONFIG), default_height=height
        )
    text = {
        name: html.escape(visible(getattr(panel, name))) for name in ("question", "said", "caveat")
    }
    return _PAGE.format(
        **text, chart=chart, paper=look.paper, ink=look.ink, soft=look.soft
    ).encode()


def figure_image(
    panel: Panel, kind: str = "svg", width: int = WIDTH, height: int | None = None
) -> bytes:
    """SVG or PNG bytes, drawn by a local Chromium or Chrome; pixels, the figure's own height where
    none is given. PruneAuditError where there is no browser, or no figure."""
    figure = panel.whole()
    if figure is None:
        raise PruneAuditError(f"{panel.question} has no chart: {panel.said}")
    need_browser()
    painted = type(figure)(figure).update_layout(paper_bgcolor=theme(False).paper)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # kaleido tells about options it does not use
            return painted.to_image(
                format=kind, width=width, height=height, scale=2 if kind == "png" else 1
            )
    except Exception as error:  # kaleido raises many types of error; a person needs one sentence
        raise PruneAuditError(f"The browser could not draw the chart as {kind}: {error}") from error


def find_browser() -> str | None:
    """Path of a local Chromium or Chrome, None where there is none."""
    own = os.environ.get("BROWSER_PATH")
    return (
        own
        if own and Path(own).is_file()
        else next(filter(None, map(shutil.which, BROWSERS)), None)
    )


def need_browser() -> str:
    """Path of a local browser for images. PruneAuditError says what to install or to use
    instead."""
    found = find_browser()
    if found is None:
        raise PruneAuditError(
            "SVG, PNG and PDF need Chromium or Chrome on this machine, and none was found. Install"
            " one (Debian: apt install chromium), set BROWSER_PATH, or use the HTML charts: their"
            " toolbar saves PNG."
        )
    os.environ["BROWSER_PATH"] = found  # kaleido's own search misses some of these names
    return found


def write_figures(panels: Sequence[tuple[str, Panel]], folder: Path) -> list[Path]:
    """Every panel with a chart as HTML (sharing one plotly.min.js), SVG and PNG; without a browser
    a note says so."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / PLOTLY]
    written[0].write_text(get_plotlyjs(), encoding="utf-8")
    named = [(f"{axis}-{panel.key}" if axis else panel.key, panel) for axis, panel in panels]
    drawn = [(name, panel) for name, panel in named if panel.has_chart]
    for name, panel in drawn:
        written.append(folder / f"{_safe(name)}.html")
        written[-1].write_bytes(figure_html(panel, plotlyjs="directory"))
    try:
        need_browser()
    except PruneAuditError as error:
        note = folder / "NO-IMAGES.txt"
        note.write_text(f"{error}\n", encoding="utf-8")
        return [*written, note]
    return written + _write_images(drawn, folder)


TABS = 2
"""Charts that are drawn beside each other."""


def _write_images(drawn: Sequence[tuple[str, Panel]], folder: Path) -> list[Path]:
    """All in one browser, whose pages load plotly once: kaleido loads it again after each image,
    which takes longer than drawing. PruneAuditError where one cannot be drawn."""
    import kaleido

    class Browser(kaleido.Kaleido):
        async def _return_kaleido_tab(self, tab: Any) -> None:
            await self.tabs_ready.put(tab)

    async def draw() -> None:
        async with Browser(n=TABS, mathjax=False) as browser:
            await browser.write_fig_from_object(wanted, cancel_on_error=True)

    written, wanted = [], []
    for name, panel in drawn:
        figure = panel.whole()
        if figure is None:
            continue
        spec = figure.to_plotly_json()
        spec["layout"]["paper_bgcolor"] = theme(False).paper
        for kind, scale in (("svg", 1), ("png", 2)):
            written.append(folder / f"{_safe(name)}.{kind}")
            opts = {"format": kind, "width": WIDTH, "scale": scale}
            wanted.append({"fig": spec, "path": written[-1], "opts": opts})
    try:
        with ThreadPoolExecutor(1) as thread:  # a notebook's own loop may be running in this one
            thread.submit(lambda: asyncio.run(draw())).result()
    except Exception as error:  # kaleido raises many types of error; a person needs one sentence
        raise PruneAuditError(f"The browser could not draw the charts: {error}") from error
    return written


@contextmanager
def one_browser() -> Iterator[None]:
    """Within it one browser draws every image: starting it takes longer than drawing."""
    import kaleido

    need_browser()
    kaleido.start_sync_server(n=1, silence_warnings=True, mathjax=False)
    try:
        yield
    finally:
        kaleido.stop_sync_server(silence_warnings=True)


def _safe(name: str) -> str:
    """A file name from an axis of the user's own and a panel key."""
    safe = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in name)[:90]
    return (
        safe if safe == name else f"{safe}-{digest_of(name)[:6]}"
    )  # two names must not become one file


PIXELS = re.compile("size|width|thickness|standoff|[lrtb]|[xy]shift|ticklen")
"""Keys of a figure whose numbers are pixels where they stand for letters, marks, lines and room."""


def larger(figure: go.Figure, factor: float) -> go.Figure:
    """The figure with letters, marks, lines and margins `factor` times as large. A copy: panels are
    kept and shared."""
    spec = figure.to_plotly_json()
    data = [_scaled(trace, factor, trace.get("type") == "bar") for trace in spec["data"]]
    layout = _scaled(spec["layout"], factor)
    return go.Figure({"data": data, "layout": layout}).update_layout(height=None)


def _scaled(value: Any, factor: float, is_bar: bool = False) -> Any:
    """A part of a figure; the width of a bar is in its axis' units, and stays."""
    if isinstance(value, dict):
        return {
            name: part * factor
            if PIXELS.fullmatch(name)
            and isinstance(part, (int, float))
            and not (is_bar and name == "width")
            else _scaled(part, factor, is_bar)
            for name, part in value.items()
        }
    if isinstance(value, (list, tuple)) and any(isinstance(part, (dict, str)) for part in value):
        return [_scaled(part, factor) for part in value]
    return _letters(value, factor) if isinstance(value, str) else value


def _letters(text: str, factor: float) -> str:
    """Sizes of letters inside a label."""
    return re.sub(
        r"font-size: ?([0-9.]+)px",
        lambda found: f"font-size:{float(found[1]) * factor:.0f}px",
        text,
    )


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
