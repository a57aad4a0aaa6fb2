"""A model that guesses gets no verdict: no sentence, no colour, no advice."""

import pytest

from engine.report import story
from engine.report.contents import default_choice
from engine.report.verdict import verdict
from engine.store.runs import Store
from tests.builders import parts_of
from tests.made_up import choices, small


@pytest.mark.parametrize(
    "why", ["could be guessing (AUC 0.48)", "predicts one class for every text"]
)
def test_no_verdict_on_cuts_of_a_model_that_has_not_learned_its_task(tmp_path, why):
    learned = small("text_classifiers", tmp_path / "learned", "learned")
    meta, tables = parts_of(learned)
    if "AUC" in why:
        rows = tables["results"]
        is_auc = (rows["metric"] == "auc") & (rows["axis"] == "") & (rows["variant"] == "dense")
        rows.loc[is_auc, ["value", "low", "high"]] = 0.48, 0.42, 0.54
    else:
        rows = tables["variants"]
        rows.loc[rows["variant"] == "dense", "degenerate"] = rows["pooled"].eq("dense").sum() or 1
    run = Store(tmp_path / "guesses").write("guesses", meta, tables)
    kinds = []
    for choice in choices(run):
        said = verdict(run, choice)
        assert why in said.sentence
        assert said.meaning == said.advice.said == ""
        kinds += [fact.kind for fact in said.numbers]
        sure = story.step(run, choice, "how_sure").sentence
        assert sure == said.sentence
        if choice.level != 0:
            assert sure == story.step(run, choice, "who_pays").sentence
    assert set(kinds) == {"", "no verdict"}
    before = verdict(learned, default_choice(learned))
    assert "guessing" not in before.sentence and "no verdict" not in str(before.numbers)
