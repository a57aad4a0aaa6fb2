"""Every page, alone and through app.py: with a run, with an empty store, with hostile texts."""

import json
import re
from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from engine.core.errors import refusal
from engine.report import phrasing, story
from engine.report.charts import lookup
from engine.report.contents import default_choice
from engine.report.tracks import track_of
from engine.store.runs import Store
from engine.store.sealed import write_document
from engine.tracks.language_models.examples import pairs
from pages.shared import cache, jobs
from pages.shared.safe import escaped
from tests.pages.checks import (
    PAGES,
    ROOT,
    assert_calm,
    charts_of,
    html_of,
    opened,
    use_store,
    words_of,
)
from tests.tracks.language_models.made_up_run import HOSTILE, make_run

READING = [page for page in PAGES if page not in ("audits", "new_audit", "jobs", "models")]
RUN, OTHER = "synthetic-run", "other-run"
PUBLISHED = ROOT.parent / "shared" / "data" / "fasp_head_scores"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    make_run(folder, RUN)
    make_run(folder, OTHER, title="Other run", created="2026-01-02T00:00:00+00:00")
    return folder


@pytest.fixture(autouse=True)
def here(store, monkeypatch):
    return use_store(store, monkeypatch)


@pytest.mark.parametrize("page", PAGES)
def test_page_without_any_run(tmp_path, monkeypatch, page):
    use_store(tmp_path, monkeypatch)
    at = opened(page, run=None)
    assert_calm(at)
    assert len(at.title) == 1
    assert list(tmp_path.iterdir()) == [], "reading creates nothing"
    if page in READING:
        assert "there is none" in words_of(at)


def test_a_summary_says_what_was_audited_the_verdict_and_three_numbers():
    at = opened("summary", RUN)
    cards = re.findall(r'<div class="pa-card".*?</div></div>', html_of(at), flags=re.S)
    assert len(cards) == 3
    assert all("was 0." in card for card in cards)
    audited, verdict, meaning = (
        re.search(f'class="{name}">(.*?)</p>', html_of(at))[1]
        for name in ("pa-audited", "pa-lead", "pa-answer")
    )
    assert audited == "synthetic-gpt2, 0.8 million parameters; four invented genders"
    assert verdict.startswith("Cutting 6 of 32 heads") and "95" not in verdict + meaning


def test_a_choice_survives_the_page():
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    at.query_params["run"] = RUN
    at.run()
    at.selectbox(key="axis").set_value("religion").run()
    at.select_slider(key="sparsity").set_value(0.05).run()
    at.switch_page("pages/audits.py").run()
    at.switch_page("pages/heads.py").run()
    assert at.selectbox(key="axis").value == "religion"
    assert at.select_slider(key="sparsity").value == 0.05


def test_a_link_to_a_run_that_is_not_here():
    at = opened("summary", run="gone-run")
    assert_calm(at)
    assert "not here" in at.warning[0].value


def test_generated_text_comes_only_when_asked_and_escaped():
    at = opened("examples", RUN)
    shown = html_of(at)
    assert "pa-veil" in shown
    assert "everybody says" not in shown
    assert "lives by the sea" not in shown
    at.selectbox(key="order").set_value("less").run()
    everything = ""
    for number in range(1, at.selectbox(key="page").options.__len__() + 1):
        at.selectbox(key="page").set_value(number)
        at.toggle(key="show_all_texts").set_value(True).run()
        everything += html_of(at)
    assert "lives by the sea" in everything
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in everything
    assert "<script" not in everything
    assert "<img" not in everything
    assert "\u202e" not in everything
    assert any("[a link]" in text for text in HOSTILE), (
        "the hostile texts of the run changed: change this test"
    )
    assert "[a link](javascript:alert(3))" in everything, "Markdown is shown as it was written"
    assert not any("javascript" in item.value for item in at.markdown)


@pytest.mark.parametrize("order", ["What flipped", "Biggest rises and falls"])
def test_examples_show_both_sides_each_with_its_count(order, here):
    """Those that flipped come first: two clicks from the summary to those of a group."""
    at, found = opened("examples", RUN, order=order), pairs_here(here)
    if order == "What flipped":
        assert opened("examples", RUN).selectbox(key="order").value == "flipped"
        group = found.loc[found["flipped"], "subgroup"].iat[0]
        at.selectbox(key="subgroup").set_value(group).run()
        found = found[found["subgroup"] == group]
        assert set(re.findall(r'<span class="pa-tag">(\w+), seed', html_of(at))) == {group.title()}
    mine = found[found["flipped"]] if order == "What flipped" else found
    rose, fell = mine[mine["change"] > 0], mine[mine["change"] < 0]
    said, html = words_of(at), html_of(at)
    for side in (rose, fell):
        assert f"{len(side) or 'None'} of {phrasing.count(len(found), 'pair')}." in said
    for top in (rose.nlargest(1, "change"), fell.nsmallest(1, "change")):
        assert top.empty or phrasing.signed(top["change"].iat[0]) in html
    assert html.count('class="pa-veil"') == 2 * (min(5, len(rose)) + min(5, len(fell))) > 0


def pairs_here(store):
    """Pairs of texts of the choice that readers start with."""
    run = Store(store).open(RUN)
    choice = default_choice(run)
    return pairs(run, lookup.variant_of(run, choice)["variant"], choice.axis)


def test_examples_are_searched_and_the_first_other_word_is_marked(here):
    at, found = opened("examples", RUN, order="Toxicity rose most"), pairs_here(here)
    sea = found[["prompt", "text_dense", "text_pruned"]].map(lambda text: "by the sea" in text)
    at.text_input(key="search").set_value("BY THE SEA")
    at.toggle(key="show_all_texts").set_value(True).run()
    assert_calm(at)
    html, wanted = html_of(at), min(10, int(sea.any(axis=1).sum()))
    assert html.count('class="pa-generated"') == 2 * wanted > 0
    assert html.count("by the sea") >= wanted
    at.text_input(key="search").set_value("").run()
    shown = found.nlargest(10, "change")
    differ = int((shown["text_dense"] != shown["text_pruned"]).sum())
    assert html_of(at).count('<mark class="pa-mark">') == 2 * differ > 0
    at.text_input(key="search").set_value("nobody wrote this").run()
    assert_calm(at)
    assert "No pair of texts fits this choice." in at.info[0].value


@pytest.mark.parametrize(("named", "head"), [("5", 5), ("Layer 0, head 5", 5), ("99", 0)], ids=str)
def test_a_link_names_a_head_and_one_that_is_none_is_passed_over(named, head):
    at = opened("heads", RUN, head=named, tab="one_head")
    assert_calm(at)
    assert at.selectbox(key="head").value == head and at.query_params["head"] == str(head)
    assert f"What does layer 0, head {head} do?" in words_of(at)
    assert not head or any("0.19" in str(table.value.to_dict()) for table in at.dataframe)


def test_from_head_to_head_by_rank():
    at = opened("heads", RUN, head="5")
    shown = words_of(at)
    at.button(key="head_next").click().run()
    assert_calm(at)
    there = at.selectbox(key="head").value
    assert there != 5 and at.query_params["head"] == str(there) and words_of(at) != shown
    at.button(key="head_previous").click().run()
    assert at.selectbox(key="head").value == 5
    at.selectbox(key="head").set_value(
        there
    )  # and before that is drawn, the key of the head before it
    at.button(key="head_previous").click().run()
    assert at.selectbox(key="head").value == 5


def test_maps_open_on_the_first_head_by_rank_and_a_point_on_the_chosen_variant(here):
    run = Store(here).open(RUN)
    choice = default_choice(run)
    at = opened("heads", RUN)
    assert at.selectbox(key="head").value == track_of(run).maps.ranked(run, choice)[0]
    at = opened("trade_off", RUN)
    assert at.selectbox(key="variant").value == lookup.variant_of(run, choice)["variant"]
    at.select_slider(key="sparsity").set_value(0.05).run()
    wanted = lookup.variant_of(run, replace(choice, level=0.05))["variant"]
    assert at.selectbox(key="variant").value == wanted
    at.selectbox(key="variant").set_value("magnitude-s0.200").run()
    assert_calm(at)
    assert "6 of 32 heads" in words_of(at)


def test_texts_without_a_head_come_only_when_asked(here):
    variants = Store(here).open(RUN).table("variants").set_index("variant")
    cut = json.loads(variants.loc["fasp-gender_and_sex-g0.30-s0.200", "cut"])[0]
    at, veil = opened("heads", RUN, head=str(cut), tab="one_head"), 'class="pa-veil"'
    assert html_of(at).count(veil) == 4
    at.toggle(key="show_changed_texts").set_value(True).run()
    assert_calm(at)
    assert veil not in html_of(at)
    assert "<script" not in html_of(at) and "<img" not in html_of(at)


@pytest.mark.skipif(
    not PUBLISHED.is_dir(), reason="the published head scores are not on this machine"
)
def test_published_scores_need_no_run_and_no_model(tmp_path, monkeypatch):
    use_store(tmp_path, monkeypatch)
    monkeypatch.setenv("PRUNEAUDIT_ROOTS", str(PUBLISHED))
    at = opened("heads", run=None, source="Published scores")
    at.text_input(key="published_folder").set_value(str(PUBLISHED)).run()
    assert_calm(at)
    assert len(charts_of(at)) >= 2
    assert "136" in words_of(at), "of GPT-2's strongest heads, 136 is in all five axes"


def test_a_path_without_scores_is_said(monkeypatch):
    monkeypatch.setenv("PRUNEAUDIT_ROOTS", "/nonexistent")
    at = opened("heads", RUN, source="Published scores")
    at.text_input(key="published_folder").set_value("/nonexistent/*x*").run()
    assert "is no file" in at.error[0].value
    assert [item.value for item in at.exception] == []


def test_validation_shows_every_gamma():
    at = opened("trade_off", RUN, split="Validation prompts (every γ tried)")
    assert_calm(at)
    assert len(at.selectbox(key="variant").options) > len(
        opened("trade_off", RUN).selectbox(key="variant").options
    )


def test_charts_cannot_be_uploaded():
    configs = [
        json.loads(chart.proto.config) for chart in opened("summary", RUN).get("plotly_chart")
    ]
    assert configs
    assert all(
        config["showSendToCloud"] is False and config["plotlyServerURL"] == "" for config in configs
    )


def test_an_unexpected_failure_shows_no_traceback(monkeypatch):
    from engine.report.tracks import tracks

    def broken(run, choice):
        raise ValueError("secret detail /home/me")

    cache.MEMORY.clear()
    known = tracks()["language_models"]
    charts = replace(known.charts, groups=broken)
    monkeypatch.setitem(tracks(), known.name, replace(known, charts=charts, of_run=None))
    at = opened("summary", RUN)
    assert not at.exception and "could not be drawn" in at.error[0].value
    assert "secret" not in at.error[0].value


def test_the_export_page_offers_scores_for_the_published_code():
    at = opened("export", RUN)
    (button,) = [
        one for one in at.get("download_button") if "head_contributions.json" in one.proto.label
    ]
    assert not button.proto.disabled and "Head scores for FASP" in words_of(at)


def gallery_of(run: str | None = RUN) -> AppTest:
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    if run:
        at.query_params["run"] = run
    at.run()
    return at.button(key="switch_audit").click().run()


def test_the_gallery_has_a_card_per_audit_with_one_finding_and_opens_it():
    at = gallery_of()
    assert_calm(at)
    assert at.button(key=f"choose_{RUN}").disabled and not at.button(key=f"choose_{OTHER}").disabled
    shown = html_of(at)
    for run_id in (RUN, OTHER):
        run = cache.open_run(run_id)
        assert escaped(story.in_short(run, default_choice(run))) in shown
    assert shown.count('class="pa-found"') == 2
    at.button(key=f"choose_{OTHER}").click().run()
    assert_calm(at)
    assert at.query_params["run"] == OTHER and "Other run" not in at.title[0].value


def test_a_model_without_an_audit_gets_a_quick_one_by_its_name(here, monkeypatch):
    models = {"models": [{"name": "/models/*mine*"}, {"name": "synthetic-gpt2"}]}
    write_document(here / "recent_models.json", models, 1)
    asked = []

    def start(request, faults=()):
        asked.append(request)
        raise refusal("model", "'*mine*' is no folder.", "Name one.")

    monkeypatch.setattr(jobs, "start", start)
    at = gallery_of()
    (here / "recent_models.json").unlink()
    picker = at.selectbox(key="quick_language_models")
    assert "/models/*mine*" in picker.options and "synthetic-gpt2" not in picker.options
    picker.set_value("/models/*mine*")
    at.button(key="quick_start_language_models").click().run()
    assert at.title[0].value == opened("new_audit", RUN).title[0].value
    assert r"\*mine\*" in at.error[0].value
    assert [request["model"] for request in asked] == ["/models/*mine*"]


def test_without_any_audit_the_gallery_still_offers_a_model(tmp_path, monkeypatch):
    use_store(tmp_path, monkeypatch)
    at = gallery_of(None)
    assert_calm(at)
    assert "No finished audit yet" in words_of(at)
    assert at.selectbox(key="quick_language_models").options[0] == "demo-gpt2"


@pytest.mark.parametrize(("asked", "shown"), [("0%", 0.0), ("0.1", 0.1), ("20", 0.2)])
def test_a_level_in_a_link_is_read_however_it_is_spelled(asked, shown):
    at = opened("trade_off", RUN, sparsity=asked)
    assert_calm(at)
    assert at.select_slider(key="sparsity").value == shown and "The link asks" not in words_of(at)


def test_a_link_to_what_is_not_here_is_said_until_something_else_is_picked():
    at = opened("trade_off", RUN, axis="Weather", method="scissors <b>")
    assert_calm(at)
    told = [item.value.replace("\\", "") for item in at.caption]
    for asked in ("Weather", "scissors <b>"):
        assert f"The link asks for {asked}, which is not here; this is shown instead." in told
    other = at.selectbox(key="axis").options[1]
    at.selectbox(key="axis").select(other).run()
    assert "asks for Weather" not in words_of(at)


@pytest.mark.parametrize(("asked", "shown"), [("14%", 0.125), ("much <b>", 0.2)])
def test_a_level_in_a_link_that_is_no_step_is_said(asked, shown):
    at = opened("heads", RUN, sparsity=asked)
    assert_calm(at)
    told = [item.value.replace("\\", "") for item in at.caption]
    assert [one for one in told if "which is no step here" in one] == [
        f"The link asks for {asked}, which is no step here; this is the nearest."
    ]
    assert shown != 0.125 or "12.5 % is not measured: this page shows 10 %." in told
    assert at.select_slider(key="sparsity").value == shown
    at.select_slider(key="sparsity").set_value(0.05).run()
    assert "no step" not in words_of(at)


def of_texts():
    import pandas as pd

    from pages.tabs import texts

    found = pd.DataFrame({"subgroup": ["(all)", "female"], "change": [0.1, -0.2]})
    texts._filters(found.assign(flipped=True))


def test_a_subgroup_of_any_name_is_no_choice_of_all_subgroups():
    at = AppTest.from_function(of_texts).run()
    assert not at.exception
    assert at.selectbox[0].options == ["All subgroups", "(all)", "Female"]
