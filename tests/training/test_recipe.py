"""A recipe says what cannot be, and goes to JSON and back."""

import json

import pytest

from engine.training.recipe import LATER, Recipe


def test_a_recipe_goes_to_json_and_back():
    recipe = Recipe(epochs=3, schedule="steps", steps=(1, 2), body_share=0.1, frozen_epochs=1)
    value = json.loads(json.dumps(recipe.to_dict()))
    assert Recipe(**{**value, "steps": tuple(value["steps"])}) == recipe
    assert set(Recipe.known()) == {*value, *LATER}, "what came later is told only where it is used"
    other = Recipe(optimizer="sgd", patience=3)
    assert Recipe(**{**other.to_dict(), "steps": ()}) == other


def test_the_usual_recipe_and_none_at_all_are_fine():
    assert Recipe().faults("retrain") == [] == Recipe(epochs=0).faults("retrain")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", -1),
        ("batch", 1),
        ("rate", 0.0),
        ("rate", float("nan")),
        ("rate", float("inf")),
        ("schedule", "wavy"),
        ("body_share", 1.5),
        ("rate", "high"),
        ("body_share", "all"),
        ("frozen_epochs", -1),
        ("steps", ("a",)),
        ("steps", 3),
        ("weight_decay", -1.0),
        ("mirror", "no"),
        ("patience", -1),
        ("patience", True),
    ],
)
def test_a_value_that_cannot_be_is_named(name, value):
    faults = Recipe(**{name: value}).faults("retrain")
    assert [fault.where for fault in faults] == [f"retrain {name}"]


def test_a_fault_says_why():
    (fault,) = Recipe(batch=1).faults("retrain")
    assert fault.fix == "Give a whole number from 2: batch norm cannot train on one alone."


def test_faults_are_told_together():
    assert (
        len(Recipe(epochs=-1, batch=0, rate=0.0, schedule="x", body_share=2.0).faults("train")) == 5
    )
