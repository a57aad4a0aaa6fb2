"""Everything a finished audit says, as lines of text, and hashes of what it draws.

`python -m tests.golden.golden` writes the kept files anew: the diff of a commit then shows which
sentences changed. `python -m tests.golden.golden --fresh FOLDER` computes the smallest audit of
every track into FOLDER and writes what it says beside it: run it before and after a move and
compare the two folders. Fresh numbers are this machine's, so they are not kept here. Pictures of
every page: `python -m benchmarks.screens --shots FOLDER`, before and after.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import html
import importlib
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from engine.audit.tracks import tracks
from engine.cli import main
from engine.core.errors import RequestError
from engine.report import story
from engine.report.charts import lookup
from engine.report.charts.panel import Choice, Panel
from engine.report.contents import all_panels, default_choice, variant_row
from engine.report.report import model_card, report_html
from engine.report.summary import summary_of, summary_text
from engine.store.runs import EMBEDDED, Run, Store

KEPT = Path(__file__).parent / "kept"


def lines_of(run: Run) -> Iterator[str]:
    """What the run is, says and shows, in a fixed order."""
    yield f"# {run.id}"
    for path in sorted(run.path.iterdir()):
        yield f"file {path.name} {_hash(path.read_bytes())}"
    yield "# runs show"
    yield f"json {_of_data(summary_of(run))}"
    yield from summary_text(run).splitlines()
    choice = default_choice(run)
    for axis, panel in drawn(run):
        yield from _panel(axis, panel)
    yield "# every variant in short"
    for variant, aimed in _variants(run):
        yield f"{variant}: {_in_short(run, aimed)}"
    yield "# the story"
    for step in (story.step(run, choice, name) for name in story.TITLES):
        yield f"{step.name}: {step.sentence} {step.footnote}"
    yield "# the report"
    yield from _text(report_html(run)).splitlines()
    yield "# the card"
    yield from model_card(run, _first(run)).splitlines()


@cache
def drawn(run: Run) -> list[tuple[str, Panel]]:
    """Every panel with its axis, drawn once for all tests that read them."""
    return list(all_panels(run, default_choice(run)))


def _panel(axis: str, panel: Panel) -> Iterator[str]:
    table = _of_data(panel.table.to_dict("split", index=False))
    yield f"# panel {panel.key} {axis} chart {_drawn(panel)} table {table}"
    yield from filter(None, (panel.question, panel.answer, panel.mind, panel.more, panel.caveat))


def _drawn(panel: Panel) -> str:
    """Hash of the chart without plotly's template, which Streamlit exchanges when it is
    imported."""
    figure = panel.whole()
    plain = json.loads(figure.to_json()) if figure is not None else {"layout": {}}
    plain["layout"].pop("template", None)
    return _of_data(plain)


def _of_data(data: object) -> str:
    """Hash of data, numbers as far as processors agree: the last digits of a sum differ from one
    kind to another."""
    return _hash(json.dumps(_rounded(data), sort_keys=True, default=str).encode())


def _rounded(data: Any) -> Any:
    """Nine digits of every number; plotly's packed arrays as lists."""
    if isinstance(data, float):
        return float(f"{round(data, 12):.9g}") + 0.0
    if isinstance(data, list | tuple):
        return [_rounded(one) for one in data]
    if not isinstance(data, dict):
        return data
    if "bdata" in data:
        flat = np.frombuffer(base64.b64decode(data["bdata"]), data["dtype"])
        return [data.get("shape"), _rounded(flat.tolist())]
    return {str(name): _rounded(one) for name, one in data.items()}


def _variants(run: Run) -> Iterator[tuple[str, Choice]]:
    """Every variant that a reader may choose, each aimed at the axis it was made for."""
    for variant in lookup.named(run)["variant"]:
        yield str(variant), default_choice(run, variant=str(variant))


def _in_short(run: Run, choice: Choice) -> str:
    """The verdict; where there is none, why."""
    try:
        return story.in_short(run, choice)
    except RequestError as error:
        return str(error)


def _first(run: Run) -> dict:
    """The row of the first variant that something was cut from."""
    names = [str(name) for name in lookup.named(run)["variant"] if name != "dense"]
    return variant_row(run, names[0])


def _text(page: str) -> str:
    """What a page says: no scripts, styles, tables or tags, one line per block."""
    page = re.sub(r"<(script|style|table)\b.*?</\1>", "", page, flags=re.DOTALL)
    blocks = re.sub(r"</(p|h\d|li|tr|div|summary|figcaption)>|<br>", "\n", page)
    lines = (
        " ".join(html.unescape(re.sub(r"<[^>]+>", " ", line)).split())
        for line in blocks.splitlines()
    )
    return "\n".join(filter(None, lines))


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def text_of(run: Run) -> str:
    """All lines, each once: the report repeats what panels say."""
    return "\n".join(dict.fromkeys(lines_of(run))) + "\n"


def fresh(folder: Path) -> None:
    """The smallest audit of every track, computed now, and what it says."""
    for name in tracks():
        place = folder / name
        place.mkdir(parents=True)
        words = importlib.import_module(f"tests.tracks.{name}.worlds").small_audit(place)
        if main([*words, "--store", str(place / "store")]):
            raise SystemExit(f"the audit of {name} failed")
        store = Store(place / "store", read_only=True)
        for run_id in store.ids():
            (folder / f"{name}.txt").write_text(text_of(store.open(run_id)), encoding="utf-8")


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--fresh", type=Path)
    asked = options.parse_args()
    if asked.fresh:
        fresh(asked.fresh)
    else:
        KEPT.mkdir(exist_ok=True)
        embedded = Store(EMBEDDED, read_only=True)
        for one in embedded.ids():
            (KEPT / f"{one}.txt").write_text(text_of(embedded.open(one)), encoding="utf-8")
