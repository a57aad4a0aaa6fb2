"""The form of a new audit, whatever the track: what is typed is what is asked, faults in the form's
own words."""

import pytest
from streamlit.testing.v1 import AppTest

from engine.audit.fields import HOW, WHAT, fields_of
from engine.audit.tracks import request_from, tracks
from engine.core.errors import Fault, RequestError
from pages.shared import form, jobs, state
from tests.pages.checks import ROOT, assert_calm, click, html_of, opened, use_store, words_of
from tests.pages.forms import asked, drawn, key, refused

USUAL = (
    "integer",
    "number",
    "numbers",
    "choice",
    "flag",
    "pairs",
    "settings",
    "settings per method",
)
"""Kinds of fields that the form starts as the command line does."""
FIRST = next(iter(tracks()))
FIELDS = [(name, field) for name in tracks() for field in fields_of(tracks()[name].part("request"))]
OF_SHARES = [name for name, field in FIELDS if field.name == "sparsities"]
"""Tracks that ask for shares of what is cut."""
SHARES = OF_SHARES[0]
FOLDED, INSIDE = next(
    (name, field)
    for name, field in FIELDS
    if field.section not in ("", WHAT, HOW) and not field.shown and field.label
)
HIDDEN = [
    (name, field)
    for name, field in FIELDS
    if field.section and field.shown and field.label and field.kind == "names" and field.commas
]


@pytest.mark.parametrize("track", tracks())
def test_the_form_asks_what_is_declared_as_it_is_without_words(track, monkeypatch, tmp_path):
    """Every field that has a section and nothing else. What is left as it is is what the request
    has without words, but for what the form starts with and the command line does not: names and
    lists of methods. No field has a limit, which would keep the last number instead."""
    at = drawn(track, monkeypatch, tmp_path)
    found, fields = asked(at), fields_of(tracks()[track].part("request"))
    request = found["request"]
    declared = {field.name for field in fields if field.section}
    hidden = {field.name for field in fields if field.shown}
    assert declared - hidden <= set(request) - {"track"} <= declared and found["faults"] == []
    assert request_from(request).track == track
    for field in fields:
        if field.kind in USUAL and field.name in request:
            usual = list(field.default) if isinstance(field.default, tuple) else field.default
            assert request[field.name] == usual, field.name
    for toggle in [item for item in at.toggle if item.label == "Fit the dense model first"]:
        at = toggle.set_value(True).run()
    numbers = at.number_input
    assert len(numbers) > 5 and {(item.min, item.max) for item in numbers} == {(None, None)}


def test_the_choice_of_what_is_cut_lists_the_tracks(monkeypatch, tmp_path):
    use_store(tmp_path, monkeypatch)
    at = opened("new_audit", run=None)
    assert_calm(at)
    control = at.get("button_group")[0]
    assert [option.content for option in control.proto.options] == [
        track.about for track in tracks().values()
    ]


@pytest.mark.parametrize("track", OF_SHARES)
def test_shares_are_asked_in_percent_and_what_is_none_is_told(track, monkeypatch, tmp_path):
    at = drawn(track, monkeypatch, tmp_path)
    at.text_input(key=key(track, "sparsities")).set_value("0; 12.5 %, 150, many")
    found = asked(at.run())
    assert found["request"]["sparsities"] == [0.0, 0.125, 1.5]
    said = refused(found["request"])
    assert any(text.startswith("Sparsities: 150 % is not allowed. Give shares") for text in said)
    assert found["faults"][0].startswith(
        "Sparsities: 'many' is not a number. Write percentages such as "
    )


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            Fault(
                "sparsity",
                "1.5 is not allowed.",
                "Give numbers from 0 to below 1, such as 0.05,0.1,0.2.",
            ),
            (
                "Sparsities: 150 % is not allowed. Give shares from 0 % to below 100 %, such as 5"
                " %, 10 %, 20 %."
            ),
        ),
        (
            Fault("sparsity", "1e-05 is too small to tell from 0.", "Give at least 0.0005."),
            "Sparsities: 0.001 % is too small to tell from 0 %. Give at least 0.05 %.",
        ),
        (
            Fault("setting of pf, mask_rate", "-1.0 is not allowed.", "Give a number."),
            "setting of pf, mask rate: -1.0 is not allowed. Give a number.",
        ),
    ],
)
def test_faults_in_the_words_of_the_forms(fault, said):
    assert str(jobs.in_the_forms_words(fault, SHARES)) == said


@pytest.mark.parametrize("track", list(tracks())[::2])
def test_what_stands_in_the_form_is_there_after_a_look_at_another_page(
    track, monkeypatch, tmp_path
):
    use_store(tmp_path, monkeypatch)
    at = (
        AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
        .run()
        .switch_page("pages/new_audit.py")
        .run()
    )
    if track != next(iter(tracks())):
        next(one for one in at.get("button_group") if one.key == "new_track").set_value(track).run()
    typed = {
        one.key: f"0.5{at_}"
        for at_, one in enumerate(at.text_input)
        if str(one.key).startswith(f"new_{track}")
    }
    for item in at.text_input:
        if item.key in typed:
            item.set_value(typed[item.key])
    at.run()
    for page in ("audits", "new_audit"):
        at = at.switch_page(f"pages/{page}.py").run()
        assert not at.exception
    assert typed and {item.key: item.value for item in at.text_input if item.key in typed} == typed


# What the check of a form finds wrong: beside the field, in its name, gone once it changes; what
# was typed stays.


@pytest.fixture
def refused_form(monkeypatch, tmp_path):
    """The form after a check that found something wrong with the sparsities and with the store."""
    use_store(tmp_path, monkeypatch)

    def refuse(what):
        raise RequestError(
            [
                Fault(
                    "sparsity", "<b>1.5</b> is not allowed.", "Give numbers above 0 and below 1."
                ),
                Fault("store", "cannot be written.", ""),
            ]
        )

    monkeypatch.setattr(jobs, "_ask", refuse)
    at = opened("new_audit", run=None)
    if SHARES != FIRST:
        at.get("button_group")[0].set_value([SHARES]).run()
    at.text_input(key=key(SHARES, "sparsities")).set_value("150").run()
    return click(at, "Check and start")


def test_a_fault_stands_beside_its_field_and_what_was_typed_stays(refused_form):
    assert at_text(refused_form) == "150"
    assert (
        "<strong>Sparsities</strong><p>&lt;b&gt;150 %&lt;/b&gt; is not allowed. Give shares above 0"
        " % and" in (html_of(refused_form).replace("\xa0", " "))
    )
    first, second = errors_of(refused_form)
    assert first.startswith("1 field needs another value: Sparsities") and second.startswith(
        "store: cannot be written"
    )


def test_a_fault_is_gone_once_its_field_says_something_else(refused_form):
    refused_form.text_input(key=key(SHARES, "sparsities")).set_value("15").run()
    assert "pa-fault" not in html_of(refused_form).split("</style>")[-1]
    assert errors_of(refused_form) == ["store: cannot be written."]


def test_a_fold_is_open_that_has_a_fault_inside(monkeypatch, tmp_path):
    at = drawn(FOLDED, monkeypatch, tmp_path)
    assert not any(fold.proto.expanded for fold in at.expander)
    wrong = Fault(INSIDE.called, "is wrong.", "")
    at.session_state["kept_refused"] = (
        {**asked(at)["request"], "track": FOLDED},
        [(INSIDE.name, wrong)],
    )
    assert [fold.label for fold in at.run().expander if fold.proto.expanded] == [INSIDE.section]


@pytest.mark.parametrize(("track", "field"), HIDDEN, ids=lambda one: getattr(one, "name", one))
def test_a_field_with_a_fault_is_shown_where_it_was_not_asked_for(
    track, field, monkeypatch, tmp_path
):
    """Own texts for an embedded classifier: the fault named a field that the form did not have."""
    at = drawn(track, monkeypatch, tmp_path)
    name = key(track, field.name)
    before = asked(at)["request"]
    assert name not in {one.key for one in at.text_input}
    wrong = Fault(field.called, "is not known.", "Give it.")
    at.session_state["kept_refused"] = ({**before, "track": track}, [(field.name, wrong)])
    assert "is not known. Give it." in html_of(at.run())
    at.text_input(key=name).set_value("good, bad").run()
    assert "is not known. Give it." not in html_of(at)
    assert asked(at)["request"][field.name] == ["good", "bad"]


def errors_of(at):
    return [item.value.replace("\\", "") for item in at.error]


def at_text(at):
    return at.text_input(key=key(SHARES, "sparsities")).value


@pytest.mark.parametrize("track", tracks())
def test_the_quick_preset_asks_for_less_and_full_for_what_is_usual(track, monkeypatch, tmp_path):
    at = drawn(track, monkeypatch, tmp_path)
    full = asked(at)["request"]
    at.session_state[key(track, "preset")] = "Quick"
    quick = asked(at.run())["request"]
    declared = {
        field.name: list(field.quick) if isinstance(field.quick, tuple) else field.quick
        for name, field in FIELDS
        if name == track and field.quick is not None
    }
    assert declared and {name: quick[name] for name in declared} == declared
    assert {name for name in full if full[name] != quick[name]} == set(declared)
    request_from(quick)
    at.session_state[key(track, "preset")] = "Full"
    assert asked(at.run())["request"] == full


def test_the_sentence_counts_what_is_asked(monkeypatch, tmp_path):
    request = asked(drawn(SHARES, monkeypatch, tmp_path))["request"]
    said = form.amount(SHARES, {**request, "sparsities": [0.1]})
    assert "1 sparsity" in said and said != form.amount(
        SHARES, {**request, "sparsities": [0.1, 0.2]}
    )
    assert (
        "This asks for"
        f" {form.amount(FIRST, asked(drawn(FIRST, monkeypatch, tmp_path))['request'])} of"
        in (words_of(opened("new_audit", run=None)))
    )


@pytest.mark.parametrize("track", list(tracks())[:2])
def test_a_cluster_where_nothing_listens_starts_nothing_and_is_said(track, monkeypatch, tmp_path):
    def check(request, store, faults):
        assert request.track == track
        raise RequestError(faults)

    use_store(tmp_path, monkeypatch)
    monkeypatch.setattr("engine.audit.jobs.check", check)  # the request holds up
    at = opened("new_audit", run=None)
    if track != FIRST:
        at.get("button_group")[0].set_value(track).run()
    at.text_input(key=state.RAY).set_value("127.0.0.1:1").run()
    at = click(at, "Check and start")
    [said] = errors_of(at)
    assert said.startswith("address of the cluster: ") and (
        "nothing answers" in said or "not installed" in said
    )


# The form says what its model is, when asked, until the model is another one.


def test_what_the_model_is_stands_there_until_another_is_named(monkeypatch, tmp_path):
    use_store(tmp_path, monkeypatch)
    asked = []
    monkeypatch.setattr(
        form,
        "ask",
        lambda name, given: asked.append((name, given)) or {"said": ["It is <b>."]},
    )
    at = click(opened("new_audit", run=None), "What is this model?")
    assert "<p>It is &lt;b&gt;.</p>" in html_of(at) and asked[0][0] == "inspect"
    assert asked[0][1]["track"] == FIRST and asked[0][1]["model"]
    about, said = at.session_state["kept_inspected"]
    assert about == asked[0][1]
    at.session_state["kept_inspected"] = ({**about, "model": "another/one"}, said)
    assert "It is" not in html_of(at.run())


def test_a_request_that_takes_long_is_made_to_fit_by_one_click(monkeypatch, tmp_path):
    use_store(tmp_path, monkeypatch)
    fitted = {"seconds": 1500.0, "changed": {"max_prompts": 70}, "said": "With 70 it fits."}
    preset = {"methods": ["fasp", "random_noncritical"], "sparsities": [0.0, 0.1, 0.2]}
    preset |= {"estimator": "gradient", "max_new_tokens": 20, "seeds": 1}

    def answered(name, given):
        return fitted if given.get("within") else {"seconds": 7200.0}

    monkeypatch.setattr(form, "ask", answered)
    for more in ({}, preset):
        fitted["changed"] |= more
        at = click(opened("new_audit", run=None), "How long will it take?")
        at = click(at, "Fit into 30 minutes")
        assert "With 70 it fits" in words_of(at), "the form asks for just what was found to fit"
        filled = [one.value for one in at.number_input if one.label == "Prompts per axis at most"]
        assert filled == [70] and "Fit into 30 minutes" not in [one.label for one in at.button]
    assert "This asks for 1 axis, 2 methods" in words_of(at)

    def refuse(name, given):
        if not given.get("within"):
            return {"seconds": 7200.0}
        raise RequestError(Fault("within", "is too short.", "Give more time."))

    monkeypatch.setattr(form, "ask", refuse)
    at = click(opened("new_audit", run=None), "How long will it take?")
    assert any("Give more time." in one for one in errors_of(click(at, "Fit into 30 minutes")))


def test_a_model_that_cannot_be_taken_says_why(monkeypatch, tmp_path):
    use_store(tmp_path, monkeypatch)

    def refuse(name, given):
        raise RequestError(Fault("model", "<b>cannot</b> be read.", "Give another."))

    monkeypatch.setattr(form, "ask", refuse)
    assert any(
        "cannot" in one and "Give another." in one
        for one in errors_of(click(opened("new_audit", run=None), "What is this model?"))
    )
