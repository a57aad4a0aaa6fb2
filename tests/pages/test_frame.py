"""What holds of every page whatever it shows: one frame, a calm start, faults in words."""

import ast
import re

import pytest
from streamlit.testing.v1 import AppTest

from engine.audit.tracks import tracks
from tests.pages.checks import PAGES, ROOT, assert_calm, click, html_of


@pytest.fixture
def visit(tmp_path, monkeypatch):
    """Opens the app, with these parameters in its address."""
    from pages.shared import cache

    monkeypatch.setenv("PRUNEAUDIT_STORE", str(tmp_path))
    cache.runs.clear()

    def opened(**parameters):
        at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
        for name, value in parameters.items():
            at.query_params[name] = value
        return at.run()

    return opened


@pytest.mark.contract
def test_the_app_opens_on_embedded_audits_and_one_click_shows_one_whole(visit):
    visit = visit()
    assert_calm(visit)
    assert len(visit.title) == 1 and "run" not in visit.query_params
    cards = [button for button in visit.button if button.label == "Open this audit"]
    assert len(cards) == len(tracks())
    pictures = html_of(visit).count("data:image/svg+xml")
    assert pictures == len(cards), "every card shows what its audit found"
    cards[0].click().run()
    assert_calm(visit)
    assert visit.get("plotly_chart") and visit.query_params["run"] in cards[0].key
    visit.button(key="switch_audit").click().run()
    assert_calm(visit)
    embedded = {f"choose_{path.name}" for path in (ROOT / "assets/demo-run/runs").iterdir()}
    assert {
        button.key for button in visit.button if str(button.key).startswith("choose_")
    } == embedded


def test_the_tour_leads_through_an_audit_and_a_skipped_one_does_not_come_back(visit):
    at = click(visit(), "Open this audit")
    run = at.query_params["run"]
    for number in (1, 2, 3):
        assert any(f"**{number} of 3**" in item.value for item in at.markdown)
        if number < 3:
            assert_calm(at.button(key="tour_next").click().run())
    at.button(key="tour_skip").click().run()
    assert not any("of 3**" in item.value for item in at.markdown)
    assert at.query_params["run"] == run


def test_a_link_meets_neither_cards_nor_tour(visit):
    at = visit(run=next((ROOT / "assets/demo-run/runs").iterdir()).name)
    labels = {button.label for button in at.button}
    assert not labels & {"Open this audit", "Skip the tour"} and at.get("plotly_chart")


def test_faults_are_shown_together_and_as_text():
    script = """
from engine.core.errors import Fault, RequestError
from pages.shared.frame import boundary
with boundary():
    first = Fault("prompts", "has no column *subgroup*.", "Add it.")
    raise RequestError([first, Fault("gamma", "1.2", "Less.")])
"""
    at = AppTest.from_string(script).run()
    assert [item.value.replace("\\", "") for item in at.error] == [
        "prompts: has no column *subgroup*. Add it.",
        "gamma: 1.2 Less.",
    ]
    assert r"\*subgroup\*" in at.error[0].value


def test_every_page_is_drawn_in_the_frame():
    for page in PAGES:
        body = ast.parse((ROOT / "pages" / f"{page}.py").read_text(encoding="utf-8")).body
        assert re.match(r"(frame\.)?draw_page\(", ast.unparse(body[-1])), page


def test_words_of_a_disabled_primary_button_are_not_written_in_the_colour_of_its_paper():
    """ "Measure on validation prompts" was an empty box where it could not be asked for."""
    style = (ROOT / "assets" / "style.css").read_text(encoding="utf-8")
    (rule,) = re.findall(r"^(button.*) \{ color: var\(--pa-on-primary\)", style, re.MULTILINE)
    assert all(":not(:disabled)" in one for one in re.split(r", (?=button)", rule))
