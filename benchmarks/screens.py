"""The screens of every embedded audit in a real browser: height, words, seconds, accessibility,
contrast.

Pages come from the app's navigation and tabs from the pages, so that a new one is measured too.
`--shots DIR` also writes one small picture per screen: wide and narrow, light and dark, side by
side. Slides of the page Present are looked at at three sizes of a window: each must fit.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
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
    height: int
    words: int
    quoted: int
    seconds: float
    faults: list[axe.Fault] = field(default_factory=list)
    pale: list[str] = field(default_factory=list)
    overlaps: list[str] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    shot: bytes = b""

    @property
    def contrast(self) -> int:
        """Texts too pale to read: what axe finds on the page, and texts of charts, which axe does
        not look at."""
        return sum(fault.rule == axe.CONTRAST for fault in self.faults) + len(self.pale)

    def measures(self) -> list[Measure]:
        """Its rows. The bars are those of a wide screen; on a phone the same words are taller."""
        name, is_wide = f"{self.name}, {self.look.said}", self.look.width == Look().width
        return [
            Measure(f"{name}: height", self.height, "px", TALLEST if is_wide else None),
            Measure(f"{name}: words", self.words - self.quoted, "words", LONGEST),
            Measure(f"{name}: seconds to settle", round(self.seconds, 2), "s", PATIENCE),
            Measure(f"{name}: serious axe violations", len(self.faults), "elements", 0),
            Measure(f"{name}: contrast faults", self.contrast, "texts", 0),
            Measure(f"{name}: labels over each other", len(self.overlaps), "labels", 0),
            Measure(f"{name}: wrong where all is open", len(self.opened), "faults", 0),
            Measure(f"{name}: errors in the console", len(self.errors), "errors", 0),
        ]


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
    if not asked.json:
        print_table(screens)
        missed = any(one.holds is False for screen in screens for one in screen.measures())
        return show(misfits, as_json=False) or int(missed)
    return show([*(one for screen in screens for one in screen.measures()), *misfits], as_json=True)


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
                screen.errors, errors[:] = list(errors), []
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
                found = misfits(page)
                name = f"{run[:4]} slide {step}, {theme}: " + "; ".join(found[:3])
                yield Measure(name.rstrip(": "), len(found), "misfits", 0)
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
    yield measured(
        page, f"{audit} {path}" + (f" / {titles[0].strip()}" if titles else ""), look, seconds
    )
    for at, title in enumerate(titles[1:], 1):
        start = page.evaluate("() => performance.now() / 1000")
        strip.nth(at).click()
        page.wait_for_timeout(150)
        yield measured(page, f"{audit} {path} / {title.strip()}", look, settle(page) - start)


def settle(page: Any) -> float:
    """Wait until nothing moves; seconds from the page's load to the last change, infinity where it
    never rests."""
    return page.evaluate(SETTLED, [1000 * QUIET, 1000 * PATIENCE])


def measured(page: Any, name: str, look: Look, seconds: float) -> Screen:
    page.evaluate("() => document.querySelector('[data-testid=stMain]').scrollTo(0, 0)")
    shot = page.screenshot()
    made = Screen(
        name, look, seconds=seconds, faults=axe.faults(page), shot=shot, **page.evaluate(COUNTED)
    )
    made.opened = unfolded(page)
    return made


def unfolded(page: Any) -> list[str]:
    """What breaks, labels that lie over each other, and hover boxes that are cut off, once every
    fold of a page is open, and each popover in turn."""
    while page.evaluate(OPEN):
        settle(page)
    return page.evaluate(OPENED) + page.evaluate(COUNTED)["overlaps"]


def print_table(screens: Sequence[Screen]) -> None:
    """One line per screen, an asterisk where a bar is missed, then every fault once."""
    width = max((len(screen.name) for screen in screens), default=0)
    print(f"{'screen':{width}}  look        px  words (quoted)     s   axe  contrast")
    for one in screens:
        height, words, _, serious, contrast, *_ = one.measures()
        marks = [
            "*" if measure.holds is False else " " for measure in (height, words, serious, contrast)
        ]
        print(
            f"{one.name:{width}}  {one.look.said:10} {one.height:5}{marks[0]}"
            f" {one.words:4}{marks[1]} {one.quoted:6}  {one.seconds:7.1f} "
            f" {len(one.faults):4}{marks[2]} {one.contrast:4}{marks[3]}"
        )
    met = sum(all(measure.holds is not False for measure in one.measures()) for one in screens)
    print(
        f"{met} of {len(screens)} screens meet every bar: at most {TALLEST} px, {LONGEST} words, 0"
        " faults."
    )
    found = Counter(
        (fault.rule, re.sub(r"\d+", "N", fault.element), fault.why)
        for one in screens
        for fault in one.faults
    )
    for (rule, element, why), times in found.most_common():
        print(f"{times:4} × {rule}: {element[:150]}: {why[:160]}")
    for kind, what in (
        ("pale", "pale in a chart"),
        ("overlaps", "labels over each other"),
        ("opened", "where all is open"),
        ("errors", "error in the console"),
    ):
        for text, times in Counter(
            f"{text} ({one.name})" for one in screens for text in getattr(one, kind)
        ).most_common(20):
            print(f"{times:4} × {what}: {text}")


def write_shots(screens: Sequence[Screen], folder: Path) -> None:
    """One picture per screen, its looks side by side; few colours, of which rare ones are kept."""
    from io import BytesIO

    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    for name in dict.fromkeys(screen.name for screen in screens):
        shots = [
            Image.open(BytesIO(one.shot)).convert("RGB") for one in screens if one.name == name
        ]
        small = [
            shot.resize((round(shot.width * HIGH / shot.height), HIGH), Image.Resampling.LANCZOS)
            for shot in shots
        ]
        sheet = Image.new("RGB", (sum(shot.width + 4 for shot in small) - 4, HIGH), "#8a939c")
        left = 0
        for shot in small:
            sheet.paste(shot, (left, 0))
            left += shot.width + 4
        file = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
        few = sheet.quantize(
            96, Image.Quantize.MAXCOVERAGE, kmeans=3, dither=Image.Dither.NONE
        )  # plains as they are
        few.save(folder / f"{file}.png", optimize=True)


if __name__ == "__main__":
    sys.exit(main())
