"""Text is data wherever a run leaves the program: terminal, notes, report, figures, tables, masks,
of every track."""

import csv
import io
import json
import re
import zlib

import pytest

from benchmarks.app_server import find_chromium
from engine.cli import main
from engine.core.text import CONTROL, MARK, cell, harmless, json_text, visible
from engine.core.types import Event
from engine.report.bundle import export_run
from engine.report.tracks import track_of, tracks
from tests import made_up
from tests.builders import Tags

STEERED = made_up.STEERING
pytestmark = pytest.mark.usefixtures("drawn_once")


def raw(text):
    return [
        ascii(text[max(0, found.start() - 60) : found.end() + 20])
        for found in CONTROL.finditer(text)
    ][:3]


@pytest.mark.parametrize("name", tracks())
def test_no_file_holds_what_steers_or_hides(hostile_store, tmp_path, name):
    run = hostile_store.open(f"{name}-run")
    foreign = [one.name for one in track_of(run).handout.foreign if name != "language_models"]
    files = export_run(
        run, tmp_path, ["masks", "tables", "report", "model_card", *foreign], show_offensive=True
    )
    assert {path.suffix for path in files} >= {".json", ".csv", ".html", ".md"}
    for path in files:
        if path.suffix not in (".parquet", ".npz"):
            text = path.read_text(encoding="utf-8")
            assert raw(text.partition("<script>")[0]) == [], (
                path.name
            )  # behind it: the library for charts
        if path.name == "report.html":  # charts are JSON, whose escapes become characters again
            drawn = json.loads(
                re.search(r'<script type="application/json" id="data">(.*)</script>', text)[1]
            )
            assert drawn["figures"] and drawn == harmless(drawn)
            assert "<b>x" not in text + json.dumps(drawn, ensure_ascii=False), "of MARKUP"
            tags = Tags()
            tags.feed(text)
            names = [name for name, _ in tags.found]
            assert not {*names} & {"img", "iframe", "link", "object", "base"}
            assert names.count("script") == 3, "ours, whose hashes the page's policy names"
            assert not any(name.startswith("on") for _, own in tags.found for name in own)
        if path.suffix == ".csv":
            rows = list(csv.reader(io.StringIO(text)))
            assert not [
                one for row in rows[1:] for one in row if one[:1] in ("=", "@") or one[:2] == "+1"
            ], path.name
            assert not any(one.startswith("=") for one in rows[0])


@pytest.mark.parametrize(
    "words", [("list",), ("show",), ("verify",), ("list", "--json"), ("show", "--json")]
)
def test_no_command_steers_the_terminal(hostile_store, capsys, words):
    """Nor ends in an error: made-up runs have what summaries and checks read."""
    for run_id in [None] if words[0] == "list" else hostile_store.ids():
        main(
            [
                "runs",
                words[0],
                *filter(None, [run_id]),
                "--store",
                str(hostile_store.root),
                *words[1:],
            ]
        )
        told = capsys.readouterr()
        assert told.out and raw(told.out + told.err) == []
        assert "error in the program" not in told.err.casefold()


def test_progress_and_faults_do_not_steer_either(hostile_store, capsys):
    from engine.audit.command_line import Ticker

    ticker = Ticker()
    ticker(Event("phase", 1, 2, f"what{STEERED}"))
    ticker(Event("phase", 1, 2, "", note=f"note{STEERED}"))
    assert main(["runs", "show", f"x{STEERED}", "--store", str(hostile_store.root)]) != 0
    told = capsys.readouterr()
    assert MARK in told.err and raw(told.out + told.err) == []


def test_what_is_replaced_and_what_stays():
    assert visible(STEERED) == f"{MARK}[2J{MARK}31m{MARK}gnirts{MARK * 4}"
    for text in ("a\tb\nc", "日本語 🙂 naïve", "می\u200cخواهم", "👩\u200d⚕️", "क्\u200dष"):
        assert visible(text) == text
    assert visible("pass\u200bword x\u200dy") == f"pass{MARK}word x{MARK}y"
    for value in ({"a\u202e": ["\x1b\x9b\u2028", 1.5, None]}, "half \ud800", [True]):
        text = json_text(value)
        assert json.loads(text) == value and not CONTROL.search(text) and text.encode()


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-cmd", "@SUM", "\t=1", " =1", "\n+2", "\u200b=1", "＝1", "'=1"]
)
def test_no_cell_is_a_formula(text):
    assert cell(text) == f"'{visible(text)}"


def test_other_cells_stay():
    assert [cell(one) for one in ("a=b", "mixed-race", 1.5, None, True)] == [
        "a=b",
        "mixed-race",
        1.5,
        None,
        True,
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", tracks())
def test_the_printed_report_leads_nowhere_and_runs_nothing(hostile_store, tmp_path, name):
    """What a PDF holds besides pictures of letters: links, actions and its title."""
    if not find_chromium():
        pytest.skip("needs a Chromium")
    (pdf,) = [
        path
        for path in export_run(hostile_store.open(f"{name}-run"), tmp_path, ["pdf"])
        if path.suffix == ".pdf"
    ]
    whole = pdf.read_bytes()
    parts = [
        whole,
        *(
            _unpacked(found[1])
            for found in re.finditer(rb"stream\r?\n(.*?)\r?\nendstream", whole, re.S)
        ),
    ]
    for part in parts:
        assert not re.search(rb"/(JavaScript|JS|Launch|SubmitForm|EmbeddedFile)\b", part)
        assert not re.search(rb"/URI\s*\((?!file:)[^)]*evil", part)
    (title,) = re.findall(rb"/Title\s*(\([^)]*\)|<[^>]*>)", whole)[:1]
    said = (
        bytes.fromhex(title[1:-1].decode()).decode("utf-16")
        if title[:1] == b"<"
        else title.decode("latin-1")
    )
    assert raw(said.lstrip("\ufeff")) == []


def _unpacked(stream):
    """A stream of a PDF as it is read; b"" for pictures and fonts in forms of their own."""
    try:
        return zlib.decompress(stream)
    except zlib.error:
        return b""
