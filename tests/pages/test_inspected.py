"""The form says what its model is, when asked, until the model is another one."""

from __future__ import annotations

from engine.core.errors import Fault, RequestError
from pages.shared import form
from tests.pages.checks import html_of, opened, use_store
from tests.pages.test_refused import FIRST, errors_of


def test_what_the_model_is_stands_there_until_another_is_named(monkeypatch, tmp_path):
    use_store(tmp_path, monkeypatch)
    asked = []
    monkeypatch.setattr(
        form,
        "ask",
        lambda name, given: asked.append((name, given)) or {"said": ["It is <b>."]},
    )
    at = pressed(opened("new_audit", run=None))
    assert "<p>It is &lt;b&gt;.</p>" in html_of(at) and asked[0][0] == "inspect"
    assert asked[0][1]["track"] == FIRST and asked[0][1]["model"]
    about, said = at.session_state["kept_inspected"]
    assert about == asked[0][1]
    at.session_state["kept_inspected"] = ({**about, "model": "another/one"}, said)
    assert "It is" not in html_of(at.run())


def test_a_model_that_cannot_be_taken_says_why(monkeypatch, tmp_path):
    use_store(tmp_path, monkeypatch)

    def refuse(name: str, given: dict) -> dict:
        raise RequestError(Fault("model", "<b>cannot</b> be read.", "Give another."))

    monkeypatch.setattr(form, "ask", refuse)
    assert any(
        "cannot" in one and "Give another." in one
        for one in errors_of(pressed(opened("new_audit", run=None)))
    )


def pressed(at):
    return next(one for one in at.button if one.label == "What is this model?").click().run()
