"""The screens of every embedded audit in a real browser: height, words, seconds, accessibility,
contrast.

Pages come from the app's navigation and tabs from the pages, so that a new one is measured too.
`--shots DIR` also writes one small picture per screen: wide and narrow, light and dark, side by
side. Slides of the page Present are looked at at three sizes of a window: each must fit.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks import app_server, axe
from benchmarks.report import Measure, parser, show
from engine.core.files import PROJECT
from engine.resident import client
from engine.store.runs import EMBEDDED, Store

TALLEST, LONGEST = 3000, 250
"""Bars: pixels of a screen's content at 1440; words outside tables, charts and folded parts, those
not counted that a model or a user wrote."""
QUIET = 0.7
"""Seconds without a change after which a screen counts as settled; they are not counted."""
PATIENCE = 60.0
"""Bar: seconds after which a screen counts as one that never comes to rest."""
HIGH = 360
"""Pixels of the height of a small picture."""
COUNTED = (PROJECT / "benchmarks" / "screens.js").read_text(encoding="utf-8")
OPENED = (PROJECT / "benchmarks" / "opened.js").read_text(encoding="utf-8")
SIZES = ((1920, 1080), (1440, 900), (1280, 720))
"""Windows that every slide fits: pixels wide and high."""
MISFIT = (PROJECT / "benchmarks" / "slides.js").read_text(encoding="utf-8")
OPEN = """() => {
  const closed = [...document.querySelectorAll(
    '[data-testid=stMainBlockContainer] details:not([open]) > summary')];
  closed.forEach(one => one.click());
  return closed.length;
}"""
SETTLED = """
([quiet, limit]) => new Promise(done => {
  const begun = performance.now(), app = () => document.querySelector('[data-testid=stApp]');
  let last = '', since = begun;
  const look = () => {
    const main = document.querySelector('[data-testid=stMainBlockContainer]');
    const now = performance.now();
    const waits = !main?.querySelector('h1') || app().dataset.testScriptState === 'running'
      || document.querySelector('[data-testid=stSkeleton]');
    const seen = waits ? '' : `${main.scrollHeight} ${main.querySelectorAll('*').length}`;
    if (seen !== last || waits) { last = seen; since = now; }
    if (now - since > quiet) return done(since / 1000);
    if (now - begun > limit) return done(Infinity);
    setTimeout(look, 50);
  };
  look();
})
"""
"""Resolves with the seconds from the page's load to the last change; infinity where it does not
come to rest."""


@dataclass(frozen=True)
class Look:
    """How a reader sees the app."""

    width: int = 1440
    dark: bool = False

    @property
    def said(self) -> str:
        return f"{self.width} {'dark' if self.dark else 'light'}"


LOOKS = (Look(), Look(dark=True), Look(390), Look(390, True))


@dataclass
class Screen:
    """One page, or one tab of it, of one audit as it was measured."""

    name: str
    look: Look
    seconds: float
    faults: list[axe.Fault]
    opened: list[str]
    shot: bytes
    height: int
    words: int
    quoted: int
    pale: list[str]
    overlaps: list[str]
    errors: list[str] = field(default_factory=list)

    def measures(self) -> list[Measure]:
        """Its rows; what is wrong stands in their names. The bars are those of a wide screen; on a
        phone the same words are taller. Texts too pale to read are what axe finds on the page, and
        texts of charts, which axe does not look at."""
        name, is_wide = f"{self.name}, {self.look.said}", self.look.width == Look().width
        told = {one: f"{one.rule} {one.element}: {one.why}"[:300] for one in self.faults}
        pale = [text for one, text in told.items() if one.rule == axe.CONTRAST]
        faults = {
            "serious axe violations": [*told.values()],
            "contrast faults": [*pale, *self.pale],
            "labels over each other": self.overlaps,
            "wrong where all is open": self.opened,
            "errors in the console": self.errors,
        }
        return [
            Measure(f"{name}: height", self.height, "px", TALLEST if is_wide else None),
            Measure(f"{name}: words", self.words - self.quoted, "words", LONGEST),
            Measure(f"{name}: seconds to settle", round(self.seconds, 2), "s", PATIENCE),
            *(_none_of(f"{name}: {what}", found) for what, found in faults.items()),
        ]


def _none_of(name: str, found: Sequence[str]) -> Measure:
    """How many there are, of which there should be none; the first ones are told."""
    return Measure("; ".join([name, *found[:3]]), len(found), "faults", 0)


def main() -> int:
    """Measure and print; exit code 1 when a bar is missed, 2 without a Chromium."""
    asked = options().parse_args()
    path = app_server.find_chromium()
    if path is None:
        print("No Chromium is installed.", file=sys.stderr)
        return 2
    looks = LOOKS if asked.shots else (Look(asked.width, asked.dark),)
    with tempfile.TemporaryDirectory() as store:
        own = Path(store)
        with (
            app_server.started(own, own / "app.txt") as address,
            app_server.browser(path) as browser,
        ):
            screens = [screen for look in looks for screen in seen(browser, address, look, asked)]
            misfits = [] if asked.page not in "present" else list(slides(browser, address, asked))
        client.stop(Store(own))
    if asked.shots:
        write_shots(screens, Path(asked.shots))
    rows = [*(row for screen in screens for row in screen.measures()), *misfits]
    if not asked.json:
        rows = [row for row in rows if row.holds is False] + summary(screens, len(misfits))
    return show(rows, asked.json)


def summary(screens: Sequence[Screen], slides: int) -> list[Measure]:
    """The most of all screens, and which they are."""
    seconds = [one.seconds for one in screens]
    tallest, longest = (
        max(screens, key=worth)
        for worth in (lambda one: one.height, lambda one: one.words - one.quoted)
    )
    return [
        Measure(f"tallest of {len(screens)} screens, {tallest.name}", tallest.height, "px"),
        Measure(f"most words, {longest.name}", longest.words - longest.quoted, "words"),
        Measure("seconds until a screen is settled, median", statistics.median(seconds), "s"),
        Measure("… slowest", max(seconds), "s"),
        Measure("slides that were looked at", slides, "slides"),
    ]


def options() -> argparse.ArgumentParser:
    made = parser(__doc__)
    made.add_argument("--width", type=int, default=1440, help="of the screen, px (390: a phone)")
    made.add_argument("--dark", action="store_true", help="the dark theme")
    made.add_argument("--run", default="", help="only audits whose id begins so")
    made.add_argument(
        "--page", default="", help="only pages whose address holds this; summary is /"
    )
    made.add_argument(
        "--shots",
        default="",
        metavar="DIR",
        help="write small pictures, wide and narrow, light and dark",
    )
    return made


def seen(browser: Any, address: str, look: Look, asked: argparse.Namespace) -> Iterator[Screen]:
    """Every screen of every embedded audit; what belongs to no audit (the workspace) once."""
    size = {"width": look.width, "height": 900 if look.width > 600 else 844}
    theme = "dark" if look.dark else "light"
    context = browser.new_context(
        viewport=size, color_scheme=theme, has_touch=look.width < 600, reduced_motion="reduce"
    )
    page = context.new_page()
    page.set_default_timeout(60_000)
    errors: list[str] = []
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    once: set[str] = set()
    for run in Store(EMBEDDED, read_only=True).ids():
        if not run.startswith(asked.run):
            continue
        for name, is_shared in navigation(page, f"{address}/?{urlencode({'run': run})}"):
            if asked.page not in (name or "summary") or name in once:
                continue
            if is_shared:
                once.add(name)
            audit = "workspace" if is_shared else run[:4]
            for screen in tabs(page, f"{address}/{name}", run, look, audit):
                screen.errors, errors[:] = [*errors], []
                yield screen
    context.close()


def slides(browser: Any, address: str, asked: argparse.Namespace) -> Iterator[Measure]:
    """One row per slide of every embedded audit and theme: what does not fit, over all sizes."""
    runs = [run for run in Store(EMBEDDED, read_only=True).ids() if run.startswith(asked.run)]
    for theme in ("light", "dark"):
        context = browser.new_context(color_scheme=theme, reduced_motion="reduce")
        page = context.new_page()
        for run in runs:
            for step in range(1, 6):
                page.goto(f"{address}/present?{urlencode({'run': run, 'step': step})}")
                yield _none_of(f"{run[:4]} slide {step}, {theme}", misfits(page))
        context.close()


def misfits(page: Any) -> list[str]:
    """What does not fit of the slide that a page shows, each with the window's size; opened anew in
    each: what is measured as it is drawn may differ."""
    found = []
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        page.reload()
        settle(page)
        found += [f"{width} × {height}: {one}" for one in page.evaluate(MISFIT)]
    return found


def navigation(page: Any, address: str) -> list[tuple[str, bool]]:
    """The pages the app lists: path, and whether it stands in the last section, which is the same
    for every audit."""
    page.goto(address)
    settle(page)
    return [
        (path, is_last)
        for path, is_last in page.evaluate("""() => {
      const nav = document.querySelector('[data-testid=stSidebarNav]');
      const heads = [...nav.querySelectorAll('[data-testid=stNavSectionHeader]')];
      const last = heads.at(-1);
      return [...nav.querySelectorAll('a')].map(link => [new URL(link.href).pathname.slice(1),
        !!last && !!(last.compareDocumentPosition(link) & Node.DOCUMENT_POSITION_FOLLOWING)]);
    }""")
    ]


def tabs(page: Any, address: str, run: str, look: Look, audit: str) -> Iterator[Screen]:
    """A page as it opens, then each further tab of its first strip."""
    page.goto(f"{address}?{urlencode({'run': run})}")
    seconds = settle(page)
    strip = page.locator("[data-testid=stMainBlockContainer] [role=tablist]").first.locator(
        "[role=tab]"
    )
    titles = strip.all_inner_texts()
    path = address.rsplit("/", 1)[1] or "summary"
    for at, title in enumerate(titles or [""]):
        if at:
            start = page.evaluate("() => performance.now() / 1000")
            strip.nth(at).click()
            page.wait_for_timeout(150)
            seconds = settle(page) - start
        name = f"{audit} {path}" + (f" / {title.strip()}" if titles else "")
        yield measured(page, name, look, seconds)


def settle(page: Any) -> float:
    """Wait until nothing moves; seconds from the page's load to the last change, infinity where it
    never rests."""
    return page.evaluate(SETTLED, [1000 * QUIET, 1000 * PATIENCE])


def measured(page: Any, name: str, look: Look, seconds: float) -> Screen:
    page.evaluate("() => document.querySelector('[data-testid=stMain]').scrollTo(0, 0)")
    shot, faults = page.screenshot(), axe.faults(page)
    found = page.evaluate(COUNTED)
    return Screen(name, look, seconds, faults, unfolded(page), shot, **found)


def unfolded(page: Any) -> list[str]:
    """What breaks, labels that lie over each other, and hover boxes that are cut off, once every
    fold of a page is open, and each popover in turn."""
    while page.evaluate(OPEN):
        settle(page)
    return page.evaluate(OPENED) + page.evaluate(COUNTED)["overlaps"]


def write_shots(screens: Sequence[Screen], folder: Path) -> None:
    """One picture per screen, its looks side by side; few colours, of which rare ones are kept."""
    from io import BytesIO

    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    for name in dict.fromkeys(screen.name for screen in screens):
        sheet, left = Image.new("RGB", (4 * HIGH * len(LOOKS), HIGH), "#8a939c"), 0
        for one in screens:
            if one.name == name:
                shot = Image.open(BytesIO(one.shot)).convert("RGB")
                shot = shot.resize(
                    (round(shot.width * HIGH / shot.height), HIGH), Image.Resampling.LANCZOS
                )
                sheet.paste(shot, (left, 0))
                left += shot.width + 4
        sheet = sheet.crop((0, 0, left - 4, HIGH))
        file = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
        # Plains as they are.
        few = sheet.quantize(96, Image.Quantize.MAXCOVERAGE, kmeans=3, dither=Image.Dither.NONE)
        few.save(folder / f"{file}.png", optimize=True)


if __name__ == "__main__":
    sys.exit(main())
