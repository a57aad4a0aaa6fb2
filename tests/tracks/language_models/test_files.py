"""Report, figures, tables, masks and checkpoints as files."""

import base64
import hashlib
import json
import re

import pandas as pd
import pytest

from engine.core.errors import PruneAuditError, RequestError
from engine.core.types import Hooks
from engine.report import bundle, figures
from engine.report.bundle import HIDDEN
from engine.report.charts.panel import CONFIG, Choice
from engine.report.report import report_html
from engine.tracks.language_models.panels.cuts import who_pays
from tests.builders import Tags, changed
from tests.tracks.language_models.made_up_run import HOSTILE, make_run

VARIANT = "fasp-gender_and_sex-g0.30-s0.200"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("store"), "plain")


@pytest.fixture(scope="module")
def page(run) -> str:
    """The report of one variant."""
    return report_html(run, variant=VARIANT)


@pytest.mark.parametrize("show", [False, True])
def test_texts_are_hidden_in_a_report_unless_asked_for(run, tmp_path, show, no_charts):
    """What else a hostile text may do is tested in tests/report/test_hostile.py."""

    edit = {"text": [HOSTILE[index % 2] for index in range(len(run.table("texts")))]}
    page, tags = report_html(changed(run, tmp_path, "texts", edit), show_offensive=show), Tags()
    tags.feed(page)
    links = [attrs["href"] for tag, attrs in tags.found if tag == "a"]
    assert links and all(link[0] == "#" for link in links), "contents, and no way out"
    assert not any(text in page for text in HOSTILE[:2])
    assert ("&lt;script&gt;alert(1)&lt;/script&gt;" in page) is show


def test_only_our_scripts_may_run(page):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page).group(1)
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy.split("script-src")[1].split(";")[0]
    for script in re.findall(r"<script>(.*?)</script>", page, re.S):
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert page.count("plotly.js v") == 1


def test_a_report_begins_with_one_page_and_its_contents_lead_to_all_else(run, page):
    first, rest = page.split('<nav id="contents">')
    row = run.table("variants").set_index("variant").loc[VARIANT]
    for text in (
        "Cutting",
        "What this cannot say",
        row["mask_digest"],
        f"export {run.id}",
        f"--variant {VARIANT}",
    ):
        assert text in first.split("<main>")[1]
    assert "every number is made up" not in first.split("<main>")[1], "notes are in the appendix"
    for anchor in re.findall(r'href="#([^"]*)"', page):
        assert f'id="{anchor}"' in page
    assert first.count('class="chart"') == 1 < rest.count('class="chart"')


def test_tables_hide_texts_unless_asked_and_keep_every_number(run, tmp_path):
    bundle.export_run(run, tmp_path, ["tables"])
    assert set(pd.read_csv(tmp_path / "tables" / "texts.csv")["text"]) == {HIDDEN}
    pd.testing.assert_frame_equal(
        pd.read_parquet(tmp_path / "tables" / "results.parquet"), run.table("results")
    )
    assert len(json.loads((tmp_path / "tables" / "scores.json").read_text())) == len(
        run.table("scores")
    )
    bundle.export_run(run, tmp_path, ["tables"], show_offensive=True)
    assert set(pd.read_parquet(tmp_path / "tables" / "texts.parquet")["text"]) == set(
        run.table("texts")["text"]
    )


def test_other_files_in_the_target_are_kept(run, tmp_path):
    (tmp_path / "masks").mkdir()
    (tmp_path / "masks" / "mine.txt").write_text("keep")
    bundle.export_run(run, tmp_path, ["masks"])
    assert (tmp_path / "masks" / "mine.txt").read_text() == "keep"


def test_a_figure_page_works_offline_and_offers_no_upload(run):
    """plotly takes keys out of the config it is given: the shared one stays."""
    before = dict(CONFIG)
    page = figures.figure_html(who_pays(run, Choice("fasp", "gender_and_sex", 0.2))).decode()
    assert '"showSendToCloud": false' in page and "<script src" not in page and "Who pays?" in page
    assert before == CONFIG and before["plotlyServerURL"] == ""


def test_images_without_a_browser_say_what_to_do(run, monkeypatch, tmp_path):
    monkeypatch.setattr(figures.shutil, "which", lambda name: None)
    monkeypatch.delenv("BROWSER_PATH", raising=False)
    panel = who_pays(run, Choice("fasp", "gender_and_sex", 0.2))
    figures.write_figures([("", panel)], tmp_path)
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == ["NO-IMAGES.txt", "plotly.min.js", "who_pays.html"]
    assert "Install one" in (tmp_path / "NO-IMAGES.txt").read_text()


@pytest.mark.browser
@pytest.mark.slow
def test_images_are_drawn_while_hooks_hear_of_it_and_can_stop_them(run, tmp_path):
    try:
        figures.need_browser()
    except PruneAuditError as error:
        pytest.skip(str(error))
    panels, told = [("", who_pays(run, Choice("fasp", "gender_and_sex", 0.2)))], []
    figures.write_figures(panels, tmp_path, Hooks(told.append))
    svg, png = ((tmp_path / f"who_pays.{kind}").read_bytes() for kind in ("svg", "png"))
    assert svg.startswith(b"<svg") and png.startswith(b"\x89PNG") and told[0].total == 1

    with pytest.raises(ZeroDivisionError):
        figures.write_figures(panels, tmp_path, Hooks(check=lambda: 1 / 0))


def test_checkpoint_is_cut_zeroed_and_agrees(audited, tmp_path):
    run, name = audited.run, "magnitude-s0.300"
    paths = bundle.export_run(run, tmp_path / "out", ["checkpoint"], variant=name)
    folder = tmp_path / "out" / "checkpoint" / name
    found = json.loads((folder / "agreement.json").read_text())
    assert found.keys() >= {"cut", "reloaded", "zeroed"}
    assert all(one["holds"] for one in found.values())
    assert folder / "cut" / "mask.json" in paths and "pruned" in (folder / "README.md").read_text()
    with pytest.raises(RequestError, match="not empty"):
        bundle.export_run(run, tmp_path / "out", ["checkpoint"], variant=name)
    model = {**run.meta["model"], "weight_hash": "0" * 64}
    moved = changed(run, tmp_path / "store", "costs", {}, model=model)
    with pytest.raises(RequestError, match="weights"):
        bundle.export_run(moved, tmp_path / "no", ["checkpoint"], variant=name)
    assert not (tmp_path / "no").exists()


def test_two_names_do_not_become_one_file():
    from engine.report.bundle import file_name
    from engine.report.figures import _safe

    for clean in (_safe, file_name):
        assert clean("fasp-nationality-g0") == "fasp-nationality-g0"
        assert len({clean("a b"), clean("a/b"), clean("a_b")}) == 3
        assert clean("x" * 300 + "1") != clean("x" * 300 + "2")
