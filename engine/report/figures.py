"""A panel's figure as a web page, SVG or PNG."""

from __future__ import annotations

import asyncio
import base64
import html
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from plotly.io.json import to_json_plotly
from plotly.offline import get_plotlyjs

from engine.core.errors import PruneAuditError
from engine.core.files import EVERY, make_folder
from engine.core.text import visible
from engine.core.types import Event, Hooks, digest_of
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


PATIENCE = 60
"""Seconds for one chart: a browser that has died gives no answer."""
Drawn = Future[tuple[bytes, bytes]]
"""A chart under way: its SVG, and its PNG of twice the size."""
_DRAW = """async (figure, width, height) => {
  height ||= figure.layout.height || 500;
  const svg = await Plotly.toImage(figure, {format: 'svg', width, height, imageDataOnly: true});
  const image = Object.assign(new Image(), {src: 'data:image/svg+xml,' + encodeURIComponent(svg)});
  await image.decode();
  const canvas = document.createElement('canvas'), scale = Math.min(2, 65535 / height);
  [canvas.width, canvas.height] = [scale * width, scale * height];
  canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
  return [svg, canvas.toDataURL('image/png').split(',')[1]];
}"""


def write_figures(
    panels: Iterable[tuple[str, Panel]],
    folder: Path,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
    expected: int = 0,
) -> None:
    """Every panel with a chart as HTML (sharing one plotly.min.js), SVG and PNG; without a browser
    a note says so. Charts are drawn while the next panels are made; `expected`: how many panels the
    hooks are told of. PruneAuditError where a chart cannot be drawn."""
    make_folder(folder)
    (folder / PLOTLY).write_text(get_plotlyjs(), "utf-8")
    made, draw, under_way = 0, None, dict[Path, Drawn]()

    def tell(total: int) -> None:
        hooks.check()
        done = made - sum(not chart.done() for chart in under_way.values())
        hooks.report(Event("charts", done, total, f"{done} of {total}"))

    with ExitStack() as until:
        try:
            draw = until.enter_context(drawing())
        except PruneAuditError as error:
            (folder / "NO-IMAGES.txt").write_text(f"{error}\n", "utf-8")
        for made, (axis, panel) in enumerate(panels, start=1):
            panel = replace(panel, figure=panel.whole(), parts=())
            page = folder / f"{_safe(f'{axis}-{panel.key}' if axis else panel.key)}.html"
            if panel.figure is not None:
                page.write_bytes(figure_html(panel, "directory"))
                if draw:
                    under_way[page] = draw(panel.figure)
            tell(max(made, expected))
        for page, chart in under_way.items():
            while wait([chart], EVERY).not_done:
                tell(made)
            for kind, image in zip((".svg", ".png"), chart.result(), strict=True):
                page.with_suffix(kind).write_bytes(image)


@contextmanager
def drawing() -> Iterator[Callable[..., Drawn]]:
    """Within it one browser draws every chart beside the caller, whose page loads plotly once:
    (figure, width, height) in pixels, the figure's own height where none is given -> Drawn.
    PruneAuditError where there is no browser; of a chart, where it cannot be drawn."""
    import kaleido

    need_browser()
    browser, loop = kaleido.Kaleido(mathjax=False), asyncio.Runner()
    thread = ThreadPoolExecutor(1)  # a notebook's own loop may be running in this one
    opened, under_way = thread.submit(lambda: loop.run(browser.open())), list[Drawn]()

    def drawn(figure: go.Figure, width: int = WIDTH, height: int = 0) -> tuple[bytes, bytes]:
        spec = figure.to_plotly_json()
        spec["layout"]["paper_bgcolor"] = theme(False).paper
        call = f"({_DRAW})({to_json_plotly(spec)}, {width}, {height})"
        asked = {"expression": call, "awaitPromise": True, "returnByValue": True}
        try:
            opened.result()
            (tab,) = browser.tabs.values()
            sent = tab.send_command("Runtime.evaluate", asked)
            told = loop.run(asyncio.wait_for(sent, PATIENCE))["result"]
            if wrong := told.get("exceptionDetails"):
                raise ValueError(wrong["exception"].get("description", wrong["text"]))
            svg, png = told["result"]["value"]
        except (Exception, asyncio.CancelledError) as error:  # of many types: one sentence
            raise PruneAuditError(f"The browser could not draw a chart: {error}") from error
        return svg.encode(), base64.b64decode(png)

    def draw(*asked: Any) -> Drawn:
        under_way.append(thread.submit(drawn, *asked))
        return under_way[-1]

    def close() -> None:
        loop.run(asyncio.wait_for(browser.close(), PATIENCE))
        loop.close()

    try:
        yield draw
    finally:
        for chart in under_way:
            chart.cancel()
        thread.submit(close)
        thread.shutdown(wait=False)


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
