"""A panel's figure as a web page, SVG or PNG."""

from __future__ import annotations

import html
import os
import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

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
    """All in one browser, without plotly's second look at every figure: both take longer than
    drawing."""
    import kaleido

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
        kaleido.write_fig_from_object_sync(wanted, kopts={"n": TABS, "mathjax": False})
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
