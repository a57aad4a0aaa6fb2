"""The form of an audit of filters: what depends on the model, the images and the chosen arms."""

from tests.pages.forms import asked, drawn, key, number, refused

IMAGES = "image_classifiers"


def test_weights_are_asked_of_architectures_and_classes_of_bare_weights(monkeypatch, tmp_path):
    at = drawn(IMAGES, monkeypatch, tmp_path)
    assert "weights" not in asked(at)["request"]
    at.selectbox(key=key(IMAGES, "model")).set_value("resnet18").run()
    at.text_input(key=key(IMAGES, "weights")).set_value("mine.pt").run()
    at.text_input(key=key(IMAGES, "classes")).set_value("cat, dog").run()
    request = asked(at)["request"]
    assert request["weights"] == "mine.pt" and request["classes"] == ["cat", "dog"]


def test_settings_of_the_chosen_arms_and_of_their_loss(monkeypatch, tmp_path):
    at = drawn(IMAGES, monkeypatch, tmp_path)
    number(at, IMAGES, "method_settings_autobot_iterations").set_value(50)
    number(at, IMAGES, "pw_taylor_theta").set_value(0.8)
    request = asked(at.run())["request"]
    assert request["method_settings"] == {"autobot": {"iterations": 50}} and request["pw"] == {
        "taylor": {"theta": 0.8}
    }
    assert not [item for item in at.number_input if item.key.startswith(key(IMAGES, "pw_random"))]


def test_a_recipe_before_the_cut_a_change_and_speedups(monkeypatch, tmp_path):
    at = drawn(IMAGES, monkeypatch, tmp_path)
    at.toggle(key=key(IMAGES, "train")).set_value(True).run()
    assert asked(at)["request"]["train"] == {"epochs": 12, "rate": 3e-3}
    at.toggle(key=key(IMAGES, "mirror")).set_value(True)
    at.text_input(key=key(IMAGES, "speedups")).set_value("2x; 1, x3y")
    at.selectbox(key=key(IMAGES, "changes")).set_value("underrepresent").run()
    found = asked(at)
    assert found["request"]["mirror"] is False and found["request"]["speedups"] == [2.0, 1.0]
    assert found["faults"] == [
        "Target speedups: 'x3y' is not a number. Write numbers such as 2, 4, 16."
    ]
    assert found["request"]["changes"] == [{"name": "underrepresent"}]
    assert "Target speedups: 1.0 is not allowed. Give numbers above 1, such as 2,4,16." in refused(
        found["request"]
    )
