"""The form of an audit of heads: axes of the chosen prompts, the protected share, files of one's
own."""

from tests.pages.forms import asked, drawn, key
from tests.tracks.language_models.worlds import write_prompts

HEADS = "language_models"


def test_the_protected_share_is_a_number_or_a_search_and_only_asked_where_it_is_used(
    monkeypatch, tmp_path
):
    at = drawn(HEADS, monkeypatch, tmp_path)
    assert asked(at)["request"]["gamma"] == 0.3
    at.slider(key=key(HEADS, "gamma")).set_value(45).run()
    assert asked(at)["request"]["gamma"] == 0.45
    at.toggle(key=key(HEADS, "gamma_word")).set_value(True).run()
    assert asked(at)["request"]["gamma"] == "search"
    pills = next(item for item in at.button_group if item.key.startswith(key(HEADS, "methods")))
    pills.set_value(["magnitude"]).run()
    assert asked(at)["request"]["methods"] == ["magnitude"] and "gamma" not in asked(at)["request"]


def test_axes_are_those_of_the_chosen_prompts_and_nothing_chosen_is_told(monkeypatch, tmp_path):
    at = drawn(HEADS, monkeypatch, tmp_path)
    where = next(item for item in at.button_group if item.key == key(HEADS, "prompts"))
    where.set_value("Path on this machine").run()
    assert asked(at)["faults"] == ["Prompts: nothing is chosen. Upload a file or name a path."]
    at.text_input(key=key(HEADS, "prompts_path")).set_value(str(write_prompts(tmp_path))).run()
    found = asked(at)
    assert found["faults"] == [] and found["request"]["axes"] == ["nationality"]


def test_settings_of_the_chosen_estimator(monkeypatch, tmp_path):
    at = drawn(HEADS, monkeypatch, tmp_path)
    at.selectbox(key=key(HEADS, "estimator")).set_value("reweight").run()
    numbers = [
        item for item in at.number_input if item.key.startswith(key(HEADS, "estimator_settings"))
    ]
    assert numbers and asked(at)["request"]["estimator_settings"] == {}
