"""Every page, alone and through app.py: with a run, with an empty store, with a null bias, with hostile texts."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from tests.synthetic_image_run import make_image_run
from tests.synthetic_image_world import HOSTILE as HOSTILE_NAMES
from tests.synthetic_run import HOSTILE, make_run

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(path.stem for path in (ROOT / "pages").glob("[!_]*.py"))
READING = [page for page in PAGES if page != "library"]
RUN = "synthetic-run"
IMAGE_RUN, HOSTILE_RUN = "image-run", "hostile-run"
HEADS_ONLY = ("head_scores", "correlations", "reliability", "examples")
PUBLISHED = ROOT.parent / "shared" / "data" / "fasp_head_scores"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    make_run(folder, RUN)
    make_run(folder, "null-run", null_bias=True, title="Null run", created="2026-01-02T00:00:00+00:00")
    return folder


@pytest.fixture
def here(store, monkeypatch):
    return _use(store, monkeypatch)


def _use(folder, monkeypatch):
    from engine.store import runs
    from pages.shared import cache

    monkeypatch.setenv("PRUNEAUDIT_STORE", str(folder))
    monkeypatch.setattr(runs, "EMBEDDED", folder / "no-embedded-run")
    cache.runs.clear()
    return folder


@pytest.fixture(scope="module")
def images_store(tmp_path_factory):
    """Two image runs, one with hostile names, and one of heads."""
    folder = tmp_path_factory.mktemp("images")
    make_image_run(folder, IMAGE_RUN)
    more = {"images": 160, "speedups": (4.0, 16.0), "switches": False, "loss_share": False}
    title = "<script>alert('title')</script> **bold** [a link](javascript:alert(4))"
    make_image_run(folder, HOSTILE_RUN, hostile=True, title=title, created="2026-02-02T00:00:00+00:00", **more)
    make_run(folder, RUN)
    return folder


@pytest.fixture
def images(images_store, monkeypatch):
    return _use(images_store, monkeypatch)


def opened(page: str, run: str | None = RUN, **parameters: str) -> AppTest:
    at = AppTest.from_file(str(ROOT / "pages" / f"{page}.py"), default_timeout=60)
    for name, value in {**({"run": run} if run else {}), **parameters}.items():
        at.query_params[name] = value
    return at.run()


def html_of(at: AppTest) -> str:
    return "\n".join(element.proto.body for element in at.get("html"))


def words_of(at: AppTest) -> str:
    """Everything a person reads, except charts and tables."""
    plain = [item.value for kind in ("title", "subheader", "markdown", "caption", "text") for item in at.get(kind)]
    labels = [item.label for kind in ("selectbox", "button", "toggle", "select_slider") for item in at.get(kind)]
    return "\n".join([*plain, *labels, re.sub(r"<style>.*?</style>|<[^>]+>", " ", html_of(at), flags=re.S)])


def charts_of(at: AppTest) -> list[dict]:
    return [json.loads(chart.proto.spec) for chart in at.get("plotly_chart")]


def assert_calm(at: AppTest) -> None:
    assert [item.value for item in at.exception] == []
    assert [item.value for item in at.error] == []


@pytest.mark.parametrize("page", PAGES)
def test_page_alone(here, page):
    at = opened(page)
    assert_calm(at)
    assert len(at.title) == 1
    assert at.selectbox(key="run_picker").value == RUN


@pytest.mark.parametrize("page", PAGES)
def test_page_through_the_app(here, page):
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run()
    at.switch_page(f"pages/{page}.py").run()
    assert_calm(at)
    assert len(at.title) == 1
    assert len([box for box in at.selectbox if box.key == "run_picker"]) == 1, "the frame is drawn exactly once"


@pytest.mark.parametrize("page", PAGES)
def test_page_without_any_run(tmp_path, monkeypatch, page):
    _use(tmp_path, monkeypatch)
    at = opened(page, run=None)
    assert_calm(at)
    assert len(at.title) == 1
    assert list(tmp_path.iterdir()) == [], "reading creates nothing"
    if page in READING and page != "correlations":
        assert "there is none" in words_of(at)


@pytest.mark.parametrize("page", READING)
def test_null_bias_is_said(here, page):
    at = opened(page, run="null-run")
    assert_calm(at)
    if page in ("overview", "head_scores"):
        assert "null band" in words_of(at)
        assert "not supported" in words_of(at)


@pytest.mark.parametrize("page", PAGES)
def test_no_identifier_of_the_program_is_shown(here, page):
    shown = words_of(opened(page))
    found = set(re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", shown)) - {"from_pretrained"}
    assert found == set()


def test_the_slider_changes_answer_and_charts(here):
    at = opened("overview")
    slider = at.select_slider(key="sparsity")
    assert slider.options == ["0 %", "5 %", "10 %", "20 %"]
    first, charts = html_of(at), charts_of(at)
    slider.set_value(0.1).run()
    assert_calm(at)
    assert "3 of 32 heads" in html_of(at)
    assert html_of(at) != first
    assert charts_of(at) != charts


def test_four_numbers_with_intervals(here):
    cards = re.findall(r'<div class="pa-card".*?</div></div>', html_of(opened("overview")), flags=re.S)
    assert len(cards) == 4
    assert all("95 % interval" in card and "change" in card for card in cards)


def test_a_link_is_a_view(here):
    at = opened("overview", method="Bias only", axis="Religion", sparsity="5 %")
    assert_calm(at)
    assert at.selectbox(key="axis").value == "religion"
    assert at.selectbox(key="method").value == "bias_only"
    assert at.select_slider(key="sparsity").value == 0.05


def test_a_choice_survives_the_page(here):
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run()
    at.selectbox(key="axis").set_value("religion").run()
    at.select_slider(key="sparsity").set_value(0.05).run()
    at.switch_page("pages/library.py").run()
    at.switch_page("pages/head_scores.py").run()
    assert at.selectbox(key="axis").value == "religion"
    assert at.select_slider(key="sparsity").value == 0.05


def test_a_link_to_a_run_that_is_not_here(here):
    at = opened("overview", run="gone-run")
    assert_calm(at)
    assert "not here" in at.warning[0].value


def test_generated_text_comes_only_when_asked_and_escaped(here):
    at = opened("examples")
    shown = html_of(at)
    assert "pa-veil" in shown
    assert "everybody says" not in shown
    assert "lives by the sea" not in shown
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
    assert any("[a link]" in text for text in HOSTILE), "the hostile texts of the run changed: change this test"
    assert "[a link](javascript:alert(3))" in everything, "Markdown is shown as it was written"
    assert not any("javascript" in item.value for item in at.markdown)


def test_one_example_is_uncovered_alone(here):
    at = opened("examples")
    covered = html_of(at).count("pa-veil")
    next(item for item in at.toggle if item.key.startswith("show_0_")).set_value(True).run()
    assert html_of(at).count("pa-veil") == covered - 2


def test_examples_of_one_subgroup(here):
    at = opened("examples")
    at.selectbox(key="subgroup").set_value("female").run()
    assert_calm(at)
    tags = re.findall(r'<span class="pa-tag">(\w+), seed', html_of(at))
    assert tags
    assert set(tags) == {"Female"}


def test_choose_a_head(here):
    at = opened("head_scores", head="Layer 0, head 5")
    assert_calm(at)
    assert at.selectbox(key="head").value == 5
    assert any("0.19" in str(table.value.to_dict()) for table in at.dataframe)


def test_choose_a_variant(here):
    at = opened("pareto")
    at.selectbox(key="variant").set_value("magnitude-s0.20").run()
    assert_calm(at)
    assert "6 of 32 heads" in words_of(at)


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published head scores are not on this machine")
def test_published_scores_need_no_run_and_no_model(tmp_path, monkeypatch):
    _use(tmp_path, monkeypatch)
    at = opened("correlations", run=None, source="Published scores (CSV)")
    assert_calm(at)
    at.text_input(key="published_folder").set_value(str(PUBLISHED)).run()
    assert_calm(at)
    assert len(charts_of(at)) >= 2
    assert "136" in words_of(at), "of GPT-2's strongest heads, 136 is in all five axes"


def test_a_path_without_scores_is_said(here):
    at = opened("correlations", source="Published scores (CSV)")
    at.text_input(key="published_folder").set_value("/nonexistent/*x*").run()
    assert "is no CSV file" in at.error[0].value
    assert [item.value for item in at.exception] == []


def test_validation_shows_every_gamma(here):
    at = opened("pareto", split="Validation prompts (every γ tried)")
    assert_calm(at)
    assert len(at.selectbox(key="variant").options) > len(opened("pareto").selectbox(key="variant").options)


def test_charts_cannot_be_uploaded(here):
    configs = [json.loads(chart.proto.config) for chart in opened("overview").get("plotly_chart")]
    assert configs
    assert all(config["showSendToCloud"] is False and config["plotlyServerURL"] == "" for config in configs)


def test_an_unexpected_failure_shows_no_traceback(here, monkeypatch):
    from engine.export.panels import who_pays
    from pages.shared import cache

    def broken(run, choice):
        raise ValueError("secret detail /home/me")

    cache.memory.clear()
    monkeypatch.setattr(who_pays, "who_pays", broken)
    at = opened("overview")
    assert [item.value for item in at.exception] == []
    assert "could not be drawn" in at.error[0].value
    assert "secret" not in at.error[0].value


def test_faults_are_shown_together_and_as_text():
    script = """
from engine.errors import Fault, RequestError
from pages.shared.frame import boundary
with boundary():
    raise RequestError([Fault("prompts", "has no column *subgroup*.", "Add it."), Fault("gamma", "1.2", "Less.")])
"""
    at = AppTest.from_string(script).run()
    assert [item.value.replace("\\", "") for item in at.error] == [
        "prompts: has no column *subgroup*. Add it.",
        "gamma: 1.2 Less.",
    ]
    assert r"\*subgroup\*" in at.error[0].value


def test_a_wrong_request_lists_every_fault(tmp_path, monkeypatch):
    from engine.errors import RequestError
    from pages.shared import jobs

    monkeypatch.setenv("PRUNEAUDIT_STORE", str(tmp_path / "store"))
    request = {"model": str(tmp_path / "missing"), "axes": ["religion"], "methods": ["fasp", "magic"], "corpus": ""}
    with pytest.raises(RequestError) as caught:
        jobs.start({**request, "prompts": str(tmp_path / "none.csv"), "sparsities": [0.5], "gamma": 0.9})
    told = str(caught.value)
    for part in ("corpus", "missing", "magic", "none.csv", "gamma"):
        assert part in told
    assert not (tmp_path / "store").exists(), "nothing is written for a wrong request"


def test_uploads_stay_in_the_store(tmp_path, monkeypatch):
    from pages.shared import uploads

    monkeypatch.setenv("PRUNEAUDIT_STORE", str(tmp_path))

    class Upload:
        name = "../../etc/pass wd.csv"

        def getvalue(self):
            return b"prompt,axis,subgroup\n"

    path = uploads.kept(Upload())
    assert path.resolve().is_relative_to(tmp_path / "uploads")
    assert path.read_bytes() == b"prompt,axis,subgroup\n"
    assert path == uploads.kept(Upload())


def test_pages_import_no_torch():
    code = "import sys, pages.shared.jobs, pages.shared.request_form, pages.shared.panels, pages.shared.uploads\n"
    for page in PAGES:
        code += f"import pages.{page}\n"
    code += "print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    environment = {**os.environ, "PRUNEAUDIT_STORE": "/nonexistent"}
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=environment)
    assert ended.stdout.strip().splitlines()[-1] == "[]", ended.stderr[-2000:]


def test_one_file_names_session_keys_and_one_caches():
    for path in [ROOT / "app.py", *(ROOT / "pages").rglob("*.py")]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert "session_state" not in used or path.name == "state.py", path
        assert not used & {"cache_data", "cache_resource"} or path.name == "cache.py", path
        literal = [
            word.value.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            for word in node.keywords
            if word.arg == "key" and isinstance(word.value, ast.Constant) and isinstance(word.value.value, str)
        ]
        assert not literal or path.name == "state.py", (path, literal)


def test_every_page_begins_with_the_frame():
    for page in PAGES:
        body = ast.parse((ROOT / "pages" / f"{page}.py").read_text(encoding="utf-8")).body
        calls = [node for node in body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)]
        assert calls, page
        assert calls[0].value.func.id == "begin_app", page


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("run", [IMAGE_RUN, HOSTILE_RUN])
def test_page_of_an_image_run_alone(images, page, run):
    at = opened(page, run=run)
    assert_calm(at)
    assert len(at.title) == 1
    html = html_of(at)
    for name in HOSTILE_NAMES.values():
        assert not any(name in item.value for kind in ("markdown", "caption", "subheader") for item in at.get(kind))
    markup = [name for name in HOSTILE_NAMES.values() if "<" in name]
    assert not any(name in html for name in markup), "names of users are escaped"
    assert "<script" not in html and "\u202e" not in html
    for chart in charts_of(at):
        assert not any(name in json.dumps(chart, ensure_ascii=False) for name in markup)


@pytest.mark.parametrize("page", PAGES)
def test_page_of_an_image_run_through_the_app(images, page):
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    at.query_params["run"] = IMAGE_RUN
    at.run()
    at.switch_page(f"pages/{page}.py").run()
    assert_calm(at)
    assert len(at.title) == 1
    assert at.selectbox(key="run_picker").value == IMAGE_RUN


@pytest.mark.parametrize("page", ["overview", "filters", "pareto", "export", "compare"])
def test_no_identifier_is_shown_of_an_image_run(images, page):
    found = set(re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", words_of(opened(page, run=IMAGE_RUN))))
    assert found == set()


@pytest.mark.parametrize("page", HEADS_ONLY)
def test_pages_about_heads_say_so_kindly_to_an_image_run(images, page):
    at = opened(page, run=IMAGE_RUN)
    assert "This page is about attention heads of a language model" in words_of(at)
    assert "filters of an image classifier" in words_of(at)
    assert charts_of(at) == []


def test_the_page_about_filters_says_so_kindly_to_a_run_of_heads(images):
    at = opened("filters", run=RUN)
    assert_calm(at)
    assert "This page is about filters of an image classifier" in words_of(at)


def test_published_scores_do_not_need_a_run_of_heads(images):
    at = opened("correlations", run=IMAGE_RUN, source="Published scores (CSV)")
    assert_calm(at)
    assert "Or a folder or file" in "".join(item.label for item in at.text_input)


def test_the_speedup_slider_is_a_view(images):
    at = opened("overview", run=IMAGE_RUN, speedup="16\u00d7", method="Taylor", axis="Skin")
    assert_calm(at)
    slider = at.select_slider(key="speedup")
    assert slider.options == ["1\u00d7", "2\u00d7", "4\u00d7", "8\u00d7", "16\u00d7"]
    assert (
        slider.value == 16.0
        and at.selectbox(key="method").value == "taylor"
        and at.selectbox(key="axis").value == "skin"
    )
    first = html_of(at)
    assert "predicts one class for every image" in first, "the degenerate trial is warned of"
    slider.set_value(2.0).run()
    assert_calm(at)
    assert html_of(at) != first and "predicts one class for every image" not in html_of(at)
    slider.set_value(1.0).run()
    assert_calm(at)
    assert "Uncut, the model" in html_of(at)


def test_switching_between_kinds_of_audit_keeps_calm(images):
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    at.query_params["run"] = RUN
    at.run()
    at.selectbox(key="axis").set_value("religion").run()
    for run in (IMAGE_RUN, RUN, IMAGE_RUN):
        at.selectbox(key="run_picker").set_value(run).run()
        assert_calm(at)
        assert ("speedup" if run == IMAGE_RUN else "sparsity") in [slider.key for slider in at.select_slider]
        assert len(re.findall('class="pa-card"', html_of(at))) == 4


def test_every_chart_of_the_filters_page_is_there_and_can_be_read_by_accuracy(images):
    at = opened("filters", run=IMAGE_RUN, method="AutoBot", speedup="16\u00d7")
    assert len(charts_of(at)) == 3 + 7, "three methods; PW, layers twice, scores, changes, speed, cost"
    shown = words_of(at)
    questions = ["Which subgroup of gender pays", "Does the PW loss help", "Which part of the PW loss helps"]
    questions += ["Whom does the PW loss", "How much of each layer", "Which layers go first", "Which filters does"]
    questions += ["have images that change class", "Which images are these", "Does the promised speedup"]
    for question in questions:
        assert question in shown, question
    assert "the PW loss helps it here" in html_of(at)
    accuracy = opened("filters", run=IMAGE_RUN, method="AutoBot", speedup="16\u00d7", reading="Accuracy")
    assert_calm(accuracy)
    assert "Change of accuracy at 16\u00d7" in html_of(accuracy)


def test_the_gallery_shows_pictures_safely_and_by_subgroup(images):
    at = opened("filters", run=IMAGE_RUN, speedup="16\u00d7")
    html = html_of(at)
    pictures = re.findall(r"<img [^>]*>", html)
    assert 0 < len(pictures) <= 48
    assert all(re.fullmatch(r'<img src="data:image/png;base64,[A-Za-z0-9+/=]+" alt="Test image" loading="lazy">', one)
               for one in pictures)  # fmt: skip
    at.selectbox(key="changed_group").set_value("male").run()
    assert_calm(at)
    assert len(re.findall('class="pa-shot"', html_of(at))) < len(re.findall('class="pa-shot"', html))
    at.selectbox(key="trial").set_value(2).run()
    assert_calm(at)
    assert "trial 2, cuts" in html_of(at)


def test_what_is_no_picture_is_not_shown_as_one():
    script = """
from pages.shared import safe
shots = [safe.Shot(b"<svg onload=alert(1)>", "<b>t</b>", ("a",)), safe.Shot(None, "u", ()),
         safe.Shot(safe.PNG + b"0" * 300_000, "v", ())]
safe.gallery(shots)
"""
    html = html_of(AppTest.from_string(script).run())
    assert "<img" not in html and "<svg" not in html and "<b>" not in html and html.count("no picture kept") == 3


def test_only_audits_of_one_kind_are_compared(images):
    at = opened("compare", run=IMAGE_RUN)
    assert at.multiselect[0].options == [option for option in at.multiselect[0].options if "script" in option]
    assert "Does the same cut do the same to the AUC gap" in words_of(at)


def test_the_trial_whose_mask_is_taken_can_be_chosen(images):
    at = opened("export", run=IMAGE_RUN, method="Taylor + PW", speedup="16\u00d7")
    assert_calm(at)
    picker = at.selectbox(key="taken")
    assert picker.options == [f"Taylor + PW, 16\u00d7, trial {trial}" for trial in range(3)]
    assert not [item for item in at.toggle if item.key == "export_texts"], "an image run holds no texts"
    assert "16_2" in at.selectbox(key="taken").set_value("taylor+pw-16x#2").run().code[0].value.replace("x", "")


def test_every_trial_is_a_point_on_demand(images):
    at = opened("pareto", run=IMAGE_RUN, split="Every trial")
    assert_calm(at)
    assert len(at.selectbox(key="variant").options) == 1 + 24 * 4
    at.selectbox(key="variant").set_value("taylor-16x#2").run()
    assert_calm(at)
    assert "of 112 filters" in words_of(at)


def test_the_library_says_what_each_audit_is_about(images):
    shown = words_of(opened("library", run=IMAGE_RUN))
    assert "Filters of an image classifier" in shown and "Attention heads of a language model" in shown
    assert "Image classifiers" in shown and "Language models" in shown
